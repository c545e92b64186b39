#include "hub/digest.h"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <memory>

#include "base/regular_file.h"

namespace penstock::hub {
namespace {

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Over `prefix` and the file.
Expected<std::string> DigestOfFile(const EVP_MD* kind, const std::string& prefix,
                                   const std::string& path, const DigestProgress& progress) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) {
    return Status::Internal("cannot compute the digest of " + path);
  }
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  uint64_t read = 0;
  const Status done = ReadInBlocks(path, [&](std::string_view block) {
    EVP_DigestUpdate(context.get(), block.data(), block.size());
    read += block.size();
    return progress && !progress(read) ? Status(StatusCode::kCancelled, "download given up")
                                       : Status::Ok();
  });
  // kUnavailable is the hub's: it is this machine's disk.
  if (done.code() == StatusCode::kUnavailable) return Status::Internal(done.message());
  PENSTOCK_RETURN_IF_ERROR(done);
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
