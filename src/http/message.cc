#include "http/message.h"

#include <algorithm>
#include <random>

#include "base/name_table.h"
#include "http/stream.h"

namespace penstock::http {

std::unique_ptr<Stream> Responder::Begin(HttpResponse head, std::function<void()> ready) const {
  return exchange_->Begin(std::move(head), std::move(ready));
}

const char* ReasonPhrase(int status) {
  static constexpr NumberName kPhrases[] = {{200, "OK"},
                                            {204, "No Content"},
                                            {206, "Partial Content"},
                                            {304, "Not Modified"},
                                            {308, "Permanent Redirect"},
                                            {400, "Bad Request"},
                                            {401, "Unauthorized"},
                                            {403, "Forbidden"},
                                            {404, "Not Found"},
                                            {405, "Method Not Allowed"},
                                            {408, "Request Timeout"},
                                            {413, "Payload Too Large"},
                                            {415, "Unsupported Media Type"},
                                            {416, "Range Not Satisfiable"},
                                            {417, "Expectation Failed"},
                                            {422, "Unprocessable Entity"},
                                            {424, "Failed Dependency"},
                                            {429, "Too Many Requests"},
                                            {431, "Request Header Fields Too Large"},
                                            {499, "Client Closed Request"},
                                            {500, "Internal Server Error"},
                                            {501, "Not Implemented"},
                                            {503, "Service Unavailable"},
                                            {505, "HTTP Version Not Supported"}};
  return NameOfNumber(kPhrases, status, "Unknown");
}

namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string OriginForm(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    const bool same =
        target.size() >= scheme.size() &&
        std::equal(scheme.begin(), scheme.end(), target.begin(), [](char wanted, char c) {
          return wanted == (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
        });
    if (!same) continue;
    // The authority ends there (RFC 3986 3.2); a query may hold slashes.
    const size_t end = std::min(target.find_first_of("/?#", scheme.size()), target.size());
    const std::string rest(target.substr(end));
    return rest.starts_with('/') ? rest : "/" + rest;
  }
  return std::string(target);
}

bool PercentDecode(std::string_view text, std::string* out) {
  out->clear();
  out->reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return false;
    out->push_back(c);
  }
  return true;
}

bool IsSaneRequestId(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id) {
    const bool letter_or_digit =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter_or_digit && std::string_view("-_.:+=/@").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

std::string NewRequestId() {
  // Ids tell requests apart in logs; they are not secret, so a fast generator will do.
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  constexpr char kHex[] = "0123456789abcdef";
  std::string id(32, '0');
  for (size_t half = 0; half < 2; ++half) {
    uint64_t bits = random();
    for (size_t i = 0; i < 16; ++i, bits >>= 4) id[half * 16 + i] = kHex[bits & 15];
  }
  return id;
}

}  // namespace penstock::http
