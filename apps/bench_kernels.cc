// penstock bench kernels: what each kernel of a GPU takes, beside its floor.
#include <fmt/format.h>

#include "cli/command_line.h"
#include "commands.h"
#include "devices/backends.h"
#include "load/records.h"
#include "load/table.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

struct KernelsFlags {
  std::string device = devices::Devices::kAuto;
  program::KernelTimeOptions options;
  std::string json_file;
};

void AddFlags(FlagSet* app, KernelsFlags* flags) {
  const FlagGroup group(app, "Kernels");
  AddDeviceFlag(group, &flags->device);
  group.AddRepeated("--tokens", flags->options.tokens, "N", InRange(1, 65536),
                    "Tokens of a batch. May be given again.");
  group.Add("--width", flags->options.width, "N", InRange(64, 4096),
            "Width of the encoder, a multiple of 64.");
  group.Add("--length", flags->options.length, "N", InRange(8, 8192), "Tokens of a sequence.");
  group.Add("--launches", flags->options.launches, "N", InRange(1, 10'000),
            "Launches of a kernel in its graph.");
  group.Add("--rounds", flags->options.rounds, "N", InRange(1, 1000), "Rounds; the median counts.");
  group.Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

void Print(const std::vector<program::KernelTime>& times, load::BenchRecords* records) {
  load::BenchTable table({"kernel", "shape", "us", "floor us", "share", "TFLOP/s", "TB/s"});
  for (const program::KernelTime& one : times) {
    const double share = one.floor_seconds / one.seconds;
    table.AddRow({one.kernel, one.shape, load::ShortNumber(one.seconds * 1e6),
                  load::ShortNumber(one.floor_seconds * 1e6), fmt::format("{:.1f}%", share * 100),
                  load::ShortNumber(one.operations / one.seconds * 1e-12),
                  load::ShortNumber(one.bytes / one.seconds * 1e-12)});
    const std::string row = one.kernel + " " + one.shape;
    records->Add("kernels.us", one.seconds * 1e6, "us", row);
    records->Add("kernels.floor_share", share, "1", row);
  }
  table.Print();
}

}  // namespace

int RunBenchKernels(const std::vector<std::string>& args) {
  CommandLine line(
      "bench kernels",
      "Each kernel of an encoder in f16 on a GPU: what a launch takes in a graph of them, and the\n"
      "least that the GPU's rates of arithmetic and memory allow. Those of the CPU:\n"
      "`penstock-lab kernels`.",
      "  penstock bench kernels --device cuda\n"
      "  penstock bench kernels --tokens 32 --tokens 16384 --width 1024 --json kernels.json\n");
  KernelsFlags flags;
  AddFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.options.width % 64 != 0) return line.FailUsage("--width: not a multiple of 64");
  const auto times = devices::TimeKernels(flags.device, flags.options);
  if (!times.ok()) return line.Fail(times.status());
  load::BenchRecords records;
  Print(*times, &records);
  const Status status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli
