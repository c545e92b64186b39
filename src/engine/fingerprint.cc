#include "engine/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/regular_file.h"
#include "base/sha256.h"
#include "files/gguf.h"

namespace penstock::engine {
namespace {

namespace fs = std::filesystem;

// Model folders have tens of files; a home directory given by mistake must not be walked.
constexpr size_t kFingerprintsMax = 4096;

class Digest {
 public:
  void Add(std::string_view text) {
    AddSize(text.size());
    digest_.Add(text);
  }
  Status AddFile(const fs::path& path) {
    uint64_t size = 0;
    PENSTOCK_RETURN_IF_ERROR(ReadInBlocks(path.string(), [&](std::string_view bytes) {
      digest_.Add(bytes);
      size += bytes.size();
      return Status::Ok();
    }));
    AddSize(size);
    return Status::Ok();
  }
  std::string Hex() const { return digest_.Hex(); }

 private:
  void AddSize(uint64_t size) { digest_.Add({reinterpret_cast<const char*>(&size), sizeof size}); }

  Sha256 digest_;
};

Expected<std::vector<fs::path>> FilesOf(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(path));
    for (const files::MappedFile& file : model.files) files.emplace_back(file.path());
    return files;
  }
  error.clear();
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string kind = it->path().extension().string();
    // Snapshots of the hub's cache are links.
    std::error_code ignored;
    const bool wanted =
        kind == ".json" || kind == ".txt" || kind == ".model" || kind == ".safetensors";
    if (wanted && fs::is_regular_file(it->path(), ignored)) files.push_back(it->path());
    if (files.size() > kFingerprintsMax) {
      return Status(StatusCode::kPayloadTooLarge,
                    fmt::format("{} has more than {} files", path, kFingerprintsMax));
    }
  }
  if (error) return Status(StatusCode::kUnavailable, path + ": " + error.message());
  return files;
}

}  // namespace

Expected<std::string> ModelFingerprint(const std::string& path, std::string_view settings) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<fs::path> files, FilesOf(path));
  std::error_code error;
  const fs::path root =
      fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path();
  std::sort(files.begin(), files.end());
  Digest digest;
  digest.Add(settings);
  PENSTOCK_RETURN_IF_ERROR(digest.AddFile("/proc/self/exe"));
  for (const fs::path& file : files) {
    digest.Add(fs::relative(file, root, error).string());
    PENSTOCK_RETURN_IF_ERROR(digest.AddFile(file));
  }
  return digest.Hex();
}

}  // namespace penstock::engine
