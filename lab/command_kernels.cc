// penstock-lab kernels: the share of the processor that the kernels use.
#include "cli/command_line.h"
#include "engine/encoder_engine.h"
#include "hub/hub.h"
#include "lab/commands.h"
#include "lab/kernel_shares.h"
#include "lab/model_share.h"
#include "load/penstock_process.h"

namespace penstock::lab {
namespace {

std::string KnownShapes() {
  std::string names;
  for (const std::string& name : KernelShareModels()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

struct KernelFlags {
  KernelShareOptions options;
  std::vector<std::string> dtypes;
  ModelShareOptions whole;
  std::string json_file;
  bool onednn = true;
};

void AddKernelFlags(cli::FlagSet* app, KernelFlags* flags) {
  const cli::FlagGroup group(app);
  group
      .AddRepeated("--shape", flags->options.models, "NAME",
                   "Model whose shapes are taken: " + KnownShapes() + ". May be given again.")
      ->Transform(cli::OneOfAnyCase(KernelShareModels()));
  group
      .AddRepeated("--dtype", flags->dtypes, "TYPE",
                   "f32, bf16 or int8; all if not given. May be given again.")
      ->Transform(cli::OneOfAnyCase({"f32", "bf16", "int8"}));
  group.AddRepeated("--tokens", flags->options.tokens, "N", cli::InRange(1, 16384),
                    "Tokens worked on at once. May be given again.");
  group.Add("-m,--model", flags->whole.folder, "REF",
            "Folder, or owner/name[@revision] on the Hugging Face hub: run it whole.");
  group.Add("--name", flags->whole.name, "NAME", "What records call the model.");
  group.Add("--sequences", flags->whole.sequences, "N", cli::InRange(1, 4096),
            "Sequences the model is given at once.");
  group.Add("--length", flags->whole.length, "N", cli::InRange(1, 8192), "Tokens of each.");
  group.Add("-t,--threads", flags->options.threads, "N", cli::InRange(0, 256),
            "Threads; 0 = one a processor.");
  group.Add("--rounds", flags->options.rounds, "N", cli::InRange(1, 10'000),
            "Rounds; the best of each kernel counts.");
  group.Switch("--onednn,!--no-onednn", flags->onednn, "oneDNN beside ours, or not. [on]");
  group.Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

Status Measure(KernelFlags* flags, load::BenchRecords* records) {
  if (flags->whole.folder.empty()) {
    if (flags->onednn)
      flags->options.onednn_library = load::FileBesideProgram("penstock_onednn.so");
    return MeasureKernelShares(flags->options, records);
  }
  PENSTOCK_ASSIGN_OR_RETURN(flags->whole.folder, hub::ResolveModel(flags->whole.folder, {}));
  flags->whole.threads = flags->options.threads;
  flags->whole.rounds = flags->options.rounds;
  flags->whole.dtypes = flags->options.dtypes;
  return MeasureModelShare(flags->whole, records);
}

}  // namespace

int KernelsCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab kernels",
      "Every linear layer of known encoder shapes, attention and norms: the share of the "
      "arithmetic\npeak and of the memory bandwidth, both measured in the same run; "
      "beside oneDNN where it is\ninstalled (Debian: libdnnl-dev). With --model, the whole model "
      "instead.",
      "  penstock-lab kernels\n"
      "  penstock-lab kernels --shape bge-base --tokens 256 --dtype int8\n"
      "  penstock-lab kernels --model sentence-transformers/all-MiniLM-L6-v2 --name minilm\n"
      "  PENSTOCK_CPU_ISA=avx2 penstock-lab kernels --threads 1 --json kernels.json\n");
  KernelFlags flags;
  AddKernelFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!flags.dtypes.empty()) flags.options.dtypes.clear();
  for (const std::string& name : flags.dtypes) {
    const auto dtype = engine::ParseDType(name);
    if (!dtype.ok()) return line.Fail(dtype.status());
    flags.options.dtypes.push_back(dtype->value_or(numbers::DType::kF32));
  }
  load::BenchRecords records;
  Status status = Measure(&flags, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
