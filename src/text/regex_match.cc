// The matcher of regex.h; regex_compile.cc makes the programs.
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock {

bool Regex::Single(const Inst& inst, char32_t c) const {
  switch (inst.op) {
    case Op::kChar: return c == inst.x;
    case Op::kAny: return true;
    case Op::kAnyLine: return c != '\n';
    default: return classes_[inst.x].Matches(c);
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
    case Op::kLineBegin: return at == 0 || (text[at - 1] == '\n' && at < text.size());
    case Op::kLineEnd: return at == text.size() || text[at] == '\n';
    case Op::kTextBegin: return at == 0;
    case Op::kTextEnd: return at == text.size();
    case Op::kTextEndOrNewline:
      return at == text.size() || (at + 1 == text.size() && text[at] == '\n');
    case Op::kWordEdge: return is_word(true) != is_word(false);
    case Op::kNotWordEdge: return is_word(true) == is_word(false);
    case Op::kLookBehind:
    case Op::kNotLookBehind: {
      bool hit = false;
      if (at > 0) {
        int length;
        hit = classes_[x].Matches(DecodeUtf8Before(text.data() + at, &length));
      }
      return hit == (op == Op::kLookBehind);
    }
    default: return false;
  }
}

// Backtracking with an explicit stack. A frame of a loop stands for all the shorter runs it may
// still give back, one character at a time.
Regex::Found Regex::Run(std::string_view text, uint32_t pc, size_t at, size_t* end,
                        int64_t* steps, std::vector<Frame>* stack) const {
  const size_t base = stack->size();
  const char* data = text.data();
  const size_t size = text.size();
  for (;;) {
    bool failed = false;
    const Inst& inst = program_[pc];
    if (--*steps < 0) {
      stack->resize(base);
      return Found::kTooManySteps;
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
      case Op::kLazyLoop: {
        const CharClass& set = classes_[inst.x];
        const uint32_t limit = inst.op == Op::kLazyLoop ? inst.min : inst.max;
        uint32_t count = 0;
        size_t low = at;  // where the minimum is reached
        while (count < limit && at < size) {
          int length;
          if (!set.Matches(DecodeUtf8(data + at, &length))) break;
          at += length;
          if (++count == inst.min) low = at;
        }
        *steps -= count / 8;
        if (count < inst.min) {
          failed = true;
          break;
        }
        if (inst.op == Op::kLoop && at > low) stack->push_back({pc, Frame::kGiveBack, at, low});
        if (inst.op == Op::kLazyLoop) stack->push_back({pc, Frame::kTakeMore, at, count});
        ++pc;
        break;
      }
      case Op::kSplit:
        stack->push_back({inst.y, Frame::kResume, at, 0});
        pc = inst.x;
        break;
      case Op::kJump: pc = inst.x; break;
      case Op::kMatch:
        *end = at;
        stack->resize(base);
        return Found::kYes;
      case Op::kLook:
      case Op::kNotLook:
      case Op::kAtomic: {
        size_t inner = at;
        const Found found = Run(text, inst.x, at, &inner, steps, stack);
        if (found == Found::kTooManySteps) {
          stack->resize(base);
          return found;
        }
        failed = (found == Found::kYes) == (inst.op == Op::kNotLook);
        if (inst.op == Op::kAtomic && !failed) at = inner;
        pc = inst.y;
        break;
      }
      default:
        failed = !Assertion(inst.op, inst.x, text, at);
        ++pc;
    }
    if (!failed) continue;
    for (;;) {
      if (stack->size() == base) return Found::kNo;
      Frame& frame = stack->back();
      const Inst& from = program_[frame.pc];
      if (frame.kind == Frame::kGiveBack) {
        size_t back = frame.at - 1;
        while (IsUtf8Continuation(static_cast<unsigned char>(data[back]))) --back;
        at = frame.at = back;
        pc = frame.pc + 1;
        if (back == frame.extra) stack->pop_back();
        break;
      }
      if (frame.kind == Frame::kTakeMore) {
        int length;
        if (frame.extra < from.max && frame.at < size &&
            classes_[from.x].Matches(DecodeUtf8(data + frame.at, &length))) {
          frame.at += length;
          ++frame.extra;
          at = frame.at;
          pc = frame.pc + 1;
          break;
        }
        stack->pop_back();
        continue;
      }
      at = frame.at;
      pc = frame.pc;
      stack->pop_back();
      break;
    }
  }
}

Regex::Found Regex::Find(std::string_view text, size_t from, ByteRange* match,
                         int64_t* steps) const {
  if (!literal_.empty()) {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return Found::kNo;
    *match = {at, at + literal_.size()};
    return Found::kYes;
  }
  static thread_local std::vector<Frame> stack;
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
    const Found found = Run(text, 0, at, &end, steps, &stack);
    if (found != Found::kNo) {
      *match = {at, end};
      return found;
    }
    if (at == text.size()) break;
    if (starts_with_loop_) {
      // Starting later within the same run would try a part of the same ends again.
      const CharClass& set = classes_[program_[0].x];
      size_t run = at;
      while (run < text.size()) {
        int length;
        if (!set.Matches(DecodeUtf8(text.data() + run, &length))) break;
        run += length;
      }
      if (run > at) {
        at = run;
        continue;
      }
    }
    at += Utf8Length(static_cast<unsigned char>(text[at]));
  }
  return Found::kNo;
}

bool Regex::FindAll(std::string_view text, std::vector<ByteRange>* matches) const {
  int64_t steps = 1'000'000 + 400 * int64_t(text.size());
  size_t from = 0, last_end = SIZE_MAX;
  while (from <= text.size()) {
    ByteRange match;
    const Found found = Find(text, from, &match, &steps);
    if (found == Found::kTooManySteps) return false;
    if (found == Found::kNo) break;
    if (match.begin == match.end && match.end == last_end) {
      if (from >= text.size()) break;
      from += Utf8Length(static_cast<unsigned char>(text[from]));
      continue;
    }
    matches->push_back(match);
    from = last_end = match.end;
  }
  return true;
}

}  // namespace penstock
