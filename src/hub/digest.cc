#include "hub/digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/regular_file.h"

namespace penstock::hub {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Over `prefix` and the file.
Expected<std::string> DigestOfFile(const EVP_MD* kind, const std::string& prefix,
                                   const std::string& path, const DigestProgress& progress) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  if (context == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) {
    return Status::Internal("cannot compute the digest of " + path);
  }
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  std::vector<char> block(kBlockBytes);
  uint64_t read = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::Internal("cannot read " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(got));
    read += static_cast<uint64_t>(got);
    if (progress && !progress(read)) return Status(StatusCode::kCancelled, "download given up");
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &bytes);
  std::string hex;
  for (unsigned i = 0; i < bytes; ++i) {
    constexpr char kHex[] = "0123456789abcdef";
    hex.push_back(kHex[digest[i] >> 4]);
    hex.push_back(kHex[digest[i] & 15]);
  }
  return hex;
}

}  // namespace

Expected<std::string> Sha256OfFile(const std::string& path, const DigestProgress& progress) {
  return DigestOfFile(EVP_sha256(), "", path, progress);
}

Expected<std::string> GitSha1OfFile(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return DigestOfFile(EVP_sha1(), "blob " + std::to_string(bytes) + std::string(1, '\0'), path, {});
}

Expected<std::string> Sha1OfFile(const std::string& path) {
  return DigestOfFile(EVP_sha1(), "", path, {});
}

bool IsSha256(const std::string& text) { return IsHex(text, 64); }
bool IsSha1(const std::string& text) { return IsHex(text, 40); }

}  // namespace penstock::hub
