#include "text/pre_tokenizers.h"

#include <algorithm>
#include <bit>

#include "text/byte_level.h"
#include "unicode/ascii_run.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

constexpr size_t kMaxKeptPieces = 1 << 18;  // by a thread, after a text

// Runs cut(begin, end, emit) over each piece that is text; emit(begin, end) keeps a part.
template <typename Cut>
void CutPieces(std::vector<Piece>* pieces, Cut cut) {
  static thread_local std::vector<Piece> of_thread;
  std::vector<Piece>& out = of_thread;
  out.clear();
  const auto emit = [&out](uint32_t begin, uint32_t end) {
    if (begin < end) out.push_back({begin, end, -1});
  };
  for (const Piece& piece : *pieces) {
    if (piece.token >= 0) {
      out.push_back(piece);
    } else {
      cut(piece.begin, piece.end, emit);
    }
  }
  pieces->swap(out);
  if (out.capacity() > kMaxKeptPieces) std::vector<Piece>().swap(out);
}

// Rewrites the text piece by piece. edit(piece, copy, put): copy(begin, end) keeps old bytes,
// put(bytes, from) adds new ones with the alignment of the old byte `from`. A piece may grow
// several times over, which is bounded piece by piece.
template <typename Edit>
Status RewritePieces(NormalizedText* text, std::vector<Piece>* pieces, Edit edit) {
  std::string out;
  std::vector<Align> align;
  out.reserve(text->text.size() * 5 / 4 + 16);
  const auto copy = [&](uint32_t begin, uint32_t end) {
    out.append(text->text, begin, end - begin);
    if (text->track()) {
      align.insert(align.end(), text->align.begin() + begin, text->align.begin() + end);
    }
  };
  const auto put = [&](std::string_view bytes, uint32_t from) {
    out.append(bytes);
    if (text->track()) align.resize(out.size(), text->align[from]);
  };
  for (Piece& piece : *pieces) {
    const uint32_t begin = uint32_t(out.size());
    if (piece.token >= 0) {
      copy(piece.begin, piece.end);
    } else {
      edit(piece, copy, put);
    }
    piece.begin = begin;
    piece.end = uint32_t(out.size());
    if (out.size() > text->max_bytes()) break;
  }
  PENSTOCK_RETURN_IF_ERROR(text->Bound(out.size()));
  text->text.swap(out);
  text->align.swap(align);
  return {};
}

struct Segment {
  uint32_t begin, end;
  bool match;
};

// Joins and drops segments, which cover a piece from left to right, as the behaviour says.
template <typename Emit>
void ApplyBehavior(const std::vector<Segment>& segments, SplitBehavior behavior, Emit emit) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Segment& s : segments) {
        if (!s.match) emit(s.begin, s.end);
      }
      return;
    case SplitBehavior::kIsolated:
      for (const Segment& s : segments) emit(s.begin, s.end);
      return;
    case SplitBehavior::kContiguous:
      for (size_t i = 0; i < segments.size();) {
        size_t j = i + 1;
        while (j < segments.size() && segments[j].match == segments[i].match) ++j;
        emit(segments[i].begin, segments[j - 1].end);
        i = j;
      }
      return;
    case SplitBehavior::kMergedWithPrevious:
      // A match joins what stands before it, unless that ends with a match too.
      for (size_t i = 0; i < segments.size();) {
        size_t j = i + 1;
        if (!segments[i].match && j < segments.size() && segments[j].match) ++j;
        emit(segments[i].begin, segments[j - 1].end);
        i = j;
      }
      return;
    case SplitBehavior::kMergedWithNext:
      for (size_t i = 0; i < segments.size();) {
        size_t j = i + 1;
        if (segments[i].match && j < segments.size() && !segments[j].match) ++j;
        emit(segments[i].begin, segments[j - 1].end);
        i = j;
      }
      return;
  }
}

// Segments of text[begin, end) by a character predicate: each match is one character.
template <typename Pred>
void ClassSegments(std::string_view text, uint32_t begin, uint32_t end, Pred pred,
                   std::vector<Segment>* out) {
  uint32_t last = begin;
  for (uint32_t at = begin; at < end;) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    if (pred(c)) {
      if (last < at) out->push_back({last, at, false});
      out->push_back({at, at + length, true});
      last = at + length;
    }
    at += length;
  }
  if (last < end) out->push_back({last, end, false});
}

}  // namespace

std::unique_ptr<ClassSplit> ClassSplit::OnChar(char32_t delimiter, SplitBehavior behavior) {
  auto split = std::make_unique<ClassSplit>(0, behavior);
  split->delimiter_ = delimiter;
  split->on_char_ = true;
  split->FindKept();
  return split;
}

bool ClassSplit::Matches(char32_t c) const {
  return on_char_ ? c == delimiter_ : (unicode::UnicodePropertyTable().Get(c) & bits_) != 0;
}

void ClassSplit::FindKept() {
  keeps_alnum_ = true;
  for (char32_t c = 0; c < 128; ++c) {
    const char byte = static_cast<char>(c);
    const bool alnum = unicode::SomeAsciiAlnum(std::string(16, byte)) > 0;
    keeps_alnum_ = keeps_alnum_ && !(alnum && Matches(c));
  }
}

CutRule ClassSplit::AtCut(std::string_view space) const {
  if (on_char_ || space != " ") return CutRule::kUnsafe;
  const bool removes = behavior_ == SplitBehavior::kRemoved;
  if (removes && (bits_ & unicode::kUniSpace)) return CutRule::kSplits;
  // Cuts inside both parts as in the whole: no match reaches across a space that does not match.
  const bool local =
      removes || behavior_ == SplitBehavior::kIsolated || behavior_ == SplitBehavior::kContiguous;
  return local && !(unicode::UnicodeProps(' ') & bits_) ? CutRule::kSafe : CutRule::kUnsafe;
}

Status ClassSplit::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  const auto matches = [&](char32_t c) {
    return on_char_ ? c == delimiter_ : (table.Get(c) & bits_) != 0;
  };
  const std::string_view all = text->text;
  const bool isolated = behavior_ == SplitBehavior::kIsolated;
  if (isolated || behavior_ == SplitBehavior::kRemoved) {
    CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
      uint32_t last = begin;
      for (uint32_t at = begin; at < end;) {
        if (keeps_alnum_) {
          at += static_cast<uint32_t>(unicode::SomeAsciiAlnum(all.substr(at, end - at)));
          if (at == end) break;
        }
        int length = 0;
        const char32_t c = unicode::DecodeUtf8(all.data() + at, &length);
        const uint32_t next = at + static_cast<uint32_t>(length);
        if (matches(c)) {
          emit(last, at);
          if (isolated) emit(at, next);
          last = next;
        }
        at = next;
      }
      emit(last, end);
    });
    return {};
  }
  std::vector<Segment> segments;
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    segments.clear();
    ClassSegments(all, begin, end, matches, &segments);
    ApplyBehavior(segments, behavior_, emit);
  });
  return {};
}

namespace {
enum BertClass : unsigned char { kBertOther, kBertSpaceChar, kBertPunct };
BertClass BertClassOf(uint32_t props) {
  return (props & unicode::kUniSpace)   ? kBertSpaceChar
         : (props & unicode::kUniPunct) ? kBertPunct
                                        : kBertOther;
}
}  // namespace

BertPreTokenizer::BertPreTokenizer() {
  for (int c = 0; c < 128; ++c) ascii_[c] = BertClassOf(unicode::UnicodeProps(c));
}

Status BertPreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  const char* data = text->text.data();
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    uint32_t word = begin;
    // The character at `at`; returns its end.
    const auto cut = [&](uint32_t at) {
      const auto byte = static_cast<unsigned char>(data[at]);
      int length = 1;
      unsigned char kind;
      if (byte < 128) {
        kind = ascii_[byte];
      } else {
        kind = BertClassOf(table.Get(unicode::DecodeUtf8(data + at, &length)));
      }
      const uint32_t next = at + static_cast<uint32_t>(length);
      if (kind != kBertOther) {
        emit(word, at);
        if (kind == kBertPunct) emit(at, next);
        word = next;
      }
      return next;
    };
    uint32_t at = begin;
    uint64_t alnum = 0;
    while (at < end && unicode::AsciiAlnumBits({data + at, end - at}, &alnum)) {
      uint32_t next = at;
      for (uint64_t others = ~alnum; others != 0; others &= others - 1) {
        const uint32_t other = at + static_cast<uint32_t>(std::countr_zero(others));
        if (other >= next) next = cut(other);  // else it is within a character
      }
      at = std::max(at + 64, next);
    }
    while (at < end) {
      at += static_cast<uint32_t>(unicode::SomeAsciiAlnum({data + at, end - at}));
      if (at < end) at = cut(at);
    }
    emit(word, end);
  });
  return {};
}

Status WhitespacePreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    uint32_t run = begin;
    int run_kind = 0;  // 0: space, 1: word, 2: other
    for (uint32_t at = begin; at < end;) {
      int length = 0;
      const uint32_t props = table.Get(unicode::DecodeUtf8(text->text.data() + at, &length));
      const int kind = (props & unicode::kUniWord) ? 1 : (props & unicode::kUniSpace) ? 0 : 2;
      if (kind != run_kind) {
        if (run_kind != 0) emit(run, at);
        run = at;
        run_kind = kind;
      }
      at += length;
    }
    if (run_kind != 0) emit(run, end);
  });
  return {};
}

Status SplitPreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  const std::string_view all = text->text;
  regex::RegexBudget budget(all.size(), text->work());
  bool too_many_steps = false;
  std::vector<regex::ByteRange> matches;
  std::vector<Segment> segments;
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    const std::string_view part = all.substr(begin, end - begin);
    if (known_ != nullptr && behavior_ == SplitBehavior::kIsolated) {
      known_->Cut(part,
                  [&](size_t b, size_t e) { emit(uint32_t(begin + b), uint32_t(begin + e)); });
      return;
    }
    matches.clear();
    if (too_many_steps) return;
    if (!regex_.FindAll(part, &budget, &matches)) too_many_steps = true;
    segments.clear();
    size_t last = 0;
    for (const regex::ByteRange& match : matches) {
      if (last < match.begin) {
        segments.push_back({uint32_t(begin + last), uint32_t(begin + match.begin), invert_});
      }
      segments.push_back({uint32_t(begin + match.begin), uint32_t(begin + match.end), !invert_});
      last = match.end;
    }
    if (last < part.size()) segments.push_back({uint32_t(begin + last), end, invert_});
    ApplyBehavior(segments, behavior_, emit);
  });
  if (too_many_steps) {
    PENSTOCK_RETURN_IF_ERROR(text->work()->status());
    return {StatusCode::kUnprocessable, "pre-tokenizer regex takes too many steps for this text"};
  }
  return {};
}

Status ByteLevelPreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  if (add_prefix_space_) {
    bool any = false;
    for (const Piece& piece : *pieces) {
      any = any || (piece.token < 0 && text->text[piece.begin] != ' ');
    }
    if (any) {
      const auto edit = [&](const Piece& piece, auto copy, auto put) {
        if (text->text[piece.begin] != ' ') put(" ", piece.begin);
        copy(piece.begin, piece.end);
      };
      PENSTOCK_RETURN_IF_ERROR(RewritePieces(text, pieces, edit));
    }
  }
  if (use_regex_) {
    const regex::KnownPattern& gpt2 = regex::KnownPattern::Gpt2();
    const std::string_view all = text->text;
    CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
      gpt2.Cut(all.substr(begin, end - begin),
               [&](size_t b, size_t e) { emit(uint32_t(begin + b), uint32_t(begin + e)); });
    });
  }
  if (!keep_bytes_) {
    const auto edit = [&](const Piece& piece, auto, auto put) {
      for (uint32_t i = piece.begin; i < piece.end; ++i) {
        put(ByteLevelUtf8(static_cast<unsigned char>(text->text[i])), i);
      }
    };
    PENSTOCK_RETURN_IF_ERROR(RewritePieces(text, pieces, edit));
  }
  return {};
}

Status MetaspacePreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  const auto edit = [&](const Piece& piece, auto copy, auto put) {
    const std::string_view part =
        std::string_view(text->text).substr(piece.begin, piece.end - piece.begin);
    const bool at_start = scheme_ == Scheme::kAlways ||
                          (scheme_ == Scheme::kFirst && text->align[piece.begin].begin == 0);
    if (at_start && part[0] != ' ' && !part.starts_with(replacement_)) {
      put(replacement_, piece.begin);
    }
    for (uint32_t at = piece.begin; at < piece.end;) {
      const size_t space = part.find(' ', at - piece.begin);
      const uint32_t end = space < part.size() ? piece.begin + uint32_t(space) : piece.end;
      copy(at, end);
      if (end < piece.end) put(replacement_, end);
      at = end + 1;
    }
  };
  PENSTOCK_RETURN_IF_ERROR(RewritePieces(text, pieces, edit));
  if (!split_) return {};
  // Each replacement character begins a piece.
  const std::string_view all = text->text;
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    const std::string_view part = all.substr(0, end);
    while (begin < end) {
      const size_t next = part.find(replacement_, begin + 1);
      const uint32_t stop = next == std::string_view::npos ? end : uint32_t(next);
      emit(begin, stop);
      begin = stop;
    }
  });
  return {};
}

Status FixedLengthPreTokenizer::Apply(NormalizedText* text, std::vector<Piece>* pieces) const {
  CutPieces(pieces, [&](uint32_t begin, uint32_t end, auto emit) {
    size_t count = 0;
    uint32_t last = begin;
    for (uint32_t at = begin; at < end; ++count) {
      if (count == length_) {
        emit(last, at);
        last = at;
        count = 0;
      }
      at += unicode::Utf8Length(static_cast<unsigned char>(text->text[at]));
    }
    emit(last, end);
  });
  return {};
}

}  // namespace penstock::text
