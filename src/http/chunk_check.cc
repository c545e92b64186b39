#include "http/chunk_check.h"

#include <algorithm>

#include "http/header_checks.h"

namespace penstock::http {
namespace {

constexpr char kBadSize[] = "bad chunk size";
constexpr char kBadExtension[] = "bad chunk extension";
constexpr char kBadEnd[] = "a chunk's data must be followed by CRLF";
constexpr char kBadTrailer[] = "bad trailer";

bool IsBlank(unsigned char c) { return c == ' ' || c == '\t'; }

}  // namespace

const char* ChunkCheck::Check(std::string_view unread) {
  while (wrong_ == nullptr && state_ != State::kDone && seen_ < unread.size()) {
    if (state_ == State::kData) {
      const auto take = static_cast<size_t>(std::min<uint64_t>(size_, unread.size() - seen_));
      seen_ += take;
      size_ -= take;
      if (size_ == 0) state_ = State::kDataCr;
      continue;
    }
    wrong_ = Step(static_cast<unsigned char>(unread[seen_++]));
  }
  return wrong_;
}

const char* ChunkCheck::Step(unsigned char c) {
  switch (state_) {
    case State::kSize:
      return SizeDigit(c);
    case State::kExtEnd:
    case State::kEndSpace:
    case State::kName:
    case State::kInName:
    case State::kNameSpace:
    case State::kValue:
    case State::kInValue:
    case State::kQuoted:
    case State::kEscaped:
      return Extension(c);
    case State::kSizeLf:
      return c == '\n' ? EndOfSize() : "a chunk's line must end with CRLF";
    case State::kDataCr:
      state_ = State::kDataLf;
      return c == '\r' ? nullptr : kBadEnd;
    case State::kDataLf:
      state_ = State::kSize;
      return c == '\n' ? nullptr : kBadEnd;
    default:
      return Trailer(c);
  }
}

const char* ChunkCheck::SizeDigit(unsigned char c) {
  const int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
  if (digit < 0) {
    if (!has_digit_ || (c != '\r' && c != ';' && !IsBlank(c))) return kBadSize;
    state_ = State::kExtEnd;
    return Extension(c);
  }
  if (size_ > UINT64_MAX >> 4) return "a chunk's size is too large";
  size_ = size_ << 4 | static_cast<uint64_t>(digit);
  has_digit_ = true;
  return LongerLine(false);
}

const char* ChunkCheck::Extension(unsigned char c) {
  // The line end is not an extension, so the number of chunks is not limited.
  if (c != '\r' && ++extension_bytes_ > kChunkExtensionBytesMax)
    return "chunk extensions are too long";
  if (state_ == State::kQuoted || state_ == State::kEscaped) {
    if ((c < 0x20 && c != '\t') || c == 0x7f) return kBadExtension;
    const bool plain = state_ == State::kEscaped || (c != '"' && c != '\\');
    state_ = plain ? State::kQuoted : c == '"' ? State::kExtEnd : State::kEscaped;
    return LongerLine(false);
  }
  const bool name = state_ == State::kInName;
  const bool whole = name || state_ == State::kExtEnd || state_ == State::kInValue;
  if (IsTokenChar(c)) {
    if (state_ == State::kName) state_ = State::kInName;
    if (state_ == State::kValue) state_ = State::kInValue;
    if (state_ != State::kInName && state_ != State::kInValue) return kBadExtension;
  } else if (IsBlank(c)) {
    if (whole) state_ = name ? State::kNameSpace : State::kEndSpace;
  } else if (c == ';' && (whole || state_ == State::kNameSpace || state_ == State::kEndSpace)) {
    state_ = State::kName;
  } else if (c == '=' && (name || state_ == State::kNameSpace)) {
    state_ = State::kValue;
  } else if (c == '"' && state_ == State::kValue) {
    state_ = State::kQuoted;
  } else if (c == '\r' && whole) {  // blanks at the end are not of the grammar
    state_ = State::kSizeLf;
  } else {
    return kBadExtension;
  }
  return LongerLine(false);
}

const char* ChunkCheck::EndOfSize() {
  line_bytes_ = 0;
  has_digit_ = false;
  state_ = size_ == 0 ? State::kTrailer : State::kData;
  return nullptr;
}

const char* ChunkCheck::Trailer(unsigned char c) {
  switch (state_) {
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kEndLf;
        return nullptr;
      }
      state_ = State::kTrailerName;
      if (!IsTokenChar(c)) return kBadTrailer;  // a folded line begins with a blank
      break;
    case State::kTrailerName:
      if (c == ':') {
        state_ = State::kTrailerValue;
      } else if (!IsTokenChar(c)) {
        return kBadTrailer;
      }
      break;
    case State::kTrailerValue:
      if (c == '\r') {
        state_ = State::kTrailerLf;
      } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
        return kBadTrailer;
      }
      break;
    case State::kTrailerLf:
      if (c != '\n') return kBadTrailer;
      state_ = State::kTrailer;
      line_bytes_ = 0;
      return nullptr;
    case State::kEndLf:
      if (c != '\n') return kBadTrailer;
      state_ = State::kDone;
      return nullptr;
    default:
      return kBadTrailer;
  }
  return LongerLine(true);
}

const char* ChunkCheck::LongerLine(bool trailer) {
  if (trailer && ++trailer_bytes_ > trailer_bytes_max_) return "trailers are too long";
  if (++line_bytes_ > kChunkLineBytesMax) {
    return trailer ? "a trailer is too long" : "a chunk's line is too long";
  }
  return nullptr;
}

}  // namespace penstock::http
