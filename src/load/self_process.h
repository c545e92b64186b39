// This program: run again as a child, and files beside it. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/status.h"

namespace penstock::load {

// Starts `penstock WORDS...` with `stdout_fd` as its standard output; the caller waits for it.
Expected<pid_t> SpawnSelf(std::vector<std::string> words, int stdout_fd);
// The exit code of a child that has ended, from waitpid's status; 128 + the signal that ended it.
int ExitCodeOf(int wait_status);
// Runs `penstock WORDS...` to its end, its standard output dropped. Its exit code.
Expected<int> RunSelf(std::vector<std::string> words);

// The path of a file in the folder of this program; "": no such file.
std::string FileBesideProgram(const std::string& name);

}  // namespace penstock::load
