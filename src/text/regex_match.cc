// The matcher of regex.h; regex_compile.cc makes the programs.
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock {

namespace {
constexpr size_t kMaxRememberedBits = size_t(64) << 20;
constexpr size_t kMaxKeptFrames = 1 << 16;
constexpr size_t kLongLoop = 16;  // bytes; shorter runs are not worth remembering
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
    const char32_t c = before ? DecodeUtf8Before(text.data() + at, &length)
                              : DecodeUtf8(text.data() + at, &length);
    return (UnicodeProps(c) & kUniRegexWord) != 0;
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
        hit = classes_[x].Matches(DecodeUtf8Before(text.data() + at, &length));
      }
      return hit == (op == Op::kLookBehind);
    }
    default:
      return false;
  }
}

// A search of one text for all matches, with what is known of the text. All that is remembered
// holds for any start: nothing in a program looks at how a point was reached.
struct Regex::Search {
  std::string_view text;
  int64_t steps;           // left
  int64_t remember_below;  // from here on splits are remembered, which costs memory
  std::vector<Frame> stack;
  // For a place in the program: a loop without end, wherever in this range its minimum is reached,
  // fails.
  std::vector<ByteRange> failed_loops;
  // Bit split * (text size + 1) + byte: the split fails there, or leads to the end of its look.
  std::vector<bool> failed_splits, good_splits;

  bool remembers() const { return !failed_splits.empty(); }
  void StartRemembering(size_t splits) {
    remember_below = 0;
    const size_t bits = splits * (text.size() + 1);
    if (bits > kMaxRememberedBits) return;
    failed_splits.resize(bits);
    good_splits.resize(bits);
  }
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
        while (IsUtf8Continuation(static_cast<unsigned char>(search->text[back]))) --back;
        *at = frame.at = back;
        *pc = frame.pc + 1;
        if (back == frame.extra) stack.pop_back();
        return true;
      }
      case Frame::kTakeMore: {
        const bool endless = from.max == kInfinite;
        ByteRange& failed = search->failed_loops[frame.pc];
        int length;
        if ((endless || frame.extra < from.max) && frame.at < search->text.size() &&
            classes_[from.x].Matches(DecodeUtf8(search->text.data() + frame.at, &length))) {
          frame.at += length;
          if (endless && failed.begin <= frame.at && frame.at <= failed.end) {
            failed.begin = frame.extra;
            break;
          }
          if (!endless) ++frame.extra;
          *at = frame.at;
          *pc = frame.pc + 1;
          return true;
        }
        if (endless) failed = {frame.extra, frame.at};
        break;
      }
      case Frame::kSpentSplit:
        search->failed_splits[search->Bit(from, frame.at)] = true;
        break;
      case Frame::kSpentLoop:
        search->failed_loops[frame.pc] = {frame.at, frame.extra};
        break;
    }
    stack.pop_back();
  }
  return false;
}

// Backtracking with an explicit stack. A frame of a loop stands for all the shorter runs it may
// still give back, one character at a time.
Regex::Found Regex::Run(Search* search, uint32_t pc, size_t at, bool look, size_t* end) const {
  std::vector<Frame>& stack = search->stack;
  const size_t base = stack.size();
  const char* data = search->text.data();
  const size_t size = search->text.size();
  Found result = Found::kNo;
  for (bool done = false; !done;) {
    bool failed = false;
    const Inst& inst = program_[pc];
    if (--search->steps < 0) {
      result = Found::kTooManySteps;
      break;
    }
    switch (inst.op) {
      case Op::kChar:
      case Op::kClass:
      case Op::kAny:
      case Op::kAnyLine: {
        int length;
        if (at < size && Single(inst, DecodeUtf8(data + at, &length))) {
          at += length;
          ++pc;
        } else {
          failed = true;
        }
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
        stack.push_back({pc, Frame::kSecondWay, at, 0});
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
        ++pc;
    }
    if (done) result = Found::kYes;
    if (failed && !Backtrack(search, base, &pc, &at)) break;
  }
  if (result == Found::kYes) {
    *end = at;
    // The splits still on the stack are those of the way that led here.
    for (size_t i = stack.size(); look && search->remembers() && i > base; --i) {
      const Frame& frame = stack[i - 1];
      if (frame.kind != Frame::kSecondWay && frame.kind != Frame::kSpentSplit) continue;
      search->good_splits[search->Bit(program_[frame.pc], frame.at)] = true;
    }
  }
  stack.resize(base);
  return result;
}

// Runs one class as often as the loop wants at first; false if that is not often enough, or is
// known to lead nowhere.
bool Regex::Loop(Search* search, uint32_t pc, size_t* at) const {
  const Inst& inst = program_[pc];
  const CharClass& set = classes_[inst.x];
  const std::string_view text = search->text;
  uint32_t count = 0;
  const auto take = [&](uint32_t limit, size_t stop) {
    while (count < limit && *at < stop) {
      int length;
      if (!set.Matches(DecodeUtf8(text.data() + *at, &length))) break;
      *at += length;
      ++count;
    }
    search->steps -= count / 8;
  };
  take(inst.min, text.size());
  if (count < inst.min) return false;
  const size_t low = *at;
  const bool endless = inst.max == kInfinite;
  ByteRange& failed = search->failed_loops[pc];
  if (endless && failed.begin <= low && low <= failed.end) return false;
  if (inst.op == Op::kLazyLoop) {
    search->stack.push_back({pc, Frame::kTakeMore, low, endless ? low : count});
    return true;
  }
  // From where a run has failed before, this one would go on the same way.
  const bool may_meet = endless && low < failed.begin && failed.begin <= failed.end;
  take(inst.max, may_meet ? failed.begin : text.size());
  const bool met = may_meet && *at == failed.begin;
  if (met && inst.op == Op::kHardLoop) {
    failed.begin = low;
    return false;
  }
  const size_t top = met ? failed.end : *at;
  if (endless && top - low >= kLongLoop) {
    search->stack.push_back({pc, Frame::kSpentLoop, low, top});
  }
  if (inst.op == Op::kLoop && *at > low) {
    search->stack.push_back({pc, Frame::kGiveBack, *at, low});
  }
  return !met;
}

Regex::Found Regex::Find(Search* search, size_t from, ByteRange* match) const {
  const std::string_view text = search->text;
  if (!literal_.empty()) {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return Found::kNo;
    *match = {at, at + literal_.size()};
    return Found::kYes;
  }
  for (size_t at = from; at <= text.size();) {
    if (first_known_) {
      while (at < text.size()) {
        const unsigned char byte = static_cast<unsigned char>(text[at]);
        if (byte < 128 ? first_[byte] : first_beyond_ascii_ && !IsUtf8Continuation(byte)) break;
        ++at;
      }
      if (at == text.size()) return Found::kNo;
    }
    size_t end = at;
    const Found found = Run(search, 0, at, false, &end);
    if (found != Found::kNo) {
      *match = {at, end};
      return found;
    }
    if (at == text.size()) break;
    at += Utf8Length(static_cast<unsigned char>(text[at]));
  }
  return Found::kNo;
}

bool Regex::FindAll(std::string_view text, std::vector<ByteRange>* matches) const {
  static thread_local Search search;  // keeps its memory, within limits
  search.text = text;
  const auto size = int64_t(text.size());
  search.steps = 1'000'000 + 400 * size;
  search.remember_below = search.steps - 100'000 - 40 * size;
  search.failed_loops.assign(literal_.empty() ? program_.size() : 0, {1, 0});
  Found found = Found::kYes;
  size_t from = 0, last_end = SIZE_MAX;
  while (from <= text.size()) {
    ByteRange match;
    found = Find(&search, from, &match);
    if (found != Found::kYes) break;
    if (match.begin == match.end && match.end == last_end) {
      if (from >= text.size()) break;
      from += Utf8Length(static_cast<unsigned char>(text[from]));
      continue;
    }
    matches->push_back(match);
    from = last_end = match.end;
  }
  if (search.remembers()) {
    std::vector<bool>().swap(search.failed_splits);
    std::vector<bool>().swap(search.good_splits);
  }
  if (search.stack.capacity() > kMaxKeptFrames) std::vector<Frame>().swap(search.stack);
  return found != Found::kTooManySteps;
}

}  // namespace penstock
