#include "local_models.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cache/remote_seal.h"
#include "common/log.h"
#include "common/regular_file.h"
#include "common/thread_pool.h"
#include "cpu/cpu_backend.h"
#include "flag_values.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "hub/reference.h"
#include "per_model.h"

namespace penstock {

namespace {

// "auto" as the number that means it; empty: fine.
std::string CheckBatchTokens(std::string& value) {
  if (value == "auto") {
    value = std::to_string(EncoderSchedulerOptions::kAutoBatchTokens);
    return "";
  }
  int32_t tokens = 0;
  if (CLI::detail::lexical_cast(value, tokens) && tokens >= 1 && tokens < 1 << 19) return "";
  return fmt::format("'{}' is not auto, or 1 to {}", value, (1 << 19) - 1);
}

// What is wrong with one flag's values; empty: nothing.
template <typename ParseValue>
std::string CheckPerModel(const std::string& flag, const std::string& given, ParseValue parse) {
  const auto read = PerModel::Parse(flag, {given});
  if (!read.ok()) return read.status().message();
  for (const std::string& value : read->Values()) {
    if (const auto parsed = parse(value); !parsed.ok()) return parsed.status().message();
  }
  return "";
}
std::string CheckDType(std::string& given) { return CheckPerModel("dtype", given, ParseDType); }
std::string CheckKeep(std::string& given) {
  return CheckPerModel("int8-keep", given, ParseKeptParts);
}
std::string CheckLogLevel(std::string& given) {
  const auto level = ParseLogLevel(given);
  return level.ok() ? "" : level.status().message();
}
std::string CheckPooling(std::string& given) {
  return CheckPerModel("pooling", given, ParsePoolingMode);
}

// What --help-all alone shows of the flags of models: a command works on texts once, and two look
// at no more than tokens or a model.
void HideUnused(CommandLine* line) {
  line->HideInHelp({"Caches", "replicas", "linger-us", "idle-release-s", "log-format"});
  const std::string& name = line->name();
  if (name == "inspect") line->HideInHelp({"Speed", "Texts"});
  if (name == "tokenize") line->HideInHelp({"Speed", "Texts", "dtype", "int8-keep", "pooling"});
}

}  // namespace

void AddModelFlags(CommandLine* line, ModelFlags* flags, bool several,
                   const std::string& log_level) {
  CLI::App& app = line->app();
  const std::string model = "Model";
  auto* models =
      app.add_option("-m,--model", flags->models,
                     several ? "Folder, or owner/name[@revision] on the Hugging Face hub. "
                               "NAME[,ALIAS...]=REF serves it under these names. May be given "
                               "again."
                             : "Folder, or owner/name[@revision] on the Hugging Face hub.")
          ->type_name("REF")
          ->default_str(kDefaultModel)
          ->group(model);
  if (!several) {
    models->expected(1)->allow_extra_args(false);
  } else {
    models->allow_extra_args(false);
    app.add_option("--served-model-name", flags->served_names,
                   "Name clients ask for. One model: further ones are aliases. Several models: one "
                   "each, in their order.")
        ->type_name("NAME")
        ->allow_extra_args(false)
        ->group(model);
  }
  const std::string one =
      several ? " NAME=... is for the model of that name; may be given again." : "";
  app.add_option("--pooling", flags->poolings,
                 "How token vectors are pooled, for a folder that does not say: cls, mean, max, "
                 "lasttoken." +
                     one)
      ->check(CLI::Validator(CheckPooling, ""))
      ->allow_extra_args(false)
      ->type_name("MODE")
      ->group(model);
  app.add_option("--dtype", flags->dtypes,
                 "Type the layers' products are computed in: f32, bf16 or int8 (dynamic scales); "
                 "auto = bf16 where the processor multiplies it natively, else f32." +
                     one)
      ->check(CLI::Validator(CheckDType, ""))
      ->allow_extra_args(false)
      ->default_str("auto")
      ->type_name("TYPE")
      ->group(model);
  app.add_option("--int8-keep", flags->int8_keep,
                 "Parts of int8 models that take auto's type instead, with commas between: layers "
                 "from 0, or -1 from the end; products in every layer: qkv, attention-out, ff-in, "
                 "ff-out; a product of a layer: -1.ff-out. penstock doctor says what helps." +
                     one)
      ->check(CLI::Validator(CheckKeep, ""))
      ->allow_extra_args(false)
      ->type_name("PARTS")
      ->group(model);
  line->PerModelFlags({"pooling", "dtype", "int8-keep"});
  if (!several) HideUnused(line);

  const std::string speed = "Speed";
  app.add_option("-t,--threads", flags->threads,
                 "Threads that compute; 0 = one for each processor this process may use.")
      ->check(CLI::Range(0, 256))
      ->type_name("N")
      ->group(speed);
  app.add_flag("--pin,!--no-pin", flags->pin, "Pin these threads to processors, or not. [on]")
      ->group(speed);
  app.add_option("--tokenization-workers", flags->limits.tokenization_workers,
                 "Threads that tokenize; 0 = one a processor, 8 at most.")
      ->check(CLI::Range(0, 256))
      ->type_name("N")
      ->group(speed);
  app.add_option("--max-batch-tokens", flags->scheduler.max_batch_tokens,
                 "Tokens of one batch; auto = measured when the model is loaded: the smallest "
                 "batch that works at nearly the full rate. More makes others wait longer.")
      ->transform(CLI::Validator(CheckBatchTokens, ""))
      ->default_str("auto")
      ->type_name("TOKENS")
      ->group(speed);
  app.add_option("--max-batch-sequences", flags->scheduler.max_batch_sequences,
                 "Sequences of one batch.")
      ->check(CLI::Range(1, 8191))
      ->type_name("N")
      ->group(speed);
  app.add_option("--replicas", flags->replicas,
                 "Batches of a model worked on at once, each with activation memory of its own. "
                 "Threads are shared, so this pays off only where one batch cannot use them all.")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->group(speed);
  app.add_option("--linger-us", flags->scheduler.linger_us,
                 "How long a batch that is not full waits for more rows while the model is free.")
      ->check(CLI::Range(0, 10'000'000))
      ->type_name("US")
      ->group(speed);

  const std::string caches = "Caches";
  app.add_option("--token-cache-bytes", flags->limits.token_cache_bytes,
                 "Memory for the tokens of texts that come again; 0 = none.")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("BYTES")
      ->group(caches);
  app.add_option("--result-cache-bytes", flags->limits.result_cache_bytes,
                 "Memory for results: the same tokens get the same vector or scores without the "
                 "model. 0 = none.")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("BYTES")
      ->group(caches);
  app.add_option("--redis-url", flags->redis_url,
                 "Redis to share caches through: redis://[[user]:password@]host[:port][/db] or "
                 "unix://[[user]:password@]/path[?db=N]. Better set as PENSTOCK_REDIS_URL with a "
                 "password. Results are shared with --result-cache-bytes, tokens of texts from "
                 "32 KiB on always.")
      ->type_name("URL")
      ->group(caches);
  app.add_option(
         "--redis-key", flags->redis_key,
         "Secret, 16 bytes at least, that entries in Redis are authenticated with, the same "
         "for all who share them. Without it whoever can write to that Redis can make up "
         "results. Better set as PENSTOCK_REDIS_KEY, or --redis-key-file: others can read "
         "command lines.")
      ->type_name("SECRET")
      ->group(caches);
  app.add_option("--redis-key-file", flags->redis_key_file, "File with that secret.")
      ->type_name("FILE")
      ->group(caches);
  app.add_option("--redis-timeout-ms", flags->limits.redis_timeout_ms,
                 "Longest wait for an answer of Redis; after that it is left alone for a while.")
      ->check(CLI::Range(1, 1000))
      ->type_name("MS")
      ->group(caches);
  app.add_option("--cache-ttl-s", flags->limits.cache_ttl_s,
                 "How long an entry of a cache lives; 0 = until there is no room for it.")
      ->check(CLI::Range(int64_t{0}, int64_t{365} * 86400))
      ->type_name("S")
      ->group(caches);

  app.add_option("--idle-release-s", flags->scheduler.idle_release_s,
                 "After so long without work, activation memory is given back; 0 = never.")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("S")
      ->group(speed);

  const std::string texts = "Texts";
  app.add_flag("--auto-truncate,!--no-auto-truncate", flags->limits.auto_truncate,
               "Cut inputs over the model's limit (and report it), or refuse them. [on]")
      ->group(texts);
  app.add_option("--max-input-bytes", flags->limits.input_bytes, "Longest text.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->type_name("BYTES")
      ->group(texts);

  flags->log_level = log_level;
  const std::string log = "Log";
  app.add_option("--log-level", flags->log_level, "debug, info, warn, error or off.")
      ->check(CLI::Validator(CheckLogLevel, ""))
      ->type_name("LEVEL")
      ->group(log);
  app.add_option("--log-format", flags->log_format, "text or json, on stderr.")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT")
      ->group(log);
}

void TakeDefaultModel(ModelFlags* flags) {
  if (!flags->models.empty()) return;
  const DefaultModel found = FindDefaultModel();
  flags->models = {found.reference};
  flags->default_name = found.name;
  // Who did not name a model wants to know which one it is, whatever the level.
  LogMessage(LogEnabled(LogLevel::kInfo) ? LogLevel::kInfo : LogLevel::kWarn,
             fmt::format("no --model is given; taking the default, {}", found.reference));
}

void DropDefaultModel(CommandLine* line) { line->app().get_option("--model")->default_str(""); }

std::string ModelRequired(const std::string& what) {
  return fmt::format("--model is required: the default model, {}, is no {}", kDefaultModel, what);
}

Status ApplyLogFlags(const ModelFlags& flags) {
  LogOptions options;
  PENSTOCK_ASSIGN_OR_RETURN(options.level, ParseLogLevel(flags.log_level));
  options.json = flags.log_format == "json";
  InitLog(options);
  return Status::Ok();
}

std::string NameOfReference(const std::string& reference) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(reference, ignored)) return reference.substr(0, reference.rfind('@'));
  fs::path path = fs::weakly_canonical(reference, ignored);
  if (path.filename().empty()) path = path.parent_path();
  constexpr std::string_view kPrefix = "models--";
  if (path.parent_path().filename() == "snapshots") {
    std::string cached = path.parent_path().parent_path().filename().string();
    if (cached.starts_with(kPrefix)) {
      cached.erase(0, kPrefix.size());
      const size_t slash = cached.find("--");
      return slash == std::string::npos ? cached : cached.replace(slash, 2, "/");
    }
  }
  return path.filename().string();
}

ModelNames SplitModel(const std::string& model) {
  const size_t equals = model.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || model.find_first_of("/.~") == 0 ||
      std::filesystem::exists(model, ignored)) {
    return {{}, model};
  }
  return {SplitList(model.substr(0, equals)), model.substr(equals + 1)};
}

namespace {

// A list in a variable has commas between its items, so "a,b=./x" came as "a" and "b=./x".
Status CheckCutNames(const std::vector<std::string>& models) {
  for (size_t i = 0; i + 1 < models.size(); ++i) {
    const ModelNames next = SplitModel(models[i + 1]);
    std::error_code ignored;
    if (next.names.empty() || models[i].find_first_of("/=") != std::string::npos ||
        std::filesystem::exists(models[i], ignored)) {
      continue;
    }
    return Status::InvalidArgument(
        fmt::format("--model '{0}' is no folder and no owner/name; if it is to be a name of the "
                    "model '{1}', write {0},{1}, in PENSTOCK_MODEL with a line break at its end",
                    models[i], models[i + 1]),
        "model");
  }
  return Status::Ok();
}

// --pooling, --dtype and --int8-keep, once the names are settled.
Status ApplyPerModel(const ModelFlags& flags, std::vector<ModelSpec>* specs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto dtypes, PerModel::Parse("dtype", flags.dtypes));
  PENSTOCK_ASSIGN_OR_RETURN(const auto kept, PerModel::Parse("int8-keep", flags.int8_keep));
  PENSTOCK_ASSIGN_OR_RETURN(const auto poolings, PerModel::Parse("pooling", flags.poolings));
  PENSTOCK_RETURN_IF_ERROR(poolings.CheckNames(*specs));
  PENSTOCK_RETURN_IF_ERROR(dtypes.CheckNames(*specs));
  PENSTOCK_RETURN_IF_ERROR(kept.CheckNames(*specs));
  for (ModelSpec& spec : *specs) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string mode, poolings.Of(spec));
    if (!mode.empty()) {
      auto pooling = ParsePoolingMode(mode);
      if (!pooling.ok()) {
        return Status::InvalidArgument("--pooling: " + pooling.status().message(), "pooling");
      }
      spec.options.pooling = *pooling;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string dtype, dtypes.Of(spec));
    if (!dtype.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(spec.options.dtype, ParseDType(dtype));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string parts, kept.Of(spec));
    if (!parts.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(spec.options.int8_keep, ParseKeptParts(parts));
    }
  }
  return Status::Ok();
}

}  // namespace

Expected<std::vector<ModelSpec>> ModelSpecs(const ModelFlags& flags) {
  PENSTOCK_RETURN_IF_ERROR(CheckCutNames(flags.models));
  std::vector<ModelSpec> specs;
  for (const std::string& model : flags.models) {
    ModelSpec spec;
    ModelNames split = SplitModel(model);
    spec.reference = std::move(split.reference);
    if (split.names.empty()) split.names = {NameOfReference(spec.reference)};
    spec.name = split.names.front();
    spec.aliases.assign(split.names.begin() + 1, split.names.end());
    if (!flags.default_name.empty()) {
      spec.name = flags.default_name;
      spec.aliases = {spec.name.substr(spec.name.rfind('/') + 1)};
    }
    if (spec.reference.empty()) {
      return Status::InvalidArgument(
          fmt::format("--model '{}' names no folder or hub reference", model), "model");
    }
    spec.options.fingerprint = !flags.redis_url.empty();
    spec.options.scheduler = flags.scheduler;
    spec.options.replicas = flags.replicas;
    specs.push_back(std::move(spec));
  }
  const auto& names = flags.served_names;
  if (specs.size() == 1 && !names.empty()) {
    specs[0].name = names[0];
    specs[0].aliases.insert(specs[0].aliases.begin(), names.begin() + 1, names.end());
  } else if (!names.empty()) {
    if (names.size() != specs.size()) {
      return Status::InvalidArgument(
          fmt::format("--served-model-name is given {} times for {} models: one each, or none",
                      names.size(), specs.size()),
          "served-model-name");
    }
    for (size_t i = 0; i < specs.size(); ++i) specs[i].name = names[i];
  }
  PENSTOCK_RETURN_IF_ERROR(ApplyPerModel(flags, &specs));
  return specs;
}

namespace {

// The secret of --redis-key or its file; "" = none is given.
Expected<std::string> RedisSecret(const ModelFlags& flags) {
  const auto refuse = [](const std::string& why) {
    return Status::InvalidArgument("--redis-key: " + why, "redis-key");
  };
  const char* const variable = std::getenv("PENSTOCK_REDIS_KEY");
  // A secret that failed to arrive must not mean no secret.
  if (variable != nullptr && *variable == '\0' && !flags.redis_key) {
    return refuse("PENSTOCK_REDIS_KEY is set, but empty");
  }
  std::string secret = flags.redis_key.value_or("");
  if (!flags.redis_key_file.empty()) {
    if (flags.redis_key) return refuse("give either the secret or --redis-key-file");
    auto text = ReadRegularFile(flags.redis_key_file, RemoteSeal::kSecretBytesMax + 2);
    if (!text.ok()) return refuse(text.status().message());
    secret = *std::move(text);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  } else if (!flags.redis_key) {
    return secret;
  }
  if (secret.size() < RemoteSeal::kSecretBytesMin || secret.size() > RemoteSeal::kSecretBytesMax) {
    return refuse(fmt::format("the secret has {} bytes; it must have {} to {}", secret.size(),
                              RemoteSeal::kSecretBytesMin, RemoteSeal::kSecretBytesMax));
  }
  return secret;
}

Status ApplyRedis(const ModelFlags& flags, ServiceLimits* limits) {
  PENSTOCK_ASSIGN_OR_RETURN(limits->redis_secret, RedisSecret(flags));
  if (flags.redis_url.empty()) return Status::Ok();
  auto redis = RedisUrl::Parse(flags.redis_url);
  if (!redis.ok()) {
    return Status::InvalidArgument("--redis-url: " + redis.status().message(), "redis-url");
  }
  if (limits->redis_secret.empty() && !redis->IsLocal()) {
    LogWarn(
        "redis at {} is another machine and there is no --redis-key: whoever can write there can "
        "make up results",
        redis->ToString());
  }
  limits->redis = *std::move(redis);
  return Status::Ok();
}

// A folder, a hub reference, or the path of a tokenizer.json.
Expected<std::unique_ptr<Model>> LoadTokenizer(const ModelSpec& spec, Metrics* metrics) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string path = spec.reference;
  if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) {
    ResolveOptions resolve;
    resolve.tokenizer_only = true;
    PENSTOCK_ASSIGN_OR_RETURN(path, ResolveModel(path, resolve));
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            Engine::LoadTokenizer(path, spec.options, metrics));
  return model;
}

// What is wrong with a reference however the hub answers: before anything is started.
Status CheckReferences(const std::vector<ModelSpec>& specs) {
  for (const ModelSpec& spec : specs) {
    const Status status = ModelReference::Parse(spec.reference).status();
    if (status.ok()) continue;
    return {status.code(), fmt::format("cannot load model '{}': {}", spec.name, status.message())};
  }
  return Status::Ok();
}

// Registry, with its models, and service.
Status Assemble(const ModelFlags& flags, Registry::Loader loader, LocalModels* local) {
  PENSTOCK_ASSIGN_OR_RETURN(auto specs, ModelSpecs(flags));
  if (loader == nullptr) PENSTOCK_RETURN_IF_ERROR(CheckReferences(specs));
  local->registry =
      std::make_unique<Registry>(local->backend.get(), &local->metrics, std::move(loader));
  for (ModelSpec& spec : specs) PENSTOCK_RETURN_IF_ERROR(local->registry->Add(std::move(spec)));
  ServiceLimits limits = flags.limits;
  PENSTOCK_RETURN_IF_ERROR(ApplyRedis(flags, &limits));
  local->service = std::make_unique<Service>(local->registry.get(), limits, &local->metrics);
  local->registry->StartLoading();
  return Status::Ok();
}

}  // namespace

Expected<std::unique_ptr<LocalModels>> LocalModels::Start(const ModelFlags& given) {
  ModelFlags flags = given;
  TakeDefaultModel(&flags);
  auto local = std::make_unique<LocalModels>();
  if (const size_t usable = UsableProcessors(); static_cast<size_t>(flags.threads) > usable) {
    LogWarn("--threads {}: this process may use {} processors; more threads than that only wait",
            flags.threads, usable);
  }
  CpuOptions cpu;
  cpu.threads = flags.threads;
  cpu.pin = flags.pin;
  cpu.isa = flags.isa;
  PENSTOCK_ASSIGN_OR_RETURN(local->backend, NewCpuBackend(cpu));
  PENSTOCK_RETURN_IF_ERROR(Assemble(flags, nullptr, local.get()));
  return local;
}

Expected<std::unique_ptr<LocalModels>> LocalModels::Load(const ModelFlags& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(auto local, Start(flags));
  PENSTOCK_RETURN_IF_ERROR(local->registry->WaitLoaded());
  return local;
}

Expected<std::unique_ptr<LocalModels>> LocalModels::LoadTokenizers(const ModelFlags& given) {
  ModelFlags flags = given;
  TakeDefaultModel(&flags);
  auto local = std::make_unique<LocalModels>();
  Metrics* const metrics = &local->metrics;
  PENSTOCK_RETURN_IF_ERROR(Assemble(
      flags, [metrics](const ModelSpec& spec) { return LoadTokenizer(spec, metrics); },
      local.get()));
  PENSTOCK_RETURN_IF_ERROR(local->registry->WaitLoaded());
  return local;
}

}  // namespace penstock
