// A folder of a test's own, removed at its end with all that is in it. Tests run side by side, also
// those of other checkouts, so none names a file of a shared folder.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace penstock {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string text() const { return path_.string(); }
  std::string operator/(const std::filesystem::path& name) const { return (path_ / name).string(); }

  // Makes the folders above it, too. Returns its path.
  std::string Write(const std::filesystem::path& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  void Link(const std::filesystem::path& to, const std::filesystem::path& name) const {
    std::filesystem::create_symlink(std::filesystem::absolute(to), path_ / name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
