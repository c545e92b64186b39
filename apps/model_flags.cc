#include "model_flags.h"

#include <fmt/format.h>

#include "devices/backends.h"
#include "download_progress.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "log/log.h"
#include "program/backend.h"
#include "runtime/sampling_settings.h"

namespace penstock::cli {

namespace {

// "auto" becomes `automatic`, the number that means it; empty: fine.
std::string CheckBatchSize(std::string& value, int32_t automatic, int32_t most) {
  if (value == "auto") {
    value = std::to_string(automatic);
    return "";
  }
  int32_t size = 0;
  if (ReadFlagNumber(value, size) && size >= 1 && size <= most) return "";
  return fmt::format("'{}' is not auto, or 1 to {}", value, most);
}
std::string CheckBatchTokens(std::string& value) {
  return CheckBatchSize(value, sched::EncoderSchedulerOptions::kAutoBatchTokens, (1 << 19) - 1);
}
std::string CheckBatchRows(std::string& value) {
  return CheckBatchSize(value, sched::EncoderSchedulerOptions::kAutoBatchRows, (1 << 13) - 1);
}

std::string CheckDType(std::string& given) {
  return CheckPerModel("dtype", given, engine::ParseDType);
}
std::string CheckDevice(std::string& given) {
  return CheckPerModel("device", given, devices::ParseDevice);
}
std::string CheckKeep(std::string& given) {
  return CheckPerModel("int8-keep", given, models::ParseTypeOverrides);
}
std::string CheckLogLevel(std::string& given) {
  const auto level = ParseLogLevel(given);
  return level.ok() ? "" : level.status().message();
}
std::string CheckPooling(std::string& given) {
  return CheckPerModel("pooling", given, engine::ParsePoolingMode);
}

// Model flags that only --help-all shows: a command works on texts once, and two look at no more
// than tokens or a model.
void HideUnused(CommandLine* line) {
  line->HideInHelp(
      {"Caches", "check-models", "replicas", "linger-us", "idle-release-s", "log-format"});
  const std::string& name = line->name();
  if (name == "inspect") line->HideInHelp({"Speed", "Texts"});
  if (name == "tokenize") line->HideInHelp({"Speed", "Texts", "dtype", "int8-keep", "pooling"});
}

void AddNameFlags(FlagSet* app, runtime::ModelOptions* flags, bool several) {
  const FlagGroup model(app, "Model");
  auto* models =
      model
          .Add("-m,--model", flags->models, "REF",
               several ? "Folder, GGUF file, or owner/name[:QUANT][@revision] on the Hugging "
                         "Face hub (docs/MODELS.md). NAME[,ALIAS...]=REF serves it under these "
                         "names. May be given again."
                       : "Folder, GGUF file, or owner/name[:QUANT][@revision] on the Hugging "
                         "Face hub (docs/MODELS.md).")
          ->DefaultText(hub::kDefaultModel);
  AddAutoPull(app, &flags->auto_pull);
  if (!several) {
    models->Expected(1)->AllowExtraArgs(false);
  } else {
    models->AllowExtraArgs(false);
    model.AddRepeated("--served-model-name", flags->served_names, "NAME",
                      "Name clients ask for. One model: further ones are aliases. Several models: "
                      "one each, in their order.");
  }
}

// How models are computed; each may be of one model of several.
void AddModelTypeFlags(FlagSet* app, runtime::ModelOptions* flags, bool several) {
  const FlagGroup model(app, "Model");
  const std::string one =
      several ? " NAME=... is for the model of that name; may be given again." : "";
  model.AddRepeated("--pooling", flags->poolings, "MODE",
                    FlagRule(CheckPooling, "{cls,mean,max,lasttoken}"),
                    "How token vectors are pooled, for a folder that does not say: cls, mean, max, "
                    "lasttoken." +
                        one);
  model
      .AddRepeated(
          "--dtype", flags->dtypes, "TYPE", FlagRule(CheckDType, "{auto,f32,bf16,f16,int8}"),
          "Type the linear layers compute in: f32, bf16, int8 (dynamic scales) or, on a GPU, "
          "f16; auto = bf16 where the processor multiplies it natively, else f32; on a GPU "
          "f16." +
              one)
      ->DefaultText("auto");
  model.AddRepeated(
      "--int8-keep", flags->int8_keep, "PARTS", FlagRule(CheckKeep, ""),
      "Parts of int8 models that take auto's type instead, with commas between: layers "
      "from 0, or -1 from the end; linear layers in every layer: qkv, attention-out, ff-in, "
      "ff-out; a linear layer of one layer: -1.ff-out. penstock doctor says what helps." +
          one);
  model.Switch("--check-models,!--no-check-models", flags->check_models,
               "Check a model when this machine loads it for the first time, and its "
               "known_answers.json each time; one that fails is not served. [on]");
}

void AddSpeedFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup speed(app, "Speed");
  speed
      .AddRepeated(
          "--device", flags->devices, "DEVICE", FlagRule(CheckDevice, ""),
          std::string(kDeviceHelp) + " NAME=... is for the model of that name; may be given again.")
      ->DefaultText(devices::Devices::kAuto);
  speed.Add("-t,--threads", flags->threads, "N", InRange(0, 256),
            "Threads that compute; 0 = one for each core this process may use, quotas counted.");
  speed.Switch("--pin,!--no-pin", flags->pin,
               "Pin these threads to processors, or not, where no others share these. [on]");
  speed.Add("--tokenization-workers", flags->limits.tokenization_workers, "N", InRange(0, 256),
            "Threads that tokenize; 0 = one a processor, 8 at most.");
  speed
      .Add("--max-batch-tokens", flags->scheduler.max_batch_tokens, "TOKENS",
           "Tokens of one batch; auto = measured when the model is loaded: the smallest batch that "
           "works at nearly the full rate. More makes others wait longer.")
      ->Transform(FlagRule(CheckBatchTokens, ""))
      ->DefaultText("auto");
  speed
      .Add("--max-batch-rows,--max-batch-sequences", flags->scheduler.max_batch_rows, "N",
           fmt::format("Rows (sequences) of one batch; auto = {}, on a GPU 2048.",
                       program::BackendSizes().batch_rows))
      ->Transform(FlagRule(CheckBatchRows, ""))
      ->DefaultText("auto");
  speed.Add("--replicas", flags->replicas, "N", InRange(1, 64),
            "Batches of a model worked on at once, each with activation memory of its own. Threads "
            "are shared, so this pays off only where one batch cannot use them all.");
  speed.Add("--linger-us", flags->scheduler.linger_us, "US", InRange(0, 10'000'000),
            "How long a batch that is not full waits for more rows while the model is free.");

  speed.Add("--idle-release-s", flags->scheduler.idle_release_s, "S", InRange(0.0, 1e6),
            "After so long without work, activation memory is given back; 0 = never.");
}

void AddCacheFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup caches(app, "Caches");
  caches.Add("--token-cache-bytes", flags->limits.token_cache_bytes, "BYTES",
             InRange(int64_t{0}, int64_t{1} << 40),
             "Memory for the tokens of texts that come again; 0 = none.");
  caches.Add("--result-cache-bytes", flags->limits.result_cache_bytes, "BYTES",
             InRange(int64_t{0}, int64_t{1} << 40),
             "Memory for results: the same tokens get the same vector or scores without the model. "
             "0 = none.");
  caches.Add(
      "--redis-url", flags->redis_url, "URL",
      "Redis to share caches through: redis://[[user]:password@]host[:port][/db] or "
      "unix://[[user]:password@]/path[?db=N]. Better set as PENSTOCK_REDIS_URL with a password. "
      "Results are shared with --result-cache-bytes, tokens of texts from 32 KiB on always.");
  caches.Add(
      "--redis-key", flags->redis_key, "SECRET",
      "Secret, 16 bytes at least, that entries in Redis are authenticated with, the same for all "
      "servers that share them. Without it whoever can write to that Redis can make up results. "
      "Better set as PENSTOCK_REDIS_KEY, or --redis-key-file: others can read command lines.");
  caches.Add("--redis-key-file", flags->redis_key_file, "FILE", "File with that secret.");
  caches.Add("--redis-timeout-ms", flags->limits.redis_timeout_ms, "MS", InRange(1, 1000),
             "Longest wait for an answer of Redis: a later one is not used, and after three late "
             "ones in a row Redis is not asked for a while.");
  caches.Add("--cache-ttl-s", flags->limits.cache_ttl_s, "S",
             InRange(int64_t{0}, int64_t{365} * 86400),
             "How long an entry of a cache lives; 0 = until there is no room for it.");
}

void AddTruncationFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup texts(app, "Texts");
  texts.Switch("--auto-truncate,!--no-auto-truncate", flags->limits.auto_truncate,
               "Cut inputs over the model's limit (and report it), or refuse them. [on]");
  texts.Add("--max-input-bytes", flags->limits.input_bytes, "BYTES",
            InRange(int64_t{1}, int64_t{1} << 30), "Longest text.");
}

void AddLogFlags(FlagSet* app, runtime::ModelOptions* flags) {
  const FlagGroup log(app, "Log");
  log.Add("--log-level", flags->log_level, "LEVEL",
          FlagRule(CheckLogLevel, "{debug,info,warn,error,off}"),
          "debug, info, warn, error or off.");
  log.Add("--log-format", flags->log_format, "FORMAT", OneOf({"text", "json"}),
          "text or json, on stderr.");
}

}  // namespace

void AddModelFlags(CommandLine* line, runtime::ModelOptions* flags, bool several,
                   const std::string& log_level) {
  flags->log_level = log_level;
  FlagSet* const app = &line->flags();
  AddNameFlags(app, flags, several);
  AddModelTypeFlags(app, flags, several);
  std::vector<std::string> per_model = {"task",      "device",  "pooling",       "dtype",
                                        "int8-keep", "context", "chat-template", "keep-alive"};
  for (const runtime::SamplingSetting& sampling : runtime::SamplingSettings())
    per_model.emplace_back(sampling.flag);
  line->PerModelFlags(std::move(per_model));
  if (!several) HideUnused(line);
  AddSpeedFlags(app, flags);
  AddCacheFlags(app, flags);
  AddTruncationFlags(app, flags);
  AddLogFlags(app, flags);
}

void AddDeviceFlag(const FlagGroup& group, std::string* device) {
  const auto check = [](const std::string& given) {
    const auto parsed = devices::ParseDevice(given);
    return parsed.ok() ? "" : parsed.status().message();
  };
  group.Add("--device", *device, "DEVICE", FlagRule(check, ""), kDeviceHelp)
      ->DefaultText(devices::Devices::kAuto);
}

void AddAutoPull(FlagSet* app, bool* allowed) {
  FlagGroup(app, "Model")
      .Switch(
          "--auto-pull,!--no-auto-pull", *allowed,
          "Download a model that is not in the cache, or refuse it and say how to get it. [on]");
}

Status FetchModels(const runtime::ModelOptions& given, bool tokenizers) {
  runtime::ModelOptions flags = given;
  if (flags.models.empty()) {  // the load tells which is taken
    const hub::DefaultModel found = hub::FindDefaultModel();
    flags.models = {found.reference};
    flags.default_name = found.name;
  }
  hub::SetAutoPull(flags.auto_pull);
  PENSTOCK_ASSIGN_OR_RETURN(const auto specs, runtime::ModelSpecs(flags));
  for (const registry::ModelSpec& spec : specs) {
    // A path or a mistake is left to the load.
    const auto reference = hub::ModelReference::Parse(spec.reference);
    if (!reference.ok() || reference->local()) continue;
    const auto path = ResolveShown(spec.reference, tokenizers);
    if (!path.ok()) return path.status().Annotate("cannot load model '" + spec.name + "'");
  }
  return Status::Ok();
}

void DropDefaultModel(CommandLine* line) { line->flags().Get("--model")->DefaultText(""); }

std::string ModelRequired(const std::string& what) {
  return fmt::format("--model is required: the default model, {}, is no {}", hub::kDefaultModel,
                     what);
}

Status ApplyLogFlags(const runtime::ModelOptions& flags) {
  LogOptions options;
  PENSTOCK_ASSIGN_OR_RETURN(options.level, ParseLogLevel(flags.log_level));
  options.json = flags.log_format == "json";
  InitLog(options);
  return Status::Ok();
}

}  // namespace penstock::cli
