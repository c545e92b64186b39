#include "served_model_flags.h"

#include <fmt/format.h>

#include "base/duration.h"
#include "cli/flag_values.h"
#include "decoder_flags.h"
#include "model_file.h"
#include "model_flags.h"
#include "runtime/per_model.h"
#include "sampling_default_flags.h"

namespace penstock::cli {
namespace {

std::string CheckKeepAlive(std::string& given) {
  return CheckPerModel("keep-alive", given, ParseDuration);
}
std::string CheckTask(std::string& given) {
  return CheckPerModel("task", given, engine::ParseModelPurpose);
}
std::string CheckMaxBatchSize(std::string& given) {
  return CheckPerModel("max-batch-size", given, runtime::ParseMaxBatchSize);
}
std::string CheckContext(std::string& given) {
  return CheckPerModel("context", given, runtime::ParseContext);
}

}  // namespace

void AddTextModelFlags(CommandLine* line, runtime::ModelOptions* flags) {
  const FlagGroup generation(&line->flags(), "Generation");
  generation
      .AddRepeated(kContextFlag, flags->contexts, "TOKENS", FlagRule(CheckContext, ""),
                   std::string(kContextHelp) +
                       " NAME=... is for the model of that name; may be given again.")
      ->DefaultText("0");
  AddCacheTypeFlag(generation, &flags->text);
  generation.AddRepeated(
      "--chat-template", flags->chat_templates, "FILE|NAME",
      "One of the model's chat templates by its name, or a file with a Jinja template. Without it "
      "the model's own: tool_use where a request has tools and there is one, else default. "
      "NAME=... is for the model of that name; may be given again.");
  generation.Add("--max-sequences,--max-num-seqs", flags->decode.sequences_max, "N",
                 InRange(1, 1024), "Texts of a model that are generated at once; more wait.");
  generation.Switch("--prefix-cache,!--no-prefix-cache", flags->decode.prefix_cache,
                    "Keep keys and values of texts for others that begin alike, or not. [on]");
  generation.Switch(
      "--speculation,!--no-speculation", flags->decode.speculation,
      "Guess tokens of a text that repeats its prompt or itself, and check several in "
      "a step, where that pays. The text is the same. [on]");
}

namespace {

void AddTensorFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup tensors(app, "Tensor models");
  tensors
      .AddRepeated("--max-batch-size", flags->max_batch_sizes, "N", FlagRule(CheckMaxBatchSize, ""),
                   "Rows of a batch of a tensor model at most; 0 = a request is a run; auto = as "
                   "the model says. NAME=... is for the model of that name; may be given again.")
      ->DefaultText("auto");
  tensors.Add("--max-queued-tensor-rows", flags->tensors.max_queued_rows, "N",
              InRange(int64_t{1}, int64_t{1} << 40),
              "Rows that wait for a tensor model; more are told to come back (429).");
  tensors.Add("--max-queued-tensor-bytes", flags->tensors.max_queued_bytes, "BYTES",
              InRange(int64_t{1}, int64_t{1} << 40),
              "Bytes of inputs that wait for a tensor model; more are told to come back (429).");
  tensors.Add("--shared-memory-bytes", flags->limits.shared_memory_bytes, "BYTES",
              InRange(int64_t{0}, int64_t{1} << 50),
              "System shared memory that clients may register together, for tensors. Whoever may "
              "register can read and write all shared memory of this user; 0 = none.");
}

// "80%" or bytes.
std::string TakeMemory(const std::string& given, devices::MemoryLimit* limit) {
  if (given.ends_with('%')) {
    double percent = 0;
    if (ReadFlagNumber(given.substr(0, given.size() - 1), percent) && percent >= 1 &&
        percent <= 100) {
      *limit = {0, percent / 100};
      return "";
    }
    return fmt::format("'{}' is not 1% to 100%", given);
  }
  const auto bytes = InUnit(given, Unit::kBytes);
  uint64_t number = 0;
  if (bytes.ok() && ReadFlagNumber(*bytes, number) && number > 0) {
    *limit = {number, 0};
    return "";
  }
  return fmt::format("'{}' is neither a share (80%) nor {}", given, SuffixesOf(Unit::kBytes));
}

// When models come and go.
void AddLifecycleFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup lifecycle(app, "Loading and unloading");
  const auto add_memory = [&](const char* flag, devices::MemoryLimit* limit, const char* help) {
    return lifecycle.AddFunction<std::string>(
        flag,
        [flag, limit](const std::string& given) {
          if (const std::string error = TakeMemory(given, limit); !error.empty()) {
            RefuseFlag(flag, error);
          }
        },
        "BYTES|N%", help);
  };
  add_memory("--memory", &flags->memory,
             "Memory for models, requests and caches together: bytes, or a share of what is "
             "available at the start. Models that do not fit beside others wait until these are "
             "idle.")
      ->DefaultText("80%");
  add_memory("--device-memory", &flags->device_memory,
             "The same for the models of each GPU: weights, activations and caches there.")
      ->DefaultText("90%");
  lifecycle.Switch("--preload", flags->preload,
                   "Load all models at the start; else the first request for a model loads it.");
  lifecycle.AddRepeated("--preload-model", flags->preload_models, "NAME",
                        "Load this model at the start, by its name; may be given again.");
  lifecycle
      .AddRepeated("--keep-alive,--model-unload-timeout", flags->keep_alives, "TIME",
                   FlagRule(CheckKeepAlive, ""),
                   "Unload a model that was idle for so long: seconds, 90s, 5m, 1h; negative = "
                   "never. NAME=... is for the model of that name; may be given again. A request "
                   "may say otherwise (X-Penstock-Keep-Alive). MODEL_UNLOAD_TIMEOUT sets it too.")
      ->DefaultText("5m");
  lifecycle.Add("--check-interval-s,--cleanup-check-interval", flags->check_interval_s, "S",
                InRange(1, 86'400),
                "Idle models are looked for when the time of one is over, and at least this often. "
                "CLEANUP_CHECK_INTERVAL sets it too.");
  lifecycle.AddRepeated("--pin-model", flags->pin_models, "NAME",
                        "Never unload this model by itself, by its name; may be given again.");
}

void AddSourceFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup model(app, "Model");
  model.AddRepeated(
      "--task", flags->tasks, "TASK", FlagRule(CheckTask, ""),
      "What a model does: embedding, reranking, classification, generation or tensors. So it "
      "is known before the model is downloaded, and a model that does something else is "
      "refused. NAME=... is for the model of that name; may be given again.");
  model.AddRepeated(
      "--repository", flags->repositories, "DIR",
      "Folder of models with versions, DIR/NAME/1, DIR/NAME/2, ...: the highest is served, and a "
      "new one takes its place while requests run (docs/MODELS.md). May be given again.");
  model.Add("--repository-poll-s,--repository-poll-secs", flags->repository_poll_s, "S",
            InRange(0, 86'400),
            "How often these folders are looked at for new versions; 0 = at the start alone.");
  flags->read_model_file = ReadModelFile;
}

}  // namespace

void AddServedModelFlags(CommandLine* line, runtime::ModelOptions* flags,
                         const std::string& log_level) {
  AddModelFlags(line, flags, true, log_level);
  AddSourceFlags(&line->flags(), flags);
  AddTextModelFlags(line, flags);
  AddSamplingDefaultFlags(line, flags);
  AddTensorFlags(&line->flags(), flags);
  AddLifecycleFlags(&line->flags(), flags);
}

}  // namespace penstock::cli
