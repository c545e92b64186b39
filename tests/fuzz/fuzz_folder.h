// A folder for fuzz targets that read model folders: in memory where /dev/shm exists, removed at
// the end.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock {

class FuzzFolder {
 public:
  FuzzFolder() {
    namespace fs = std::filesystem;
    const fs::path base = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string pattern = (base / "penstock_fuzz_XXXXXX").string();  // mkdtemp's template
    PENSTOCK_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  // Writes a file, or removes it if `text` is empty.
  void Put(const char* name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    if (text.empty()) {
      unlink(file.c_str());
    } else {
      std::ofstream(file, std::ios::binary) << text;
    }
  }
  const std::filesystem::path& root() const { return path_; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
