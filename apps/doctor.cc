// penstock doctor: does this model compute here what it should? Each line is one check of
// checks/list.cc. WARN: a type of the model's layers or cache is not advisable.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/text_results.h"
#include "commands.h"
#include "devices/backends.h"
#include "doctor_accuracy.h"
#include "doctor_decoder.h"
#include "doctor_threads.h"
#include "inspect_decoder.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

// Raw output rows of a model for the texts: vectors, or logits.
Expected<checks::ModelRows> Outputs(runtime::LocalModels* local,
                                    const std::vector<std::string>& texts) {
  Workload work = {local->service->Models().front().task, {}, 0};
  const bool embeds = work.task == "embedding";
  for (const std::string& text : texts) {
    work.inputs.push_back({text, embeds ? std::nullopt : std::optional("A second text.")});
  }
  PENSTOCK_ASSIGN_OR_RETURN(const checks::ResultRows rows, AskAll(local->service.get(), work));
  checks::ModelRows out;
  for (size_t i = 0; i < rows.count(); ++i)
    out.emplace_back(rows.row(i).begin(), rows.row(i).end());
  return out;
}

Expected<std::vector<program::KernelDifference>> CheckKernelsOf(
    const runtime::ModelOptions& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(const devices::DeviceOptions options, runtime::DeviceAsked(flags));
  return devices::CheckKernels(options.device);
}

// Prints a line for each check.
class DoctorReport {
 public:
  void operator()(checks::Verdict verdict, const std::string& check, const std::string& text) {
    constexpr const char* kWords[] = {"ok", "WARN", "-", "FAIL"};
    std::printf("%-4s  %-9s  %s\n", kWords[static_cast<size_t>(verdict)], check.c_str(),
                text.c_str());
    std::fflush(stdout);
    failed_ = failed_ || verdict == checks::Verdict::kFailed;
  }
  int ExitCode() const { return failed_ ? kExitFailure : kExitOk; }

 private:
  bool failed_ = false;
};

// Its lines are of the check "threads".
checks::Say OfThreads(DoctorReport* report) {
  return [report](checks::Verdict verdict, const std::string& text) {
    (*report)(verdict, "threads", text);
  };
}

int RunDecoder(const CommandLine& line, const DecoderPlace& place,
               const runtime::ModelOptions& flags, const AccuracyFlags& accuracy,
               bool try_threads) {
  for (const char* flag : {"pooling", "int8-keep", "try-keep"}) {
    if (line.on_line().contains(flag)) {
      return line.FailUsage(fmt::format("--{}: for encoders only", flag));
    }
  }
  DoctorReport report;
  DiagnoseDecoder(place, flags, accuracy, std::ref(report));
  if (try_threads) TryThreadsOfDecoder(place, flags, OfThreads(&report));
  return report.ExitCode();
}

// The checks of an encoder, or of a decoder that embeds or scores.
void DiagnoseEncoder(runtime::ModelOptions flags, const AccuracyFlags& accuracy,
                     const checks::SayOfCheck& say) {
  const auto not_loaded = [&](const Status& status) {
    say(checks::Verdict::kFailed, "load", status.message());
  };
  runtime::TakeDefaultModel(&flags);
  if (const Status fetched = FetchModels(flags); !fetched.ok()) return not_loaded(fetched);
  auto loaded = runtime::LocalModels::Load(flags);
  if (!loaded.ok()) return not_loaded(loaded.status());
  std::unique_ptr<runtime::LocalModels> local = *std::move(loaded);
  const api::ModelInfo info = local->service->Models().front();
  // LocalModels wait for leases when they end.
  registry::Lease<engine::EncoderEngine> engine = *local->registry->Find<engine::EncoderEngine>("");
  checks::CheckSubject subject;
  subject.dtype = engine->info().dtype;
  subject.tokenizer = &engine->tokenizer();
  flags.dtypes = {numbers::DTypeFlag(subject.dtype)};  // the same on every backend
  say(checks::Verdict::kOk, "load",
      fmt::format("{}: {}, {}, {} parameters, {}, {}", info.name, info.task, info.architecture,
                  info.parameters, numbers::DTypeFlag(subject.dtype), info.backend));
  const auto again = [&](const std::vector<std::string>& texts,
                         checks::TextsSource::Again how) -> Expected<checks::ModelRows> {
    engine = {};
    local.reset();  // its memory and processors are needed for the other
    runtime::ModelOptions other = flags;
    if (how == checks::TextsSource::Again::kOneThread) other.threads = 1;
    if (how == checks::TextsSource::Again::kPlainKernels) {
      other.isa = "scalar";
      PENSTOCK_ASSIGN_OR_RETURN(const devices::DeviceOptions device, runtime::DeviceAsked(flags));
      if (!devices::IsHost(device.device)) {
        other.devices = {"cpu"};
        other.dtypes = {"f32"};
      }
    }
    PENSTOCK_ASSIGN_OR_RETURN(const auto loaded_again, runtime::LocalModels::Load(other));
    return Outputs(loaded_again.get(), texts);
  };
  const families::ModelFolder& folder = engine->folder();
  const auto results =
      checks::TextResultsOf({.name = info.name + info.path,
                             .backend = info.backend,
                             .layers = folder.encoder.num_hidden_layers,
                             .dimensions = info.dimensions,
                             .unit_length = info.task == "embedding" && folder.normalize,
                             .rows = [&](const auto& texts) { return Outputs(local.get(), texts); },
                             .rows_again = again});
  subject.results = results.get();
  subject.kernels = [&] { return CheckKernelsOf(flags); };
  subject.accuracy = [&](const checks::Say& tell) {
    return SkipAccuracy(accuracy, tell) ? Status::Ok() : CompareTypes(flags, accuracy, tell);
  };
  checks::ReportChecks(checks::CheckTime::kDoctor, subject, say);
}

}  // namespace

int RunDoctor(const std::vector<std::string>& args) {
  CommandLine line("doctor",
                   "Check that a model computes what it should on this machine. Prints ok or FAIL "
                   "for each check;\nthe exit code is 1 if one failed. WARN: a type that costs "
                   "this model too much accuracy.",
                   "  penstock doctor --model sentence-transformers/all-MiniLM-L6-v2\n"
                   "  penstock doctor --model model.gguf\n"
                   "  penstock doctor --model MODEL --try-threads --accuracy-texts 0\n"
                   "  penstock doctor --model MODEL --texts corpus.txt --json accuracy.json\n"
                   "  penstock doctor --model MODEL --int8-keep qkv,-1 --try-keep\n");
  runtime::ModelOptions flags;
  AccuracyFlags accuracy;
  AddModelFlags(&line, &flags, false, "warn");
  AddAccuracyFlags(&line, &accuracy);
  bool try_threads = false;
  line.flags().AddSwitch("--try-threads", try_threads,
                         "Also measure the model with 1, 2, 4, ... threads, up to one a processor, "
                         "and say which number to take.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(flags); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  flags.check_models = false;  // the report says more
  DoctorReport report;
  const auto decoder = FindDecoder(flags);
  if (!decoder.ok()) {
    report(checks::Verdict::kFailed, "load", decoder.status().message());
    return kExitFailure;
  }
  if (*decoder) return RunDecoder(line, **decoder, flags, accuracy, try_threads);
  DiagnoseEncoder(flags, accuracy, std::ref(report));
  if (try_threads) TryThreads(flags, OfThreads(&report));
  return report.ExitCode();
}

}  // namespace penstock::cli
