// Parses the patterns of regex.h and turns them into programs.
#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "regex/regex.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::regex {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr size_t kMaxProgram = 20'000;
constexpr size_t kMaxEmitted = 1'000'000;  // nodes walked while the program is written
constexpr size_t kMaxClasses = 4096;
constexpr int kMaxNesting = 100;       // of groups and classes
constexpr int kMaxHeight = 500;        // of the tree of nodes, which is walked by recursion
static_assert(kMaxProgram < 1 << 16);  // Regex::Frame
constexpr uint32_t kUnbounded = 0xFFFFFFFF;
constexpr size_t kShortLiteral = 64;  // up to this size the plain search is quick on any text

enum class NodeKind { kEmpty, kOne, kConcat, kAlternate, kRepeat, kAssert, kLook, kAtomic };
enum class Repeat { kGreedy, kLazy, kPossessive };

}  // namespace

// Recursive descent; an error in the pattern sets error_, which stops it.
class RegexCompiler {
 public:
  explicit RegexCompiler(std::string_view pattern) : pattern_(pattern) {}

  Expected<Regex> Run() {
    if (pattern_.size() > kMaxPatternBytes) return Status::Unsupported("regex is too long");
    if (!IsValidUtf8(pattern_)) return Status::InvalidArgument("regex is not valid UTF-8");
    NodePtr root = ParseAlternate(Flags{}, 0);
    if (error_.empty() && at_ < pattern_.size()) Fail("unmatched )");
    if (error_.empty()) {
      MarkEmpty(root.get());
      Emit(root.get());
      Push({Regex::Op::kMatch});
    }
    if (!error_.empty()) {
      return Status::Unsupported("regex " + std::string(pattern_.substr(0, 200)) + ": " + error_);
    }
    regex_.can_be_empty_ = root->can_be_empty;
    regex_.Analyse();
    return std::move(regex_);
  }

 private:
  using Op = Regex::Op;
  struct Flags {
    bool ignore_case = false;
    bool dot_all = false;
  };
  struct Node;
  using NodePtr = std::unique_ptr<Node>;
  struct Node {
    NodeKind kind = NodeKind::kEmpty;
    Regex::Inst inst{Op::kMatch};  // kOne, kAssert; op of kLook
    std::vector<NodePtr> kids;
    uint32_t min = 0, max = 0;
    Repeat repeat = Repeat::kGreedy;
    int height = 1;
    bool can_be_empty = false;     // valid after MarkEmpty
    std::optional<uint32_t> loop;  // kRepeat of one character: its class, once it was emitted
  };

  void Fail(const std::string& why) {
    if (error_.empty()) error_ = why;
    at_ = pattern_.size();
  }
  bool More() const { return at_ < pattern_.size(); }
  bool Eat(std::string_view s) {
    if (pattern_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  char32_t Next() {
    int length;
    const char32_t c = unicode::DecodeUtf8(pattern_.data() + at_, &length);
    at_ += length;
    return c;
  }
  static NodePtr Make(NodeKind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    return node;
  }
  // Every node gets its kids here, so that no tree is higher than kMaxHeight at any time.
  void Adopt(Node* parent, NodePtr kid) {
    parent->height = std::max(parent->height, kid->height + 1);
    if (parent->height > kMaxHeight) Fail("nested too deeply");
    parent->kids.push_back(std::move(kid));
  }
  NodePtr MakeClass(CharClass set) {
    auto node = Make(NodeKind::kOne);
    node->inst = {Op::kClass};
    if (!set.Finish()) {
      Fail("class of too many parts");
    } else if (regex_.classes_.size() >= kMaxClasses) {
      Fail("too many classes");
    } else {
      node->inst.x = uint32_t(regex_.classes_.size());
      node->inst.y = set.cost() / 4;
      regex_.classes_.push_back(std::move(set));
    }
    return node;
  }
  static NodePtr MakeAssert(Op op) {
    auto node = Make(NodeKind::kAssert);
    node->inst.op = op;
    return node;
  }

  NodePtr ParseAlternate(Flags flags, int depth) {
    auto node = Make(NodeKind::kAlternate);
    if (depth > kMaxNesting) {
      Fail("nested too deeply");
      return node;
    }
    do {
      Adopt(node.get(), ParseConcat(&flags, depth));
    } while (Eat("|"));
    if (node->kids.size() == 1) return std::move(node->kids[0]);
    return node;
  }

  NodePtr ParseConcat(Flags* flags, int depth) {
    auto node = Make(NodeKind::kConcat);
    char32_t last_letter = 0;  // for (?i): pairs such as ss also match one character
    while (More() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      const size_t begin = at_;
      NodePtr atom = ParseAtom(flags, depth);
      if (!error_.empty()) break;
      if (flags->ignore_case) {
        const char32_t letter = at_ == begin + 1 ? char32_t(pattern_[begin] | 0x20) : 0;
        const bool folds =
            (letter == 's' && last_letter == 's') || (letter == 't' && last_letter == 's') ||
            ((letter == 'f' || letter == 'i' || letter == 'l') && last_letter == 'f');
        if (folds) Fail("letters with a ligature under (?i)");
        last_letter = letter;
      }
      Adopt(node.get(), ParseRepeats(std::move(atom)));
    }
    return node;
  }

  NodePtr ParseRepeats(NodePtr atom) {
    while (More()) {
      uint32_t min, max;
      bool counted = false;
      if (Eat("*")) {
        min = 0, max = kUnbounded;
      } else if (Eat("+")) {
        min = 1, max = kUnbounded;
      } else if (Eat("?")) {
        min = 0, max = 1;
      } else if (pattern_[at_] == '{' && ParseCount(&min, &max)) {
        counted = true;
      } else {
        break;
      }
      if (!error_.empty()) break;
      if (atom->kind == NodeKind::kAssert || atom->kind == NodeKind::kLook) {
        Fail("a repeated assertion");
        break;
      }
      auto node = Make(NodeKind::kRepeat);
      node->min = min;
      node->max = max;
      if (Eat("?")) {
        if (counted && min == max) Fail("{n}? is ambiguous");
        node->repeat = Repeat::kLazy;
      } else if (!counted && Eat("+")) {  // in Ruby syntax {n,m}+ is a repeat of a repeat
        node->repeat = Repeat::kPossessive;
      }
      Adopt(node.get(), std::move(atom));
      atom = std::move(node);
    }
    return atom;
  }

  bool ParseCount(uint32_t* min, uint32_t* max) {
    size_t p = at_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      const size_t begin = p;
      uint32_t value = 0;
      while (p < pattern_.size() && pattern_[p] >= '0' && pattern_[p] <= '9') {
        value = value * 10 + uint32_t(pattern_[p++] - '0');
        if (value > 1000) return std::nullopt;
      }
      if (p == begin) return std::nullopt;
      return value;
    };
    const auto low = number();
    const bool comma = p < pattern_.size() && pattern_[p] == ',';
    if (comma) ++p;
    const auto high = number();
    if (p >= pattern_.size() || pattern_[p] != '}' || (!low && !(comma && high))) {
      Fail("{ that is not a count up to 1000");
      return false;
    }
    *min = low.value_or(0);
    *max = !comma ? *min : high.value_or(kUnbounded);
    at_ = p + 1;
    if (*min > *max) Fail("{n,m} with n > m");
    return true;
  }

  NodePtr ParseAtom(Flags* flags, int depth) {
    const char c = pattern_[at_];
    if (c == '(') return ParseGroup(flags, depth);
    if (c == '[') {
      ++at_;
      CharClass set = ParseClass(depth);
      if (error_.empty() && flags->ignore_case && !set.FoldCase()) Fail("class under (?i)");
      return MakeClass(std::move(set));
    }
    if (c == '\\') return ParseEscape(*flags);
    if (Eat(".")) {
      auto node = Make(NodeKind::kOne);
      node->inst.op = flags->dot_all ? Op::kAny : Op::kAnyLine;
      return node;
    }
    if (Eat("^")) return MakeAssert(Op::kLineBegin);
    if (Eat("$")) return MakeAssert(Op::kLineEnd);
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      Fail("nothing to repeat");
      return Make(NodeKind::kEmpty);
    }
    return MakeChar(Next(), *flags);
  }

  NodePtr MakeChar(char32_t c, Flags flags) {
    if (flags.ignore_case) {
      const auto made = folded_.find(c);
      if (made != folded_.end()) {
        auto node = Make(NodeKind::kOne);
        node->inst = {Op::kClass, made->second};
        return node;
      }
      CharClass set;
      set.AddRange(c, c);
      if (!set.FoldCase()) Fail("cased character past ASCII under (?i)");
      auto node = MakeClass(std::move(set));
      folded_[c] = node->inst.x;
      return node;
    }
    auto node = Make(NodeKind::kOne);
    node->inst = {Op::kChar, uint32_t(c)};
    return node;
  }

  NodePtr ParseGroup(Flags* flags, int depth) {
    ++at_;
    const auto body_of = [&](NodeKind kind, Op op) {
      auto node = Make(kind);
      node->inst.op = op;
      Adopt(node.get(), ParseAlternate(*flags, depth + 1));
      if (error_.empty() && !Eat(")")) Fail("missing )");
      return node;
    };
    if (Eat("?=")) return body_of(NodeKind::kLook, Op::kLook);
    if (Eat("?!")) return body_of(NodeKind::kLook, Op::kNotLook);
    if (Eat("?>")) return body_of(NodeKind::kAtomic, Op::kAtomic);
    const bool behind = Eat("?<=");
    if (behind || Eat("?<!")) {
      auto node = body_of(NodeKind::kAssert, behind ? Op::kLookBehind : Op::kNotLookBehind);
      return FinishLookBehind(std::move(node));
    }
    if (Eat("?:")) return std::move(body_of(NodeKind::kConcat, Op::kMatch)->kids[0]);
    if (!Eat("?")) return std::move(body_of(NodeKind::kConcat, Op::kMatch)->kids[0]);
    // (?i), (?m), (?i:...), (?-i:...): m is "dot matches newline" in Ruby.
    Flags inner = *flags;
    bool on = true;
    while (More() && pattern_[at_] != ')' && pattern_[at_] != ':') {
      const char32_t c = Next();
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        inner.ignore_case = on;
      } else if (c == 'm') {
        inner.dot_all = on;
      } else {
        Fail("group (?" + std::string(1, char(c)));
      }
    }
    if (Eat(")")) {  // holds to the end of the enclosing group, over its alternatives
      auto node = Make(NodeKind::kConcat);
      Adopt(node.get(), ParseAlternate(inner, depth + 1));
      return node;
    }
    Eat(":");
    auto node = ParseAlternate(inner, depth + 1);
    if (error_.empty() && !Eat(")")) Fail("missing )");
    return node;
  }

  // Look-behind of one character: (?<=x), (?<![..]).
  NodePtr FinishLookBehind(NodePtr node) {
    if (!error_.empty()) return node;
    Node* body = node->kids[0].get();
    while (body->kind == NodeKind::kConcat && body->kids.size() == 1) body = body->kids[0].get();
    if (body->kind != NodeKind::kOne ||
        (body->inst.op != Op::kClass && body->inst.op != Op::kChar)) {
      Fail("look-behind of more than one character");
      return node;
    }
    if (body->inst.op == Op::kClass) {
      node->inst.x = body->inst.x;
      node->inst.y = body->inst.y;
    } else {
      CharClass set;
      set.AddRange(body->inst.x, body->inst.x);
      node->inst.x = MakeClass(std::move(set))->inst.x;
    }
    node->kids.clear();
    return node;
  }

  // The class of \s, \p{..} and so on; nothing if the escape stands for one character.
  std::optional<CharClass> ClassEscape(bool in_brackets) {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    CharClass set;
    switch (c) {
      case 's':
      case 'S':
        set.AddProperty(unicode::kUniRegexSpace, c == 'S');
        break;
      case 'w':
      case 'W':
        set.AddProperty(unicode::kUniRegexWord, c == 'W' || in_brackets);
        if (in_brackets) {
          // Oniguruma has two tables: these are in \w and not in [\w].
          for (char32_t number : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) set.AddRange(number, number);
          if (c == 'w') set.Negate();
        }
        break;
      case 'd':
      case 'D':
        set.AddCategories(1u << unicode::kCatNd, c == 'D');
        break;
      case 'h':
      case 'H':
        set.AddRange('0', '9');
        set.AddRange('a', 'f');
        set.AddRange('A', 'F');
        if (c == 'H') set.Negate();
        break;
      case 'p':
      case 'P':
        return PropertyEscape(c == 'P');
      default:
        return std::nullopt;
    }
    at_ += 2;
    return set;
  }

  CharClass PropertyEscape(bool negated) {
    CharClass set;
    at_ += 2;
    const size_t close = pattern_.find('}', at_);
    if (!Eat("{") || close == std::string_view::npos) {
      Fail("\\p without {}");
      return set;
    }
    if (Eat("^")) negated = !negated;
    const std::string name(pattern_.substr(at_, close - at_));
    at_ = close + 1;
    if (const uint32_t mask = unicode::UnicodeCategoryMaskByName(name)) {
      set.AddCategories(mask, negated);
    } else if (name == "Han") {
      set.AddProperty(unicode::kUniHan, negated);
    } else {
      Fail("property " + name);
    }
    return set;
  }

  // One character written as an escape; at_ is at the backslash.
  char32_t CharEscape() {
    ++at_;
    if (!More()) {
      Fail("\\ at the end");
      return 0;
    }
    const char32_t c = Next();
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return 7;
      case 'e':
        return 27;
      case 'u':
        return HexDigits(4, 4);
      case 'x':
        if (Eat("{")) {
          const char32_t value = HexDigits(1, 8);
          if (!Eat("}")) Fail("\\x{ without }");
          return value;
        }
        // Two digits past 7F would be a byte, not a character.
        {
          const char32_t value = HexDigits(1, 2);
          if (value > 0x7F) Fail("\\x past 7F");
          return value;
        }
      default:
        break;
    }
    const bool word =
        c < 128 && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
    if (word) Fail(std::string("escape \\") + char(c));
    return c;
  }

  char32_t HexDigits(int least, int most) {
    char32_t value = 0;
    int count = 0;
    for (; count < most && More(); ++count) {
      const char c = pattern_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + char32_t(digit);
      ++at_;
    }
    if (count < least || value > 0x10FFFF) Fail("bad hexadecimal escape");
    return value;
  }

  NodePtr ParseEscape(Flags flags) {
    if (auto set = ClassEscape(false)) {
      if (flags.ignore_case && !set->FoldCase()) Fail("class under (?i)");
      return MakeClass(std::move(*set));
    }
    switch (at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0') {
      case 'A':
        at_ += 2;
        return MakeAssert(Op::kTextBegin);
      case 'z':
        at_ += 2;
        return MakeAssert(Op::kTextEnd);
      case 'Z':
        at_ += 2;
        return MakeAssert(Op::kTextEndOrNewline);
      case 'b':
        at_ += 2;
        return MakeAssert(Op::kWordEdge);
      case 'B':
        at_ += 2;
        return MakeAssert(Op::kNotWordEdge);
      default:
        return MakeChar(CharEscape(), flags);
    }
  }

  // After [ up to and including ].
  CharClass ParseClass(int depth) {
    CharClass set;
    if (depth > kMaxNesting) Fail("nested too deeply");
    const bool negated = Eat("^");
    std::vector<CharClass> others;  // finished operands of &&
    bool first = true;
    while (error_.empty()) {
      if (!More()) {
        Fail("missing ]");
        break;
      }
      if (!first && Eat("]")) break;
      if (first && pattern_[at_] == ']') {
        Fail("] first in a class");  // which leaves nothing to read
        break;
      }
      first = false;
      if (Eat("&&")) {
        others.push_back(std::move(set));
        set = CharClass();
        continue;
      }
      if (Eat("[:")) {
        Fail("POSIX bracket");
      } else if (Eat("[")) {
        set.AddClass(ParseClass(depth + 1));
      } else if (pattern_[at_] == '\\') {
        if (auto escape = ClassEscape(true)) {
          set.AddClass(std::move(*escape));
        } else {
          ParseRange(CharEscape(), &set);
        }
      } else {
        ParseRange(Next(), &set);
      }
    }
    for (CharClass& other : others) set.Intersect(std::move(other));
    if (others.empty()) {
      if (negated) set.Negate();
      return set;
    }
    CharClass outer;
    outer.AddClass(std::move(set));
    if (negated) outer.Negate();
    return outer;
  }

  void ParseRange(char32_t first, CharClass* set) {
    char32_t last = first;
    if (at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']') {
      ++at_;
      if (pattern_[at_] == '[') {
        Fail("range up to a class");
        return;
      }
      if (pattern_[at_] == '\\') {
        const char next = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
        if (std::string_view("sSwWdDhHpP").find(next) != std::string_view::npos) {
          Fail("range up to a class");
          return;
        }
        last = CharEscape();
      } else {
        last = Next();
      }
    }
    if (last < first) Fail("range that runs backwards");
    set->AddRange(first, last);
  }

  // Finds which nodes can match the empty string, bottom up.
  static void MarkEmpty(Node* node) {
    bool all = true, any = false;
    for (const NodePtr& kid : node->kids) {
      MarkEmpty(kid.get());
      all = all && kid->can_be_empty;
      any = any || kid->can_be_empty;
    }
    switch (node->kind) {
      case NodeKind::kOne:
        node->can_be_empty = false;
        break;
      case NodeKind::kConcat:
      case NodeKind::kAtomic:
        node->can_be_empty = all;
        break;
      case NodeKind::kAlternate:
        node->can_be_empty = any;
        break;
      case NodeKind::kRepeat:
        node->can_be_empty = node->min == 0 || all;
        break;
      default:
        node->can_be_empty = true;
        break;
    }
  }

  uint32_t Push(Regex::Inst inst) {
    if (regex_.program_.size() >= kMaxProgram) {
      Fail("program is too long");
      return 0;
    }
    regex_.program_.push_back(inst);
    return uint32_t(regex_.program_.size() - 1);
  }
  uint32_t Here() const { return uint32_t(regex_.program_.size()); }
  Regex::Inst& At(uint32_t pc) { return regex_.program_[pc]; }

  void Emit(Node* tree) {
    if (!error_.empty()) return;
    // Counted loops walk their body as often as they run, even where it gives no instruction.
    if (++emitted_ > kMaxEmitted) return Fail("program is too long");
    const Node& node = *tree;
    switch (node.kind) {
      case NodeKind::kEmpty:
        break;
      case NodeKind::kOne:
      case NodeKind::kAssert:
        Push(node.inst);
        break;
      case NodeKind::kConcat:
        for (const auto& kid : node.kids) Emit(kid.get());
        break;
      case NodeKind::kAlternate: {
        std::vector<uint32_t> jumps;
        for (size_t i = 0; i < node.kids.size(); ++i) {
          if (i + 1 == node.kids.size()) {
            Emit(node.kids[i].get());
            break;
          }
          const uint32_t split = Push({Op::kSplit, Here() + 1});
          Emit(node.kids[i].get());
          jumps.push_back(Push({Op::kJump}));
          if (error_.empty()) At(split).y = Here();
        }
        for (uint32_t jump : jumps) {
          if (error_.empty()) At(jump).x = Here();
        }
        break;
      }
      case NodeKind::kLook:
      case NodeKind::kAtomic: {
        const uint32_t look = Push({node.inst.op});
        if (error_.empty()) At(look).x = Here();
        Emit(node.kids[0].get());
        Push({Op::kMatch});
        if (error_.empty()) At(look).y = Here();
        break;
      }
      case NodeKind::kRepeat:
        EmitRepeat(tree);
        break;
    }
  }

  // The class of a repeated character.
  uint32_t LoopClass(Node* repeat) {
    const Regex::Inst& inst = repeat->kids[0]->inst;
    if (inst.op == Op::kClass) return inst.x;
    if (!repeat->loop) {
      CharClass one;
      if (inst.op == Op::kChar) one.AddRange(inst.x, inst.x);
      if (inst.op == Op::kAnyLine) one.AddRange('\n', '\n');
      if (inst.op != Op::kChar) one.Negate();
      repeat->loop = MakeClass(std::move(one))->inst.x;
    }
    return *repeat->loop;
  }

  void EmitRepeat(Node* tree) {
    const Node& node = *tree;
    Node* const body = node.kids[0].get();
    if (body->kind == NodeKind::kOne) {
      const uint32_t set = LoopClass(tree);
      const Op op = node.repeat == Repeat::kGreedy ? Op::kLoop
                    : node.repeat == Repeat::kLazy ? Op::kLazyLoop
                                                   : Op::kHardLoop;
      Push({op, set, body->inst.y, node.min, node.max});
      return;
    }
    if (node.max == kUnbounded && body->can_be_empty) {
      Fail("unbounded repeat of what can be empty");
      return;
    }
    uint32_t atomic = 0;
    if (node.repeat == Repeat::kPossessive) {
      atomic = Push({Op::kAtomic});
      if (error_.empty()) At(atomic).x = Here();
    }
    const bool lazy = node.repeat == Repeat::kLazy;
    for (uint32_t i = 0; i < node.min && error_.empty(); ++i) Emit(body);
    const auto split_to = [&](uint32_t split, uint32_t target) {
      if (!error_.empty()) return;
      (lazy ? At(split).y : At(split).x) = split + 1;
      (lazy ? At(split).x : At(split).y) = target;
    };
    if (node.max == kUnbounded) {
      const uint32_t split = Push({Op::kSplit});
      Emit(body);
      Push({Op::kJump, split});
      split_to(split, Here());
    } else {
      std::vector<uint32_t> splits;
      for (uint32_t i = node.min; i < node.max && error_.empty(); ++i) {
        splits.push_back(Push({Op::kSplit}));
        Emit(body);
      }
      for (uint32_t split : splits) split_to(split, Here());
    }
    if (node.repeat == Repeat::kPossessive) {
      Push({Op::kMatch});
      if (error_.empty()) At(atomic).y = Here();
    }
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string error_;
  size_t emitted_ = 0;
  std::unordered_map<char32_t, uint32_t> folded_;  // classes of characters under (?i)
  Regex regex_;
};

Expected<Regex> Regex::Compile(std::string_view pattern) { return RegexCompiler(pattern).Run(); }

Regex Regex::Literal(std::string_view literal) {
  Regex regex;
  regex.literal_ = literal;
  regex.program_.push_back({Op::kMatch});  // of the empty literal
  regex.can_be_empty_ = literal.empty();
  if (literal.size() <= kShortLiteral) return regex;
  regex.borders_.resize(literal.size());
  for (size_t i = 1, border = 0; i < literal.size(); ++i) {
    while (border > 0 && literal[i] != literal[border]) border = regex.borders_[border - 1];
    border += literal[i] == literal[border];
    regex.borders_[i] = uint32_t(border);
  }
  return regex;
}

// Finds which characters can start a match, by following the program up to the first character.
void Regex::Analyse() {
  for (Inst& inst : program_) {
    if (inst.op == Op::kSplit) inst.min = splits_++;
  }
  first_known_ = !can_be_empty_;
  bool beyond_ascii = false;
  std::vector<uint32_t> open = {0};
  std::vector<bool> seen(program_.size());
  const auto add = [&](const Inst& inst) {
    for (char32_t c = 0; c < 128; ++c) starts_[c] = starts_[c] || Single(inst, c);
    const bool any = inst.op == Op::kAny || inst.op == Op::kAnyLine;
    beyond_ascii =
        beyond_ascii || any ||
        (inst.op == Op::kChar ? inst.x >= 128 : classes_[inst.x].MatchesAnyBeyondAscii());
  };
  while (!open.empty() && first_known_) {
    const uint32_t pc = open.back();
    open.pop_back();
    if (seen[pc]) continue;
    seen[pc] = true;
    const Inst& inst = program_[pc];
    switch (inst.op) {
      case Op::kChar:
      case Op::kClass:
      case Op::kAny:
      case Op::kAnyLine:
        add(inst);
        break;
      case Op::kLoop:
      case Op::kLazyLoop:
      case Op::kHardLoop:
        if (inst.max > 0) add({Op::kClass, inst.x});
        if (inst.min == 0) open.push_back(pc + 1);
        break;
      case Op::kSplit:
        open.push_back(inst.y);
        open.push_back(inst.x);
        break;
      case Op::kJump:
        open.push_back(inst.x);
        break;
      case Op::kMatch:
        first_known_ = false;
        break;
      case Op::kAtomic:
        first_known_ = false;
        break;
      case Op::kLook:
      case Op::kNotLook:
        open.push_back(inst.y);
        break;
      default:
        open.push_back(pc + 1);
        break;
    }
  }
  // Characters past ASCII start with one of these.
  for (size_t lead = 0xC0; lead < 0x100; ++lead) starts_[lead] = beyond_ascii;
}

}  // namespace penstock::regex
