// The list of files of a repository at one commit, as the hub gives it. It comes from a stranger:
// sizes are bounded, and a list with a path that would lead out of its folder is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::hub {

struct RepositoryListing {
  static constexpr size_t kBytesMax = 32 << 20;  // of the JSON text
  static constexpr size_t kFilesMax = 100'000;

  std::string commit;
  std::map<std::string, uint64_t> files;  // path -> bytes, 0 = not said

  bool Has(std::string_view file) const { return files.contains(std::string(file)); }

  // {"sha": COMMIT, "siblings": [{"rfilename": PATH, "size": BYTES}, ...]}, other keys are skipped.
  // kInvalidArgument names what is wrong.
  static Expected<RepositoryListing> Parse(const std::string& json);
  // In that form.
  std::string ToJson() const;
};

}  // namespace penstock::hub
