// The subcommands; each gets the arguments after its name and returns the exit code. Each parses
// its CommandLine before it does anything else: others run it as far as that, to learn its flags.
#pragma once

#include <string>
#include <vector>

#include "cli/command_group.h"

namespace penstock::cli {

// penstock itself.
const CommandGroup& ProgramGroup();
// penstock bench.
const CommandGroup& BenchGroup();

int RunServe(const std::vector<std::string>& args);
int RunEmbed(const std::vector<std::string>& args);
int RunMerge(const std::vector<std::string>& args);
int RunRerank(const std::vector<std::string>& args);
int RunClassify(const std::vector<std::string>& args);
int RunGenerate(const std::vector<std::string>& args);
int RunBatch(const std::vector<std::string>& args);
int RunChat(const std::vector<std::string>& args);
int RunTokenize(const std::vector<std::string>& args);
int RunInspect(const std::vector<std::string>& args);
int RunPull(const std::vector<std::string>& args);
int RunList(const std::vector<std::string>& args);
int RunShow(const std::vector<std::string>& args);
int RunRemove(const std::vector<std::string>& args);
int RunPlan(const std::vector<std::string>& args);
int RunDoctor(const std::vector<std::string>& args);
int RunCompletion(const std::vector<std::string>& args);
int RunMan(const std::vector<std::string>& args);

// penstock bench NAME; BenchGroup has a row for each RunBenchName.
int RunBench(const std::vector<std::string>& args);
int RunBenchChat(const std::vector<std::string>& args);
int RunBenchGenerate(const std::vector<std::string>& args);
int RunBenchHttp(const std::vector<std::string>& args);
int RunBenchKernels(const std::vector<std::string>& args);
int RunBenchReindex(const std::vector<std::string>& args);

}  // namespace penstock::cli
