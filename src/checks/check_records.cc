#include "checks/check_records.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/sha256.h"

namespace penstock::checks {
namespace {

namespace fs = std::filesystem;

// A home directory given by mistake must not be walked.
constexpr size_t kFilesMax = 4096;
constexpr size_t kKeyDigits = 64;

std::string Env(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Links are followed: snapshots of the hub's cache are links.
std::string StampOf(const fs::path& file) {
  struct stat64 stat {};
  if (::stat64(file.c_str(), &stat) != 0) return std::string();
  return fmt::format("{} {} {}.{:09}", file.string(), stat.st_size, stat.st_mtim.tv_sec,
                     stat.st_mtim.tv_nsec);
}

bool IsOfModel(const fs::path& file) {
  const std::string kind = file.extension().string();
  return kind == ".json" || kind == ".txt" || kind == ".model" || kind == ".safetensors" ||
         kind == ".gguf";
}

// A model in a file has those beside it, too, which may be parts of it. Empty: they cannot be
// listed.
std::vector<std::string> StampsOf(const std::string& path) {
  std::error_code error;
  const fs::path model = fs::absolute(path, error);
  if (error) return {};
  std::vector<std::string> stamps;
  const auto add = [&](const fs::path& file) {
    if (std::string stamp = StampOf(file); !stamp.empty()) stamps.push_back(std::move(stamp));
  };
  if (fs::is_directory(model, error)) {
    for (auto it = fs::recursive_directory_iterator(model, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (IsOfModel(it->path())) add(it->path());
      if (stamps.size() > kFilesMax) return {};
    }
  } else {
    add(model);
    for (auto it = fs::directory_iterator(model.parent_path(), error);
         !error && it != fs::directory_iterator(); it.increment(error)) {
      if (it->path().extension() == ".gguf") add(it->path());
      if (stamps.size() > kFilesMax) return {};
    }
  }
  if (error) return {};
  std::sort(stamps.begin(), stamps.end());
  return stamps;
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::string CheckRecords::DefaultFolder() {
  std::string cache = Env("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::string home = Env("HOME");
    if (home.empty()) return std::string();
    cache = home + "/.cache";
  }
  return cache + "/penstock/checked";
}

bool CheckRecords::Has(const std::string& key) const {
  std::error_code error;
  return !folder_.empty() && !key.empty() && fs::is_regular_file(fs::path(folder_) / key, error);
}

void CheckRecords::Add(const std::string& key, std::string_view text) const {
  if (folder_.empty() || key.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::path record = fs::path(folder_) / key;
  const fs::path made = fmt::format("{}.{}", record.string(), ::getpid());
  std::ofstream(made) << text << '\n';
  fs::rename(made, record, error);
  if (error) fs::remove(made, error);
  DropOldest();
}

void CheckRecords::DropOldest() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> records;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder_, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code gone;
    const auto time = fs::last_write_time(it->path(), gone);
    // Names begin with a key; nothing else is touched.
    const std::string name = it->path().filename().string();
    const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
    if (!gone && digits == kKeyDigits) records.emplace_back(time, it->path());
  }
  if (records.size() <= kRecordsMax) return;
  std::sort(records.begin(), records.end());
  records.resize(records.size() - kRecordsMax);
  for (const auto& [time, path] : records) fs::remove(path, error);
}

std::string CheckKey(const std::string& path, const std::string& fingerprint,
                     std::string_view settings) {
  std::string all = fmt::format("{}\n{}\n{}\n{}\n", PENSTOCK_VERSION, StampOf("/proc/self/exe"),
                                HostName(), settings);
  if (!fingerprint.empty()) return Sha256Hex(all + fingerprint);
  const std::vector<std::string> stamps = StampsOf(path);
  if (stamps.empty()) return std::string();
  for (const std::string& stamp : stamps) all += stamp + '\n';
  return Sha256Hex(all);
}

}  // namespace penstock::checks
