// penstock bench kernels: the share of the processor that the kernels use.
#include <filesystem>

#include "bench/kernel_shares.h"
#include "bench/model_share.h"
#include "command_line.h"
#include "commands.h"
#include "engine/engine.h"
#include "hub/hub.h"

namespace penstock {
namespace {

// Built beside the program where oneDNN is installed.
std::string OneDnnBesideProgram() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return "";
  const auto library = program.parent_path() / "penstock_onednn.so";
  return std::filesystem::exists(library, failed) ? library.string() : "";
}

std::string KnownShapes() {
  std::string names;
  for (const std::string& name : KernelShareModels()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

int RunBenchKernels(const std::vector<std::string>& args) {
  CommandLine line(
      "bench kernels",
      "Every linear layer of known encoder shapes, attention and norms: the share of the "
      "arithmetic\npeak and of the memory bandwidth, both measured in the same run; "
      "beside oneDNN where it is\ninstalled (Debian: libdnnl-dev). With --model, the whole model "
      "instead.",
      "  penstock bench kernels\n"
      "  penstock bench kernels --shape bge-base --tokens 256 --dtype int8\n"
      "  penstock bench kernels --model sentence-transformers/all-MiniLM-L6-v2 --name minilm\n"
      "  PENSTOCK_CPU_ISA=avx2 penstock bench kernels --threads 1 --json kernels.json\n");
  KernelShareOptions options;
  std::vector<std::string> dtypes;
  ModelShareOptions whole;
  std::string json_file;
  bool onednn = true;
  CLI::App& app = line.app();
  app.add_option("--shape", options.models,
                 "Model whose shapes are taken: " + KnownShapes() + ". May be given again.")
      ->transform(CLI::IsMember(KernelShareModels(), CLI::ignore_case))
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--dtype", dtypes, "f32, bf16 or int8; all if not given. May be given again.")
      ->transform(CLI::IsMember({"f32", "bf16", "int8"}, CLI::ignore_case))
      ->type_name("TYPE")
      ->allow_extra_args(false);
  app.add_option("--tokens", options.tokens, "Tokens worked on at once. May be given again.")
      ->check(CLI::Range(1, 16384))
      ->type_name("N")
      ->allow_extra_args(false);
  app.add_option("-m,--model", whole.folder,
                 "Folder, or owner/name[@revision] on the Hugging Face hub: run it whole.")
      ->type_name("REF");
  app.add_option("--name", whole.name, "What records call the model.")->type_name("NAME");
  app.add_option("--sequences", whole.sequences, "Sequences the model is given at once.")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--length", whole.length, "Tokens of each.")
      ->check(CLI::Range(1, 8192))
      ->type_name("N");
  app.add_option("-t,--threads", options.threads, "Threads; 0 = one a processor.")
      ->check(CLI::Range(0, 256))
      ->type_name("N");
  app.add_option("--rounds", options.rounds, "Rounds; the best of each kernel counts.")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N");
  app.add_flag("--onednn,!--no-onednn", onednn, "oneDNN beside ours, or not. [on]");
  app.add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!dtypes.empty()) options.dtypes.clear();
  for (const std::string& name : dtypes) {
    const auto dtype = ParseDType(name);
    if (!dtype.ok()) return line.Fail(dtype.status());
    options.dtypes.push_back(dtype->value_or(DType::kF32));
  }
  BenchRecords records;
  Status status = Status::Ok();
  if (whole.folder.empty()) {
    if (onednn) options.onednn_library = OneDnnBesideProgram();
    status = MeasureKernelShares(options, &records);
  } else {
    auto folder = ResolveModel(whole.folder, {});
    if (!folder.ok()) return line.Fail(folder.status());
    whole.folder = *folder;
    whole.threads = options.threads;
    whole.rounds = options.rounds;
    whole.dtypes = options.dtypes;
    status = MeasureModelShare(whole, &records);
  }
  if (!status.ok()) return line.Fail(status);
  if (status = records.WriteFile(json_file); !status.ok()) return line.Fail(status);
  return kExitOk;
}

}  // namespace penstock
