// Records of models that passed their checks on this machine, a small file each, so that they are
// not checked again.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::checks {

class CheckRecords {
 public:
  // Those written first go once there are more.
  static constexpr size_t kRecordsMax = 1000;

  // ${XDG_CACHE_HOME:-~/.cache}/penstock/checked; "" where neither variable is set.
  static std::string DefaultFolder();
  // "": no records are kept.
  explicit CheckRecords(std::string folder) : folder_(std::move(folder)) {}

  bool Has(const std::string& key) const;
  // `text`: for people who look into the folder. Where it cannot be written there is no record.
  void Add(const std::string& key, std::string_view text) const;

 private:
  void DropOldest() const;

  const std::string folder_;
};

// The key of a model, 64 hexadecimal digits: of this machine, this program, `settings`, and the
// names, sizes and times of the files at `path`, a folder or a .gguf file, which are not read; or
// of `fingerprint` in place of the files if it is not "". "": the files cannot be listed.
std::string CheckKey(const std::string& path, const std::string& fingerprint,
                     std::string_view settings);

}  // namespace penstock::checks
