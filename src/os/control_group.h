// The control groups of this process and those above it: where their limits can be read. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

struct ControlGroup {
  std::string folder;  // where the files of the group are
  int version = 2;     // 1 or 2: their files have other names
};

// The groups that limit this process by `controller` ("memory", "cpu"), told from
// /proc/self/cgroup: "0::/a/b" of version 2, "4:memory:/a/b" of version 1; the innermost of a
// version first. In a container the group is often the mount itself, so the mount comes last. Where
// the system tells no group, the mounts alone. Files of the system are looked for under `root`, as
// "/" has them: "" but for tests.
std::vector<ControlGroup> ControlGroupsOf(const std::string& root, const std::string& controller);

// The number after `key` in the first line of a file that begins with it. nullopt: there is no such
// file or line, or no number.
std::optional<int64_t> NumberInFile(const std::string& path, const std::string& key);

}  // namespace penstock
