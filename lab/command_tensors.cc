// penstock-lab tensors: the way of tensor requests to a model and back.
#include "apps/model_flags.h"
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/tensor_front_ends.h"
#include "lab/tensor_speed.h"
#include "runtime/local_models.h"

namespace penstock::lab {
namespace {

struct Flags {
  TensorSpeedOptions speed;
  TensorFrontEndOptions front;
  int batch = 1024;
  std::string only, target, target_model = "identity", json_file;
};

void AddFlags(cli::FlagSet* app, Flags* flags) {
  const cli::FlagGroup group(app, "Benchmark");
  group.Add("--width", flags->speed.width, "N", cli::InRange(1, 65536), "FP32 elements of a row.");
  group.Add("--batch", flags->batch, "N", cli::InRange(1, 8191), "Rows of a batch at most.");
  group.Add("--callers", flags->speed.callers, "N", cli::InRange(1, 64), "Threads that submit.");
  group.Add("--window", flags->speed.window, "N", cli::InRange(1, 65536),
            "Requests of each that are under way.");
  group.Add("--seconds", flags->speed.seconds, "S", cli::InRange(0.1, 600.0),
            "Seconds of a round.");
  group.Add("--rounds", flags->speed.rounds, "N", cli::InRange(1, 1000),
            "Rounds; the best counts.");
  group.Add("--only", flags->only, "PART", cli::OneOf({"in-process", "front-ends"}),
            "in-process or front-ends.");
  group.Add("--grpc-target", flags->target, "TARGET", "Measure this server instead, HOST:PORT.");
  group
      .Add("--grpc-model", flags->target_model, "NAME",
           "Its model: FP32 INPUT0 [-1,width] to OUTPUT0.")
      ->ShowDefault();
  group.Add("--under-way", flags->front.window, "N", cli::InRange(1, 4096),
            "Requests under way over gRPC and HTTP.");
  cli::FlagGroup(app, "Output")
      .Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

}  // namespace

int TensorsCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab tensors",
      "Requests and rows a second of a tensor model that only copies: from the api to\n"
      "the result in this process, over gRPC beside an empty service, over HTTP, and\n"
      "with shared memory. Or of another server, with --grpc-target.",
      "  penstock-lab tensors\n"
      "  penstock-lab tensors --callers 1 --window 4096 --json records.json\n"
      "  penstock-lab tensors --grpc-target 127.0.0.1:8001 --grpc-model identity\n");
  Flags flags;
  AddFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  flags.front.width = flags.speed.width;
  flags.front.seconds = flags.speed.seconds;
  flags.front.rounds = flags.speed.rounds;
  load::BenchRecords records;
  if (!flags.target.empty()) {
    flags.front.model = flags.target_model;
    Status status = MeasureGrpcTarget(flags.target, flags.front, &records);
    if (status.ok()) status = records.WriteFile(flags.json_file);
    return status.ok() ? cli::kExitOk : line.Fail(status);
  }
  flags.speed.model = flags.front.model = "identity";
  runtime::ModelOptions models;
  models.models = {"identity=builtin:identity?shape=" + std::to_string(flags.speed.width) +
                   "&batch=" + std::to_string(flags.batch)};
  models.log_level = "warn";
  models.limits.shared_memory_bytes = 64 << 20;
  if (const Status log = cli::ApplyLogFlags(models); !log.ok()) return line.Fail(log);
  auto local = runtime::LocalModels::Start(models);
  if (!local.ok()) return line.Fail(local.status());
  Status status = (*local)->registry->WaitLoaded();
  if (status.ok() && flags.only != "front-ends") {
    status = MeasureTensorSpeed((*local)->service.get(), flags.speed, &records);
  }
  if (status.ok() && flags.only != "in-process") {
    status =
        MeasureTensorFrontEnds((*local)->service.get(), &(*local)->metrics, flags.front, &records);
  }
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
