#include "frontend/api_keys.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace penstock::frontend {

namespace {

std::string_view Trimmed(std::string_view line) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!line.empty() && blank(line.front())) line.remove_prefix(1);
  while (!line.empty() && blank(line.back())) line.remove_suffix(1);
  return line;
}

// A buffer for secrets: wiped at its end, and never grown, which would leave copies behind.
class WipedBuffer {
 public:
  explicit WipedBuffer(size_t bytes) : bytes_(bytes) {}
  ~WipedBuffer() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  WipedBuffer(const WipedBuffer&) = delete;
  WipedBuffer& operator=(const WipedBuffer&) = delete;
  char* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<char> bytes_;
};

// Reads at most `size` bytes. Returns errno of a failure, or 0.
int ReadAll(int fd, char* to, size_t size, size_t* read_bytes) {
  *read_bytes = 0;
  while (*read_bytes < size) {
    const ssize_t n = read(fd, to + *read_bytes, size - *read_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    *read_bytes += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

KeyDigest DigestOfKey(std::string_view key) {
  KeyDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

std::string OwnerNameOf(std::string_view key) {
  constexpr std::string_view kBefore = "owner:";
  std::string text;
  text.reserve(kBefore.size() + key.size());  // never grown, which would leave copies behind
  text.append(kBefore).append(key);
  const KeyDigest digest = DigestOfKey(text);
  OPENSSL_cleanse(text.data(), text.size());
  std::string name;
  for (const unsigned char byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

Status CheckApiKey(std::string_view key) {
  if (key.empty()) return Status::InvalidArgument("a key is empty");
  if (key.size() > kApiKeyBytesMax) {
    return Status::InvalidArgument("a key has more than " + std::to_string(kApiKeyBytesMax) +
                                   " bytes");
  }
  if (key.front() == ' ' || key.back() == ' ') {
    return Status::InvalidArgument("a key begins or ends with a space, which no header can carry");
  }
  for (const char byte : key) {
    const auto c = static_cast<unsigned char>(byte);
    if (c < 0x20 || c == 0x7f) {
      return Status::InvalidArgument(
          "a key holds a line break or another control character, which no header can carry");
    }
  }
  return Status::Ok();
}

Expected<KeyLine> ParseKeyLine(std::string_view line) {
  constexpr std::string_view kWeight = "weight=";
  KeyLine result{.key = line};
  const size_t blank = line.find_last_of(" \t");
  if (blank != std::string_view::npos && line.substr(blank + 1).starts_with(kWeight)) {
    const std::string_view number = line.substr(blank + 1 + kWeight.size());
    const char* const end = number.data() + number.size();
    const auto [read, error] = std::from_chars(number.data(), end, result.weight);
    if (error != std::errc() || read != end || result.weight < 1 || result.weight > kKeyWeightMax) {
      return Status::InvalidArgument("the weight of a key is to be an integer from 1 to " +
                                     std::to_string(kKeyWeightMax));
    }
    result.key = Trimmed(line.substr(0, blank));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckApiKey(result.key));
  return result;
}

Status ApiKeys::AddFile(const std::string& path) {
  const auto wrong = [&](const std::string& why) {
    return Status::InvalidArgument("key file " + path + ": " + why);
  };
  // Not blocking: opening a pipe would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return wrong(std::strerror(errno));
  struct stat info {};
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  WipedBuffer text(regular ? kApiKeyFileBytesMax + 1 : 0);
  size_t size = 0;
  const int error = regular ? ReadAll(fd, text.data(), text.size(), &size) : 0;
  close(fd);
  if (!regular) return wrong("is not a regular file");
  if (error != 0) return wrong(std::strerror(error));
  if (size > kApiKeyFileBytesMax) {
    return wrong("has more than " + std::to_string(kApiKeyFileBytesMax) + " bytes");
  }
  std::string_view rest(text.data(), size);
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // some editors begin a file so
  std::vector<KeyDigest> found;
  std::vector<uint32_t> weights;
  std::vector<std::string> owner_names;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = Trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const Expected<KeyLine> parsed = ParseKeyLine(line);
    if (!parsed.ok()) {
      return wrong("line " + std::to_string(line_number) + ": " + parsed.status().message());
    }
    found.push_back(DigestOfKey(parsed->key));
    weights.push_back(parsed->weight);
    owner_names.push_back(OwnerNameOf(parsed->key));
  }
  if (found.empty()) return wrong("holds no key");
  digests_.insert(digests_.end(), found.begin(), found.end());
  weights_.insert(weights_.end(), weights.begin(), weights.end());
  owner_names_.insert(owner_names_.end(), owner_names.begin(), owner_names.end());
  return Status::Ok();
}

size_t ApiKeys::Find(const KeyDigest& digest) const {
  // No early exit: which key matched, and whether one did, takes the same time.
  size_t found = 0;
  for (size_t i = 0; i < digests_.size(); ++i) {
    const bool match = CRYPTO_memcmp(digests_[i].data(), digest.data(), digest.size()) == 0;
    found += (i + 1) * static_cast<size_t>(match & (found == 0));
  }
  return found;
}

std::string_view ApiKeys::KeyOf(const http::HttpRequest& request) {
  std::string_view authorization = request.Header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() > kBearer.size()) {
    bool bearer = true;
    for (size_t i = 0; i < kBearer.size(); ++i) {
      const char c = authorization[i];
      bearer = bearer && (c >= 'A' && c <= 'Z' ? c + 32 : c) == kBearer[i];
    }
    if (bearer) {
      authorization.remove_prefix(kBearer.size());
      while (authorization.starts_with(' ')) authorization.remove_prefix(1);
      return authorization;
    }
  }
  const std::string_view key = request.Header("x-api-key");
  return key.empty() ? request.Header("api-key") : key;
}

}  // namespace penstock::frontend
