// `penstock version`: what this program is, and of what it is made.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

// `args` after the word; the exit code. With --json an object: version, compiler, architecture,
// instruction set, and the version of each library, shared ones as they were loaded.
int RunVersion(const std::string& program, const std::vector<std::string>& args);

}  // namespace penstock::cli
