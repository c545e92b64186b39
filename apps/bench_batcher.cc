// penstock bench batcher: forming batches, beside queues.
#include "bench/batcher.h"
#include "command_line.h"
#include "commands.h"
#include "load/self_process.h"

namespace penstock {

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
  BatcherOptions options;
  std::string json_file;
  FlagSet& app = line.flags();
  app.AddOption("--producers", options.producers, "Submitting threads.")
      ->Delimiter(',')
      ->Check(InRange(1u, BatcherOptions::kProducersMax))
      ->TypeName("N,...");
  app.AddOption("--row-bytes", options.row_bytes, "Size of a row, a multiple of 4.")
      ->Delimiter(',')
      ->Check(InRange(4u, BatcherOptions::kRowBytesMax))
      ->TypeName("N,...");
  app.AddOption("--burst", options.bursts,
                "Rows submitted in one call, by contenders that have such a call.")
      ->Delimiter(',')
      ->Check(InRange(1u, BatcherOptions::kBurstMax))
      ->TypeName("N,...");
  app.AddOption("--rounds", options.rounds, "Turns of all; their median counts.")
      ->Check(InRange(1, 1000))
      ->TypeName("N");
  app.AddOption("--seconds", options.seconds, "Seconds of one contender in one round.")
      ->Check(InRange(0.01, 3600.0))
      ->TypeName("S");
  app.AddOption("--rate", options.rate, "Lone requests a second.")
      ->Check(InRange(0.1, 10000.0))
      ->TypeName("R");
  app.AddOption("--latency-seconds", options.latency_seconds, "How long lone requests are sent.")
      ->Check(InRange(0.01, 3600.0))
      ->TypeName("S");
  app.AddOption("--idle-seconds", options.idle_seconds, "How long it is watched while idle.")
      ->Check(InRange(0.01, 3600.0))
      ->TypeName("S");
  app.AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  for (const uint32_t bytes : options.row_bytes) {
    if (bytes % 4 != 0) return line.FailUsage("--row-bytes: a multiple of 4");
  }
  options.peers_library = FileBesideProgram("penstock_queue_peers.so");
  BenchRecords records;
  Status status = RunBatcherBench(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
