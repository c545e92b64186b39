#include "os/disk_room.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <iterator>

#include "os/output_file.h"

namespace penstock {
namespace {

// f_type of file systems that may need less than the bytes written.
constexpr uint64_t kBtrfs = 0x9123683E;
constexpr uint64_t kZfs = 0x2FC12FC1;

}  // namespace

std::optional<int64_t> RoomFor(const std::string& path) {
  if (path.empty() || path == "-") return std::nullopt;
  struct stat facts {};
  const std::string real = WithoutLinks(path);
  if (stat(real.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) return std::nullopt;
  struct statfs disk {};
  if (statfs(FolderOf(real).c_str(), &disk) != 0) return std::nullopt;
  const auto type = static_cast<uint64_t>(disk.f_type) & 0xFFFFFFFF;
  // Some network file systems and emulations report nothing.
  if (type == kBtrfs || type == kZfs || disk.f_blocks == 0) return std::nullopt;
  int64_t room = static_cast<int64_t>(disk.f_bavail) * disk.f_bsize;
  if (stat((real + ".part").c_str(), &facts) == 0) room += int64_t{facts.st_blocks} * 512;
  return room;
}

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  auto size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < std::size(kUnits); ++unit) size /= 1000;
  return fmt::format("{:.3g} {}", size, kUnits[unit]);
}

}  // namespace penstock
