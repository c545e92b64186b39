// The matcher of regex.h; regex_compile.cc makes the programs.
#include <algorithm>

#include "regex/regex.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::regex {

namespace {
constexpr size_t kMaxRememberedBits = size_t(64) << 20;
constexpr size_t kMaxKeptFrames = 1 << 16;
constexpr size_t kMaxText = 0xFFFFFFFE;  // Frame::at
constexpr size_t kLongLoop = 16;         // bytes; shorter runs are not worth remembering
}  // namespace

bool Regex::Single(const Inst& inst, char32_t c) const {
  switch (inst.op) {
    case Op::kChar:
      return c == inst.x;
    case Op::kAny:
      return true;
    case Op::kAnyLine:
      return c != '\n';
    default:
      return classes_[inst.x].Matches(c);
  }
}

bool Regex::Assertion(Op op, uint32_t x, std::string_view text, size_t at) const {
  const auto is_word = [&](bool before) {
    if (before ? at == 0 : at == text.size()) return false;
    int length;
    const char32_t c = before ? unicode::DecodeUtf8Before(text.data() + at, &length)
                              : unicode::DecodeUtf8(text.data() + at, &length);
    return (unicode::UnicodeProps(c) & unicode::kUniRegexWord) != 0;
  };
  switch (op) {
    case Op::kLineBegin:
      return at == 0 || (text[at - 1] == '\n' && at < text.size());
    case Op::kLineEnd:
      return at == text.size() || text[at] == '\n';
    case Op::kTextBegin:
      return at == 0;
    case Op::kTextEnd:
      return at == text.size();
    case Op::kTextEndOrNewline:
      return at == text.size() || (at + 1 == text.size() && text[at] == '\n');
    case Op::kWordEdge:
      return is_word(true) != is_word(false);
    case Op::kNotWordEdge:
      return is_word(true) == is_word(false);
    case Op::kLookBehind:
    case Op::kNotLookBehind: {
      bool hit = false;
      if (at > 0) {
        int length;
        hit = classes_[x].Matches(unicode::DecodeUtf8Before(text.data() + at, &length));
      }
      return hit == (op == Op::kLookBehind);
    }
    default:
      return false;
  }
}

// A search of one text for all matches, with the failures and matches it remembers. They hold for
// any start: no instruction depends on how a point was reached.
struct Regex::Search {
  std::string_view text;
  RegexBudget* budget = nullptr;
  int64_t steps = 0;           // left of the current slice
  int64_t granted = 0;         // steps of that slice at first
  int64_t remember_below = 0;  // of `steps`: below it splits are remembered, which costs memory
  int64_t remember_at = 0;     // the same, of the whole budget
  std::vector<Frame> stack;
  // By place in the program: range in which an endless loop fails if it reaches its minimum there.
  // {1, 0}: unknown, as for all places not in failed_at.
  std::vector<ByteRange> failed_loops;
  std::vector<uint32_t> failed_at;
  // Bit split * (text size + 1) + byte: the split is known to fail there, or to lead to the end of
  // its lookahead.
  std::vector<bool> failed_splits, good_splits;

  // Begins a new text and forgets the last one, even if its search was cut short.
  void Start(std::string_view new_text, size_t program_size, RegexBudget* new_budget) {
    Forget();
    text = new_text;
    budget = new_budget;
    if (failed_loops.size() < program_size) failed_loops.resize(program_size, {1, 0});
    remember_at = budget->steps - 100'000 - 40 * int64_t(text.size());
    Grant();
  }
  void Finish() {
    Return();
    Forget();
    if (stack.capacity() > kMaxKeptFrames) std::vector<Frame>().swap(stack);
  }
  // Called when the slice is spent: takes the next one; false: the budget of steps is spent.
  bool Refill() {
    Return();
    if (budget->steps <= 0) return false;
    if (budget->work != nullptr && !budget->work->status().ok()) return false;
    Grant();
    return true;
  }

  bool remembers() const { return !failed_splits.empty(); }
  void StartRemembering(size_t splits) {
    remember_at = remember_below = -(int64_t(1) << 62);  // once
    const size_t bits = splits * (text.size() + 1);
    if (bits > kMaxRememberedBits) return;
    good_splits.resize(bits);
    failed_splits.resize(bits);
  }
  void Push(const Frame& frame) {
    if (stack.size() >= kMaxFrames) [[unlikely]] {
      budget->steps = granted = steps = 0;  // the next step fails
      return;
    }
    stack.push_back(frame);
  }
  void SetFailed(uint32_t pc, ByteRange range) {
    ByteRange& failed = failed_loops[pc];
    if (failed.begin > failed.end) failed_at.push_back(pc);
    failed = range;
  }

 private:
  void Grant() {
    granted = steps = std::min(budget->steps, Work::kSlice);
    remember_below = remember_at - (budget->steps - granted);
  }
  void Return() {
    const int64_t spent = granted - steps;
    budget->steps -= spent;
    granted = steps = 0;
    if (budget->work != nullptr) budget->work->Spend(size_t(std::max<int64_t>(spent, 0)));
  }
  void Forget() {
    stack.clear();
    for (uint32_t pc : failed_at) failed_loops[pc] = {1, 0};
    failed_at.clear();
    if (!good_splits.empty()) {
      std::vector<bool>().swap(failed_splits);
      std::vector<bool>().swap(good_splits);
    }
  }

 public:
  size_t Bit(const Inst& split, size_t at) const {
    return size_t(split.min) * (text.size() + 1) + at;
  }
};

bool Regex::Backtrack(Search* search, size_t base, uint32_t* pc, size_t* at) const {
  std::vector<Frame>& stack = search->stack;
  while (stack.size() > base) {
    Frame& frame = stack.back();
    const Inst& from = program_[frame.pc];
    switch (frame.kind) {
      case Frame::kSecondWay:
        *at = frame.at;
        *pc = from.y;
        if (search->remembers()) {
          frame.kind = Frame::kSpentSplit;
        } else {
          stack.pop_back();
        }
        return true;
      case Frame::kGiveBack: {
        size_t back = frame.at - 1;
        while (unicode::IsUtf8Continuation(static_cast<unsigned char>(search->text[back]))) --back;
        *at = back;
        frame.at = uint32_t(back);
        *pc = frame.pc + 1;
        if (back == frame.extra) stack.pop_back();
        return true;
      }
      case Frame::kTakeMore: {
        const bool endless = from.max == kInfinite;
        const ByteRange failed = search->failed_loops[frame.pc];
        int length;
        if ((endless || frame.extra < from.max) && frame.at < search->text.size() &&
            classes_[from.x].Matches(
                unicode::DecodeUtf8(search->text.data() + frame.at, &length))) {
          frame.at += length;
          if (endless && failed.begin <= frame.at && frame.at <= failed.end) {
            search->SetFailed(frame.pc, {frame.extra, failed.end});
            break;
          }
          if (!endless) ++frame.extra;
          *at = frame.at;
          *pc = frame.pc + 1;
          return true;
        }
        if (endless) search->SetFailed(frame.pc, {frame.extra, frame.at});
        break;
      }
      case Frame::kSpentSplit:
        search->failed_splits[search->Bit(from, frame.at)] = true;
        break;
      case Frame::kSpentLoop:
        search->SetFailed(frame.pc, {frame.at, frame.extra});
        break;
    }
    stack.pop_back();
  }
  return false;
}

// Backtracking with an explicit stack. A frame of a loop stands for all the shorter runs it may
// still give back, one character at a time.
//
// Long: one case an instruction, which share the registers of the machine.
Regex::Found Regex::Run(Search* search, uint32_t pc, size_t at, bool look, size_t* end) const {
  std::vector<Frame>& stack = search->stack;
  const size_t base = stack.size();
  const char* data = search->text.data();
  const size_t size = search->text.size();
  Found result = Found::kNo;
  for (bool done = false; !done;) {
    bool failed = false;
    const Inst& inst = program_[pc];
    if (--search->steps < 0 && !search->Refill()) {
      result = Found::kTooManySteps;
      break;
    }
    switch (inst.op) {
      case Op::kChar:
      case Op::kClass:
      case Op::kAny:
      case Op::kAnyLine: {
        int length;
        if (at < size && Single(inst, unicode::DecodeUtf8(data + at, &length))) {
          at += length;
          ++pc;
        } else {
          failed = true;
        }
        search->steps -= inst.y;
        break;
      }
      case Op::kLoop:
      case Op::kHardLoop:
      case Op::kLazyLoop:
        failed = !Loop(search, pc, &at);
        ++pc;
        break;
      case Op::kSplit:
        if (search->steps < search->remember_below) search->StartRemembering(splits_);
        if (search->remembers()) {
          const size_t bit = search->Bit(inst, at);
          if (search->failed_splits[bit]) {
            failed = true;
            break;
          }
          done = look && search->good_splits[bit];
          if (done) break;
        }
        search->Push({uint16_t(pc), Frame::kSecondWay, uint32_t(at), 0});
        pc = inst.x;
        break;
      case Op::kJump:
        pc = inst.x;
        break;
      case Op::kMatch:
        done = true;
        break;
      case Op::kLook:
      case Op::kNotLook:
      case Op::kAtomic: {
        size_t inner = at;
        const Found found = Run(search, inst.x, at, inst.op != Op::kAtomic, &inner);
        if (found == Found::kTooManySteps) {
          stack.resize(base);
          return found;
        }
        failed = (found == Found::kYes) == (inst.op == Op::kNotLook);
        if (inst.op == Op::kAtomic && !failed) at = inner;
        pc = inst.y;
        break;
      }
      default:
        failed = !Assertion(inst.op, inst.x, search->text, at);
        search->steps -= inst.y;
        ++pc;
    }
    if (done) result = Found::kYes;
    if (failed && !Backtrack(search, base, &pc, &at)) break;
  }
  if (result == Found::kYes) {
    *end = at;
    // The splits still on the stack are those of the path to this match.
    for (size_t i = stack.size(); look && search->remembers() && i > base; --i) {
      const Frame& frame = stack[i - 1];
      if (frame.kind != Frame::kSecondWay && frame.kind != Frame::kSpentSplit) continue;
      search->good_splits[search->Bit(program_[frame.pc], frame.at)] = true;
    }
  }
  stack.resize(base);
  return result;
}

// Runs one class as often as the loop wants at first; false if that is too seldom, or is known to
// fail.
bool Regex::Loop(Search* search, uint32_t pc, size_t* at) const {
  const Inst& inst = program_[pc];
  const CharClass& set = classes_[inst.x];
  const std::string_view text = search->text;
  uint32_t count = 0;
  const auto take = [&](uint32_t limit, size_t stop) {
    while (count < limit && *at < stop) {
      int length;
      if (!set.Matches(unicode::DecodeUtf8(text.data() + *at, &length))) break;
      *at += length;
      ++count;
    }
    search->steps -= int64_t(count / 8) * (1 + inst.y);
  };
  take(inst.min, text.size());
  if (count < inst.min) return false;
  const size_t low = *at;
  const bool endless = inst.max == kInfinite;
  const ByteRange failed = search->failed_loops[pc];
  if (endless && failed.begin <= low && low <= failed.end) return false;
  if (inst.op == Op::kLazyLoop) {
    search->Push({uint16_t(pc), Frame::kTakeMore, uint32_t(low), endless ? uint32_t(low) : count});
    return true;
  }
  // From a byte where an earlier run has failed, this one would fail too.
  const bool may_meet = endless && low < failed.begin && failed.begin <= failed.end;
  take(inst.max, may_meet ? failed.begin : text.size());
  const bool met = may_meet && *at == failed.begin;
  if (met && inst.op == Op::kHardLoop) {
    search->SetFailed(pc, {low, failed.end});
    return false;
  }
  const size_t top = met ? failed.end : *at;
  if (endless && top - low >= kLongLoop) {
    search->Push({uint16_t(pc), Frame::kSpentLoop, uint32_t(low), uint32_t(top)});
  }
  if (inst.op == Op::kLoop && *at > low) {
    search->Push({uint16_t(pc), Frame::kGiveBack, uint32_t(*at), uint32_t(low)});
  }
  return !met;
}

bool Regex::FindLiteral(std::string_view text, size_t from, ByteRange* match) const {
  size_t at = text.size(), held = 0;
  if (borders_.empty()) {
    at = text.find(literal_, from);
    if (at == std::string_view::npos) return false;
  } else {
    for (; from < text.size() && held < literal_.size(); ++from) {
      while (held > 0 && text[from] != literal_[held]) held = borders_[held - 1];
      held += text[from] == literal_[held];
    }
    if (held < literal_.size()) return false;
    at = from - held;
  }
  *match = {at, at + literal_.size()};
  return true;
}

Regex::Found Regex::Find(Search* search, size_t from, ByteRange* match) const {
  const std::string_view text = search->text;
  if (!literal_.empty()) return FindLiteral(text, from, match) ? Found::kYes : Found::kNo;
  for (size_t at = from; at <= text.size();) {
    if (first_known_) {
      at = NextStart(text, at);
      if (at == text.size()) return Found::kNo;
    }
    size_t end = at;
    const Found found = Run(search, 0, at, false, &end);
    if (found != Found::kNo) {
      *match = {at, end};
      return found;
    }
    if (at == text.size()) break;
    at += unicode::Utf8Length(static_cast<unsigned char>(text[at]));
  }
  return Found::kNo;
}

bool Regex::FindAll(std::string_view text, RegexBudget* budget,
                    std::vector<ByteRange>* matches) const {
  if (text.size() > kMaxText) return false;
  // Most searches of short texts end here.
  size_t from = first_known_ ? NextStart(text, 0) : 0;
  if (first_known_ && from == text.size()) return true;
  static thread_local Search search;  // keeps its memory, within limits
  search.Start(text, literal_.empty() ? program_.size() : 0, budget);
  Found found = Found::kYes;
  size_t last_end = SIZE_MAX;
  while (from <= text.size()) {
    ByteRange match;
    found = Find(&search, from, &match);
    if (found != Found::kYes) break;
    if (match.begin == match.end && match.end == last_end) {
      if (from >= text.size()) break;
      from += unicode::Utf8Length(static_cast<unsigned char>(text[from]));
      continue;
    }
    matches->push_back(match);
    from = last_end = match.end;
  }
  search.Finish();
  return found != Found::kTooManySteps;
}

}  // namespace penstock::regex
