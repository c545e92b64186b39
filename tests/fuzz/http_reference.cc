#include "http_reference.h"

#include <algorithm>
#include <optional>

namespace penstock::fuzz {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Without leading zeros; "0" for zero alone.
std::string_view WithoutZeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

bool IsTokenChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

// Visible characters, space, tab, and bytes beyond ASCII.
bool IsFieldText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

std::string_view Trim(std::string_view text) {
  const char* const space = " \t";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

class Reader {
 public:
  Reader(std::string_view bytes, const ReferenceLimits& limits) : rest_(bytes), limits_(limits) {}

  // nullopt: malformed or incomplete.
  std::optional<ReferenceRequest> Next() {
    const size_t first = rest_.find_first_not_of("\r\n");
    if (first == std::string_view::npos) return std::nullopt;
    rest_.remove_prefix(first);
    const size_t before = rest_.size();
    ReferenceRequest request;
    fields_ = {};
    if (!RequestLine(&request) || !FieldLines(nullptr)) return std::nullopt;
    if (before - rest_.size() > limits_.header_bytes_max / 2) request.plain = false;
    if (!Body(&request)) return std::nullopt;
    Judge(&request);
    return request;
  }

 private:
  struct Fields {
    int hosts = 0, lengths = 0, codings = 0;
    std::string host, length, coding, connection;
    bool asks = false;  // Expect, Content-Encoding
  };

  // A line without its CRLF; false where there is none, or a CR or LF stands alone.
  bool Line(std::string_view* line) {
    const size_t end = rest_.find("\r\n");
    if (end == std::string_view::npos) return false;
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return line->find_first_of("\r\n") == std::string_view::npos;
  }

  bool RequestLine(ReferenceRequest* request) {
    std::string_view line;
    if (!Line(&line)) return false;
    const size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) return false;
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    request->method = line.substr(0, first);
    request->target = target;
    old_ = version == "HTTP/1.0";
    // No reader takes bytes beyond ASCII for delimiters.
    const bool visible = std::all_of(target.begin(), target.end(), [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
    });
    return IsToken(request->method) && !target.empty() && visible &&
           (old_ || version == "HTTP/1.1");
  }

  // Up to the empty line. The fields of a trailer mean nothing; one that is about framing must not
  // stand there (RFC 9110 6.5.1), and the server may refuse it. `trailer_of` null: a header.
  bool FieldLines(ReferenceRequest* trailer_of) {
    for (;;) {
      std::string_view line;
      if (!Line(&line)) return false;
      if (line.empty()) return true;
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) return false;
      const std::string_view value = Trim(line.substr(colon + 1));
      if (!IsFieldText(value)) return false;
      const std::string name = Lower(line.substr(0, colon));
      if (trailer_of == nullptr) {
        Keep(name, value);
      } else if (name == "transfer-encoding" || name == "content-length" || name == "connection") {
        trailer_of->plain = false;
      }
    }
  }

  void Keep(const std::string& name, std::string_view value) {
    if (name == "host") {
      ++fields_.hosts;
      fields_.host = value;
    } else if (name == "content-length") {
      ++fields_.lengths;
      fields_.length = value;
    } else if (name == "transfer-encoding") {
      ++fields_.codings;
      fields_.coding = Lower(value);
    } else if (name == "connection") {
      fields_.connection += "," + Lower(value);
    } else if (name == "expect" || name == "content-encoding") {
      fields_.asks = true;
    }
  }

  bool Body(ReferenceRequest* request) {
    if (fields_.codings > 0) {
      // One coding, chunked, without a length beside it, not from HTTP/1.0.
      if (fields_.codings > 1 || fields_.lengths > 0 || old_ || fields_.coding != "chunked") {
        return false;
      }
      return Chunks(request);
    }
    if (fields_.lengths == 0) return true;
    if (fields_.lengths > 1 || fields_.length.empty()) return false;
    const std::string digits(WithoutZeros(fields_.length));
    if (!std::all_of(digits.begin(), digits.end(), IsDigit)) return false;
    if (digits.size() > 18) return false;  // more bytes than any input has
    return Take(static_cast<size_t>(std::stoull(digits)), &request->body);
  }

  bool Take(size_t size, std::string* out) {
    if (size > rest_.size()) return false;
    *out += rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  bool Chunks(ReferenceRequest* request) {
    for (;;) {
      std::string_view line;
      if (!Line(&line)) return false;
      const size_t end = std::min(line.find_first_of("; \t"), line.size());
      if (end == 0 || !Extensions(line.substr(end))) return false;
      const std::string_view digits = WithoutZeros(line.substr(0, end));
      if (digits.size() > 8) return false;
      if (end < line.size()) request->plain = false;  // extensions may be refused
      size_t size = 0;
      for (const char c : Lower(digits)) {
        if (!IsDigit(c) && (c < 'a' || c > 'f')) return false;
        size = size * 16 + static_cast<size_t>(IsDigit(c) ? c - '0' : c - 'a' + 10);
      }
      if (size == 0) return FieldLines(request);
      if (!Take(size, &request->body) || rest_.substr(0, 2) != "\r\n") return false;
      rest_.remove_prefix(2);
    }
  }

  // *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
  static bool Extensions(std::string_view text) {
    while (!(text = SkipSpace(text)).empty()) {
      if (text[0] != ';') return false;
      text = SkipSpace(text.substr(1));
      if (!SkipToken(&text)) return false;
      const std::string_view value = SkipSpace(text);
      if (value.empty() || value[0] != '=') continue;
      text = SkipSpace(value.substr(1));
      const bool quoted = !text.empty() && text[0] == '"';
      if (!(quoted ? SkipQuoted(&text) : SkipToken(&text))) return false;
    }
    return true;
  }
  static std::string_view SkipSpace(std::string_view text) {
    const size_t at = text.find_first_not_of(" \t");
    return at == std::string_view::npos ? std::string_view() : text.substr(at);
  }
  static bool SkipToken(std::string_view* text) {
    size_t size = 0;
    while (size < text->size() && IsTokenChar((*text)[size])) ++size;
    text->remove_prefix(size);
    return size > 0;
  }
  static bool SkipQuoted(std::string_view* text) {
    for (size_t i = 1; i < text->size(); ++i) {
      if ((*text)[i] == '\\') {
        ++i;
      } else if ((*text)[i] == '"') {
        const bool good = IsFieldText(text->substr(0, i));
        text->remove_prefix(i + 1);
        return good;
      }
    }
    return false;
  }

  static bool HasWord(std::string_view list, std::string_view word) {
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      if (Trim(list.substr(0, comma)) == word) return true;
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return false;
  }

  void Judge(ReferenceRequest* request) {
    const std::string& connection = fields_.connection;
    request->keep_alive =
        !HasWord(connection, "close") && (!old_ || HasWord(connection, "keep-alive"));
    if (!connection.empty() && connection != ",close" && connection != ",keep-alive") {
      request->plain = false;  // the server may read lists in other ways, and close
    }
    const bool host = fields_.hosts == 1 && !fields_.host.empty() && fields_.host.size() < 64 &&
                      std::all_of(fields_.host.begin(), fields_.host.end(), [](char c) {
                        return IsDigit(c) || (c >= 'a' && c <= 'z') || c == '.';
                      });
    const bool target = request->target[0] == '/' &&
                        std::all_of(request->target.begin(), request->target.end(), [](char c) {
                          return static_cast<unsigned char>(c) < 0x7f && c != '%';
                        });
    if (!host || !target || fields_.asks || request->body.size() > limits_.body_bytes_max) {
      request->plain = false;
    }
  }

  std::string_view rest_;
  const ReferenceLimits limits_;
  Fields fields_;
  bool old_ = false;
};

}  // namespace

std::vector<ReferenceRequest> ReadRequests(std::string_view bytes, const ReferenceLimits& limits) {
  Reader reader(bytes, limits);
  std::vector<ReferenceRequest> requests;
  while (auto request = reader.Next()) {
    requests.push_back(*std::move(request));
    if (!requests.back().keep_alive) break;
  }
  return requests;
}

}  // namespace penstock::fuzz
