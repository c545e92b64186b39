// penstock bench batcher: forming batches, beside queues.
#include "bench/batcher.h"
#include "command_line.h"
#include "commands.h"
#include "load/self_process.h"

namespace penstock::cli {

int RunBenchBatcher(const std::vector<std::string>& args) {
  CommandLine line(
      "bench batcher",
      "Forming batches of rows that several threads submit: Penstock's ring beside a batcher\n"
      "thread on moodycamel's queue, oneTBB's, Boost.Lockfree's, and a mutex with a condition\n"
      "variable (built beside the program, not installed). The ring with a reservation for each\n"
      "call, and with runs, of which a thread takes row by row (records: way=run). The model does\n"
      "next to nothing. Then the ring alone: reservations a second, what it adds to a lone\n"
      "request, and what it costs while nothing is to be done. Takes 5 minutes.",
      "  penstock bench batcher\n"
      "  penstock bench batcher --producers 2 --row-bytes 128 --json batcher.json\n");
  bench::BatcherOptions options;
  std::string json_file;
  const FlagGroup group(&line.flags());
  group
      .Add("--producers", options.producers, "N,...",
           InRange(1u, bench::BatcherOptions::kProducersMax), "Submitting threads.")
      ->Delimiter(',');
  group
      .Add("--row-bytes", options.row_bytes, "N,...",
           InRange(4u, bench::BatcherOptions::kRowBytesMax), "Size of a row, a multiple of 4.")
      ->Delimiter(',');
  group
      .Add("--burst", options.bursts, "N,...", InRange(1u, bench::BatcherOptions::kBurstMax),
           "Rows submitted in one call, by contenders that have such a call.")
      ->Delimiter(',');
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000),
            "Turns of all; their median counts.");
  group.Add("--seconds", options.seconds, "S", InRange(0.01, 3600.0),
            "Seconds of one contender in one round.");
  group.Add("--rate", options.rate, "R", InRange(0.1, 10000.0), "Lone requests a second.");
  group.Add("--latency-seconds", options.latency_seconds, "S", InRange(0.01, 3600.0),
            "How long lone requests are sent.");
  group.Add("--idle-seconds", options.idle_seconds, "S", InRange(0.01, 3600.0),
            "How long it is watched while idle.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  for (const uint32_t bytes : options.row_bytes) {
    if (bytes % 4 != 0) return line.FailUsage("--row-bytes: a multiple of 4");
  }
  options.peers_library = load::FileBesideProgram("penstock_queue_peers.so");
  load::BenchRecords records;
  Status status = bench::RunBatcherBench(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli
