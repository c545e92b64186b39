#include "os/control_group.h"

#include <cstdio>

namespace penstock {

std::optional<int64_t> NumberInFile(const std::string& path, const std::string& key) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  const std::string format = key + "%lld";
  char line[256];
  std::optional<int64_t> found;
  while (!found && std::fgets(line, sizeof(line), file) != nullptr) {
    long long number = 0;
    if (std::sscanf(line, format.c_str(), &number) == 1) found = number;
  }
  std::fclose(file);
  return found;
}

std::vector<ControlGroup> ControlGroupsOf(const std::string& root, const std::string& controller) {
  std::vector<ControlGroup> groups;
  const auto add = [&](const std::string& mount, std::string group, int version) {
    while (true) {
      groups.push_back({mount + group, version});
      const size_t slash = group.rfind('/');
      if (slash == std::string::npos || group.empty()) break;
      group.resize(slash);
    }
  };
  const std::string mounts = root + "/sys/fs/cgroup";
  std::FILE* file = std::fopen((root + "/proc/self/cgroup").c_str(), "re");
  char line[4096];
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    std::string text(line);
    while (text.ends_with('\n')) text.pop_back();
    const size_t colon = text.find(':');
    const size_t path = colon == std::string::npos ? colon : text.find(':', colon + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = text.substr(colon + 1, path - colon - 1);
    std::string group = text.substr(path + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      add(mounts, group, 2);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      add(mounts + "/" + controller, group, 1);
      // Controllers of one mount may be known by all their names together alone.
      if (controllers != controller) add(mounts + "/" + controllers, group, 1);
    }
  }
  if (file != nullptr) std::fclose(file);
  if (groups.empty()) {
    add(mounts, "", 2);
    add(mounts + "/" + controller, "", 1);
  }
  return groups;
}

}  // namespace penstock
