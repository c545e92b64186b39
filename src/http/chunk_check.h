// ChunkCheck: checks the framing of a chunked body strictly by RFC 9112 7.1. It gets the bytes
// before the parser, which accepts more than the grammar: where two readers could differ about the
// end of a line, and so of a request, the request is refused.
//
//   chunked-body = *( size [ext] CRLF data CRLF ) 1*"0" [ext] CRLF trailers CRLF
//   size         = 1*HEXDIG
//   ext          = *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )
//   trailers     = *( token ":" value CRLF ), without folded lines
//
// Outside data HTAB is the only control character allowed; CR and LF occur as CRLF only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::http {

// Size and extensions of one chunk, and one line of the trailers.
inline constexpr size_t kChunkLineBytesMax = 4096;
// Extensions of all chunks of a body: nothing reads them.
inline constexpr size_t kChunkExtensionBytesMax = 16 << 10;

class ChunkCheck {
 public:
  // All trailers together have at most `trailer_bytes_max` bytes.
  explicit ChunkCheck(size_t trailer_bytes_max) : trailer_bytes_max_(trailer_bytes_max) {}

  // `unread`: received bytes of the body that the parser has not consumed. Bytes seen by an earlier
  // call are skipped; bytes behind the end of the body are not read. Returns null or the error; an
  // error is final.
  const char* Check(std::string_view unread);
  // Tells how many of the checked bytes the parser has consumed.
  void Used(size_t bytes) { seen_ -= bytes < seen_ ? bytes : seen_; }
  // The body has ended where the parser has stopped.
  bool AtEnd() const { return state_ == State::kDone && seen_ == 0; }

 private:
  enum class State {
    kSize,       // hexadecimal digits
    kExtEnd,     // behind the size or a value: ';', a blank or the end of the line
    kEndSpace,   // blanks there
    kName,       // before a name
    kInName,     // in it
    kNameSpace,  // blanks behind it
    kValue,      // before a value
    kInValue,    // in a token
    kQuoted,     // in a quoted string
    kEscaped,    // the character after a backslash in it
    kSizeLf,     // the LF of the size's line
    kData,
    kDataCr,
    kDataLf,
    kTrailer,       // the first character of a line
    kTrailerName,   // a name
    kTrailerValue,  // a value
    kTrailerLf,
    kEndLf,
    kDone,
    kWrong,
  };

  const char* Step(unsigned char c);
  const char* SizeDigit(unsigned char c);
  const char* Extension(unsigned char c);
  const char* Trailer(unsigned char c);
  const char* LongerLine(bool trailer);
  const char* EndOfSize();

  const size_t trailer_bytes_max_;
  State state_ = State::kSize;
  const char* wrong_ = nullptr;
  size_t seen_ = 0;  // of the unread bytes
  uint64_t size_ = 0;
  bool has_digit_ = false;
  size_t line_bytes_ = 0;
  size_t extension_bytes_ = 0;
  size_t trailer_bytes_ = 0;
};

}  // namespace penstock::http
