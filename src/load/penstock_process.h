// `penstock` as a child, and files beside this program. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::load {

// Starts `penstock WORDS...` with `stdout_fd` as its standard output; the caller waits for it.
// `penstock` is this very program; of penstock-lab it is the file of that name beside it.
Expected<pid_t> SpawnPenstock(std::vector<std::string> words, int stdout_fd);
// The exit code of a child that has ended, from waitpid's status; 128 + the signal that ended it.
int ExitCodeOf(int wait_status);
// Runs `penstock WORDS...` to its end, its standard output dropped. Its exit code.
Expected<int> RunPenstock(std::vector<std::string> words);

// The path of a file in the folder of this program; "": no such file.
std::string FileBesideProgram(const std::string& name);

}  // namespace penstock::load
