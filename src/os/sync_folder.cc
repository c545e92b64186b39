#include "os/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/regular_file.h"

namespace penstock {

bool SyncFolderOf(const std::string& path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) parent = ".";
  const FileDescriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.get() >= 0 && ::fsync(folder.get()) == 0;
}

}  // namespace penstock
