// Commands that ask a server: those that a person who comes from Ollama looks for, and its health. As
// those of commands.h.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

int RunRun(const std::vector<std::string>& args);
int RunPs(const std::vector<std::string>& args);
int RunStop(const std::vector<std::string>& args);
int RunHealth(const std::vector<std::string>& args);

}  // namespace penstock::cli
