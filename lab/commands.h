// The experiments of penstock-lab; as with apps/commands.h, each gets the arguments after its name
// and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace penstock::lab {

int BatcherCommand(const std::vector<std::string>& args);
int ChatHttpCommand(const std::vector<std::string>& args);
int KernelsCommand(const std::vector<std::string>& args);
int LifecycleCommand(const std::vector<std::string>& args);
int PolicyCommand(const std::vector<std::string>& args);
int SaturationCommand(const std::vector<std::string>& args);
int SchemasCommand(const std::vector<std::string>& args);
int SoakCommand(const std::vector<std::string>& args);
int StagesCommand(const std::vector<std::string>& args);
int TensorsCommand(const std::vector<std::string>& args);
int ThreadsCommand(const std::vector<std::string>& args);
int TokenizersCommand(const std::vector<std::string>& args);
int UiCommand(const std::vector<std::string>& args);

}  // namespace penstock::lab
