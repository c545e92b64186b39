// The subcommands; each gets the arguments after its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace penstock {

int RunServe(const std::vector<std::string>& args);
int RunEmbed(const std::vector<std::string>& args);
int RunRerank(const std::vector<std::string>& args);
int RunClassify(const std::vector<std::string>& args);
int RunTokenize(const std::vector<std::string>& args);
int RunInspect(const std::vector<std::string>& args);
int RunDoctor(const std::vector<std::string>& args);

// penstock bench NAME; apps/bench.cc has a row for each RunBenchName.
int RunBench(const std::vector<std::string>& args);
int RunBenchKernels(const std::vector<std::string>& args);
int RunBenchHttp(const std::vector<std::string>& args);
int RunBenchSaturation(const std::vector<std::string>& args);
int RunBenchStages(const std::vector<std::string>& args);
int RunBenchBatcher(const std::vector<std::string>& args);
int RunBenchSoak(const std::vector<std::string>& args);
int RunBenchPolicy(const std::vector<std::string>& args);

}  // namespace penstock
