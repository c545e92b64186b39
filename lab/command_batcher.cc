// penstock-lab batcher: forming batches, beside queues.
#include "cli/command_line.h"
#include "lab/batcher.h"
#include "lab/commands.h"
#include "load/penstock_process.h"

namespace penstock::lab {

int BatcherCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab batcher",
      "Forming batches of rows that several threads submit: Penstock's ring beside a batcher\n"
      "thread on moodycamel's queue, oneTBB's, Boost.Lockfree's, and a mutex with a condition\n"
      "variable (built beside the program, not installed). The ring with a reservation for each\n"
      "call, and with runs, of which a thread takes row by row (records: way=run). The model does\n"
      "next to nothing. Then the ring alone: reservations a second, what it adds to a lone\n"
      "request, and what it costs while nothing is to be done. Takes 5 minutes.",
      "  penstock-lab batcher\n"
      "  penstock-lab batcher --producers 2 --row-bytes 128 --json batcher.json\n");
  BatcherOptions options;
  std::string json_file;
  const cli::FlagGroup group(&line.flags());
  group
      .Add("--producers", options.producers, "N,...",
           cli::InRange(1u, BatcherOptions::kProducersMax), "Submitting threads.")
      ->Delimiter(',');
  group
      .Add("--row-bytes", options.row_bytes, "N,...",
           cli::InRange(4u, BatcherOptions::kRowBytesMax), "Size of a row, a multiple of 4.")
      ->Delimiter(',');
  group
      .Add("--burst", options.bursts, "N,...", cli::InRange(1u, BatcherOptions::kBurstMax),
           "Rows submitted in one call, by contenders that have such a call.")
      ->Delimiter(',');
  group.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000),
            "Turns of all; their median counts.");
  group.Add("--seconds", options.seconds, "S", cli::InRange(0.01, 3600.0),
            "Seconds of one contender in one round.");
  group.Add("--rate", options.rate, "R", cli::InRange(0.1, 10000.0), "Lone requests a second.");
  group.Add("--latency-seconds", options.latency_seconds, "S", cli::InRange(0.01, 3600.0),
            "How long lone requests are sent.");
  group.Add("--idle-seconds", options.idle_seconds, "S", cli::InRange(0.01, 3600.0),
            "How long it is watched while idle.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  for (const uint32_t bytes : options.row_bytes) {
    if (bytes % 4 != 0) return line.FailUsage("--row-bytes: a multiple of 4");
  }
  options.peers_library = load::FileBesideProgram("penstock_queue_peers.so");
  load::BenchRecords records;
  Status status = RunBatcherBench(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
