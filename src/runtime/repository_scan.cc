#include "runtime/repository_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/printable.h"
#include "base/seeded_hash.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;

// "2" as 2; 0: no positive integer, or one with a leading zero.
int64_t NumberOf(const std::string& name) {
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stop != end || name.front() == '0' || number < 1) return 0;
  return number;
}

// Why it cannot be a model's name; "": it can.
std::string FaultOfName(const std::string& name) {
  if (name.size() > RepositoryLimits::kNameBytesMax) {
    return fmt::format("a model's name has at most {} bytes", RepositoryLimits::kNameBytesMax);
  }
  if (Printable(name) != name) {
    return "a model's name is text in UTF-8 without control characters";
  }
  if (name.find_first_of(",=") != std::string::npos || name.front() == '~') {
    return "a model's name cannot hold ',' or '=', or begin with '~'";
  }
  return "";
}

std::string ErrorText(const fs::path& path, const std::error_code& error) {
  return fmt::format("cannot read {}: {}", path.string(), error.message());
}

class Scanner {
 public:
  explicit Scanner(fs::path root) : root_(std::move(root)) {}

  Expected<RepositoryContents> Scan() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root_));
    RepositoryContents found;
    for (const std::string& name : names) {
      const fs::path path = root_ / name;
      std::error_code ignored;
      if (!fs::is_directory(path, ignored)) continue;
      if (found.models.size() == RepositoryLimits::kModelsMax) {
        LeaveOut(path,
                 fmt::format("a repository has at most {} models", RepositoryLimits::kModelsMax));
        break;
      }
      if (const std::string fault = FaultOfName(name); !fault.empty()) {
        LeaveOut(path, fault);
      } else if (!IsInside(path)) {
        LeaveOut(path, "the link leads out of the repository");
      } else {
        ScanModel(path, name, &found.models);
      }
    }
    found.left_out = std::move(left_out_);
    return found;
  }

 private:
  void LeaveOut(const fs::path& path, const std::string& why) {
    left_out_.push_back(Printable(fmt::format("{} is left out: {}", path.string(), why)));
  }

  // In their order, without those that begin with '.'.
  static Expected<std::vector<std::string>> NamesIn(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator at(folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      std::string name = at->path().filename().string();
      if (name.starts_with('.')) continue;
      if (names.size() == RepositoryLimits::kEntriesMax) {
        return Status(StatusCode::kPayloadTooLarge,
                      fmt::format("{} has more than {} entries", folder.string(),
                                  RepositoryLimits::kEntriesMax));
      }
      names.push_back(std::move(name));
    }
    if (error) return Status::InvalidArgument(ErrorText(folder, error));
    std::sort(names.begin(), names.end());
    return names;
  }

  // Whether it exists, and lies in the repository when all links are followed.
  bool IsInside(const fs::path& path) const {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) return false;
    return std::mismatch(root_.begin(), root_.end(), real.begin(), real.end()).first == root_.end();
  }

  void ScanModel(const fs::path& path, const std::string& name,
                 std::vector<RepositoryModel>* models) {
    const auto names = NamesIn(path);
    if (!names.ok()) return LeaveOut(path, names.status().message());
    RepositoryModel model;
    model.name = name;
    for (const std::string& entry : *names) {
      std::error_code ignored;
      const int64_t number = NumberOf(entry);
      if (number > 0) {
        model.versions.push_back({number, (path / entry).string(), 0, ""});
      } else if (fs::is_directory(path / entry, ignored)) {
        LeaveOut(path / entry, "a version is named by a positive integer without leading zeros");
      } else if (entry == "model.toml") {
        model.settings = (path / entry).string();
      } else if (entry == "config.pbtxt") {
        model.config = (path / entry).string();
      }
    }
    if (model.versions.empty()) return LeaveOut(path, "it has no version: no folder named 1");
    std::sort(model.versions.begin(), model.versions.end(),
              [](const auto& a, const auto& b) { return a.number > b.number; });
    model.versions.resize(std::min(model.versions.size(), RepositoryLimits::kVersionsMax));
    for (RepositoryVersion& version : model.versions) ScanVersion(model, &version);
    models->push_back(std::move(model));
  }

  void ScanVersion(const RepositoryModel& model, RepositoryVersion* version) {
    std::vector<std::string> lines;
    std::error_code ignored;
    for (const std::string& settings : {model.settings, model.config}) {
      if (!settings.empty() && version->error.empty()) version->error = AddFile(settings, &lines);
    }
    if (version->error.empty()) {
      version->error = !IsInside(version->path) ? "the link leads out of the repository"
                       : fs::is_directory(version->path, ignored)
                           ? AddFolder(version->path, 1, &lines)
                           : "it is not a folder";
    }
    version->error = Printable(version->error);
    std::sort(lines.begin(), lines.end());
    std::string all;
    for (const std::string& line : lines) all += line;
    version->files = SeededHash()(all);
  }

  // Adds a line a file; returns the first error.
  std::string AddFolder(const fs::path& folder, int depth, std::vector<std::string>* lines) {
    if (depth > RepositoryLimits::kDepthMax) {
      return fmt::format("its folders are more than {} deep", RepositoryLimits::kDepthMax);
    }
    const auto names = NamesIn(folder);
    if (!names.ok()) return names.status().message();
    for (const std::string& name : *names) {
      const fs::path path = folder / name;
      std::error_code ignored;
      const bool is_folder = fs::is_directory(path, ignored);
      std::string error;
      if (is_folder && lines->size() < RepositoryLimits::kFilesMax) {
        if (!IsInside(path)) return OutText(path);
        lines->push_back(path.string() + "/\n");
        error = AddFolder(path, depth + 1, lines);
      } else {
        error = AddFile(path, lines);
      }
      if (!error.empty()) return error;
    }
    return "";
  }

  std::string AddFile(const fs::path& path, std::vector<std::string>* lines) {
    if (lines->size() >= RepositoryLimits::kFilesMax) {
      return fmt::format("it has more than {} files", RepositoryLimits::kFilesMax);
    }
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return fmt::format("cannot read {}", path.string());
    if (!fs::is_regular_file(status)) return path.string() + " is not a regular file";
    if (!IsInside(path)) return OutText(path);
    const uintmax_t bytes = fs::file_size(path, error);
    if (error) return ErrorText(path, error);
    const auto time = fs::last_write_time(path, error);
    if (error) return ErrorText(path, error);
    lines->push_back(
        fmt::format("{} {} {}\n", path.string(), bytes, time.time_since_epoch().count()));
    return "";
  }

  static std::string OutText(const fs::path& path) {
    return path.string() + " is a link that leads out of the repository";
  }

  const fs::path root_;  // canonical
  std::vector<std::string> left_out_;
};

}  // namespace

Expected<RepositoryContents> ScanRepository(const std::string& folder) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error || !fs::is_directory(root, error)) {
    return Status::NotFound(fmt::format("{} is not a folder", folder), "repository");
  }
  return Scanner(root).Scan();
}

}  // namespace penstock::runtime
