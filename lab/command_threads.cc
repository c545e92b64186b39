// penstock-lab threads: steps of a decoder by more threads than processors, and by more cores.
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/thread_scaling.h"

namespace penstock::lab {

int ThreadsCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab threads",
      "Tokens decoded a second by one thread, by one for each processor, and by 2, 4 and 8 times\n"
      "as many, all of which take part in each step (the program itself uses no more than there\n"
      "are processors). Then the speed-up over one thread that a model of a machine with more\n"
      "cores gives, from the costs measured here: with a flat barrier, with the tree, and with\n"
      "the number of threads that is found by measuring steps. lab/thread_scaling.h has the\n"
      "model.",
      "  penstock-lab threads -m model.gguf\n"
      "  penstock-lab threads -m model.gguf --cores 32,96 --cores-per-l3 16 --json threads.json\n");
  ThreadScalingOptions options;
  std::string json_file;
  double socket_gb = options.machine.socket_bytes_per_s / 1e9;
  const cli::FlagGroup group(&line.flags());
  group.Add("-m,--model", options.model, "FILE", "A folder or .gguf file of a decoder.")
      ->Required();
  group
      .Add("--cores", options.cores, "N,...", cli::InRange(1u, 256u),
           "Cores of the machines that are simulated.")
      ->Delimiter(',');
  group.Add("--cores-per-l3", options.machine.l3_cores, "N", cli::InRange(size_t{1}, size_t{256}),
            "Cores that share an L3 cache.");
  group.Add("--cores-per-socket", options.machine.socket_cores, "N",
            cli::InRange(size_t{1}, size_t{256}), "Cores that share a memory.");
  group.Add("--socket-gb-per-s", socket_gb, "GB", cli::InRange(1.0, 10000.0),
            "Bandwidth of that memory.");
  group.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000),
            "Turns of all numbers of threads; the best of each counts.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.machine.socket_bytes_per_s = socket_gb * 1e9;
  load::BenchRecords records;
  Status status = MeasureThreadScaling(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
