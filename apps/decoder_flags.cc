#include "decoder_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "bench/random_decoder.h"
#include "devices/backends.h"
#include "download_progress.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "log/log.h"
#include "log/step_progress.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

// "ID=BIAS"; the error, or empty.
std::string ReadBias(const std::string& given, sample::LogitBias* bias) {
  const size_t equals = given.find('=');
  const char* const end = given.data() + given.size();
  if (equals != std::string::npos) {
    const char* const middle = given.data() + equals;
    const auto id = std::from_chars(given.data(), middle, bias->id);
    const char* const number = middle + (middle[1] == '+' ? 2 : 1);
    const auto value = std::from_chars(number, end, bias->bias);
    if (id.ec == std::errc() && id.ptr == middle && value.ec == std::errc() && value.ptr == end) {
      return "";
    }
  }
  return fmt::format("'{}' is not ID=BIAS, such as 15043=-100", given);
}

// Empty: fine.
std::string CheckMaxTokens(std::string& given) {
  constexpr int32_t kMost = 1 << 27;
  int32_t tokens = 0;
  if (ReadFlagNumber(given, tokens) && tokens >= -1 && tokens != 0 && tokens <= kMost) {
    return "";
  }
  return fmt::format("'{}' is not -1, or a whole number from 1 to {}", given, kMost);
}

template <typename T>
void AddNumber(const FlagGroup& group, const char* name, std::optional<T>* value, const char* text,
               T least, T most) {
  group.Add(name, *value, "X", InRange(least, most), text);
}

}  // namespace

void AddCacheTypeFlag(const FlagGroup& group, generate::TextModelOptions* options) {
  group
      .AddFunction<std::string>(
          "--cache-type",
          [options](const std::string& name) { options->cache_type = *numbers::DTypeOfFlag(name); },
          "TYPE", OneOf({"bf16", "f16", "f32", "int8"}),
          "Type of the cached keys and values: bf16, f16, f32 or int8 (penstock doctor says what "
          "each costs).")
      ->DefaultText("bf16");
}

void AddDecoderFlags(CommandLine* line, DecoderFlags* flags) {
  FlagSet& app = line->flags();
  const FlagGroup model(&app, "Model");
  model.Add("-m,--model", flags->model, "REF",
            "A .gguf file, a folder (safetensors, or one GGUF model), or "
            "owner/name[:QUANT][@revision] on the Hugging Face hub (docs/MODELS.md).");
  AddAutoPull(&app, &flags->auto_pull);
  model
      .AddFunction<std::string>(
          "--dtype",
          [flags](const std::string& name) { flags->options.dtype = numbers::DTypeOfFlag(name); },
          "TYPE", OneOf({"auto", "f32", "bf16", "int8"}),
          "Type the linear layers compute in: f32, bf16 or int8; auto = int8 for quantised "
          "weights, which stay as they are, else bf16 where the processor multiplies it natively, "
          "else f32; on a GPU f16.")
      ->DefaultText("auto");
  model.Add(kContextFlag, flags->options.context, "TOKENS", InRange(0, 1 << 27), kContextHelp);
  AddCacheTypeFlag(model, &flags->options);
  const FlagGroup speed(&app, "Speed");
  AddDeviceFlag(speed, &flags->device);
  speed.Add("-t,--threads", flags->threads, "N", InRange(0, 256),
            "Threads that compute; 0 = one for each core this process may use, quotas counted.");
  speed.Switch("--pin,!--no-pin", flags->pin,
               "Pin these threads to processors, or not, where no others share these. [on]");
  FlagGroup(&app, "Log")
      .Add("--log-level", flags->log_level, "LEVEL",
           OneOf({"debug", "info", "warn", "error", "off"}), "debug, info, warn, error or off.");
}

void AddRandomModelFlags(const FlagGroup& group, std::string* shape, std::string* mix,
                         std::string* name) {
  group.Add("--shape", *shape, "NAME", "Without --model: random weights of this shape.")
      ->Transform(OneOfAnyCase(bench::DecoderShapes()));
  group.Add("--type", *mix, "TYPE", "Number types of the random weights.")
      ->Transform(OneOf(bench::DecoderMixes()));
  group.Add("--name", *name, "NAME", "What records call the model.");
}

Expected<LoadedDecoder> LoadedDecoder::Load(const DecoderFlags& flags) {
  LogOptions log;
  PENSTOCK_ASSIGN_OR_RETURN(log.level, ParseLogLevel(flags.log_level));
  InitLog(log);
  std::string reference = flags.model;
  if (reference.empty()) {
    reference = hub::FindDemoModel().reference;
  }
  LoadedDecoder loaded;
  hub::SetAutoPull(flags.auto_pull);
  PENSTOCK_ASSIGN_OR_RETURN(reference, ResolveShown(reference));
  PENSTOCK_ASSIGN_OR_RETURN(loaded.backend,
                            devices::NewBackend({flags.device, flags.threads, flags.pin, ""}));
  const StepProgress loading("loading the model", /*quiet=*/false);
  PENSTOCK_ASSIGN_OR_RETURN(
      loaded.model, generate::TextModel::Load(reference, loaded.backend.get(), flags.options));
  return loaded;
}

sample::SamplingOptions SamplingFlags::For(const sample::GenerationDefaults& defaults) const {
  sample::SamplingOptions all = options;
  all.max_tokens.reset();
  defaults.ApplyTo(&all);
  // The model's stop strings count besides those that were given.
  all.stop.insert(all.stop.end(), options.stop.begin(), options.stop.end());
  if (all.max_tokens) all.max_tokens = std::max(*all.max_tokens, options.min_tokens);
  if (options.max_tokens) all.max_tokens = options.max_tokens;
  if (all.max_tokens && *all.max_tokens < 0) all.max_tokens.reset();
  if (temperature) all.temperature = *temperature;
  if (top_k) all.top_k = *top_k;
  if (top_p) all.top_p = *top_p;
  if (min_p) all.min_p = *min_p;
  if (repetition_penalty) all.repetition_penalty = *repetition_penalty;
  return all;
}

// Those that the model may have defaults of.
static void AddChoiceFlags(const FlagGroup& group, SamplingFlags* flags) {
  AddNumber(group, "--temperature,--temp", &flags->temperature,
            "0: the most probable token; more: more variety. Default of this and the next three: "
            "as the model's makers recommend, else 0.8, 40, 0.95 and 0.05.",
            0.0f, sample::kTemperatureMax);
  group.Add("--top-k", flags->top_k, "K", InRange(-1, 1 << 24),
            "Draw from the K most probable tokens; 0 = from all.");
  AddNumber(group, "--top-p", &flags->top_p,
            "Draw from the fewest tokens that together are this probable.", 0.0f, 1.0f);
  AddNumber(group, "--min-p", &flags->min_p,
            "Draw from tokens at least this times as probable as the most probable one.", 0.0f,
            1.0f);
  AddNumber(group, "--repetition-penalty,--repeat-penalty", &flags->repetition_penalty,
            "Logits of tokens that occurred are divided by it.", sample::kRepetitionPenaltyMin,
            sample::kRepetitionPenaltyMax);
}

void AddSamplingFlags(CommandLine* line, SamplingFlags* flags) {
  const FlagGroup group(&line->flags(), "Choice of tokens");
  sample::SamplingOptions& options = flags->options;
  group.Add("-n,--max-tokens", options.max_tokens, "N", FlagRule(CheckMaxTokens, ""),
            "Most tokens to generate; -1 = as many as the context holds (default: as the model's "
            "makers recommend, else 4096).");
  AddChoiceFlags(group, flags);
  group.Add("--presence-penalty", options.presence_penalty, "X",
            InRange(-sample::kPenaltyMax, sample::kPenaltyMax),
            "Taken off the logits of generated tokens.");
  group.Add("--frequency-penalty", options.frequency_penalty, "X",
            InRange(-sample::kPenaltyMax, sample::kPenaltyMax),
            "The same as often as they were generated.");
  group
      .AddFunction<std::vector<std::string>>(
          "--logit-bias",
          [&options](const std::vector<std::string>& given) {
            options.logit_bias.resize(given.size());
            for (size_t i = 0; i < given.size(); ++i) {
              const std::string error = ReadBias(given[i], &options.logit_bias[i]);
              if (!error.empty()) RefuseFlag("--logit-bias", error);
            }
          },
          "ID=BIAS", "Added to the logit of a token: ID=BIAS. May be given again.")
      ->AllowExtraArgs(false);
  group.AddFunction<std::string>(
      "--seed",
      [&options](const std::string& given) {
        uint64_t seed = 0;
        const char* const end = given.data() + given.size();
        const auto [ptr, error] = std::from_chars(given.data(), end, seed);
        if (error != std::errc() || ptr != end) {
          RefuseFlag("--seed", fmt::format("'{}' is not a whole number from 0 to {}", given,
                                           std::numeric_limits<uint64_t>::max()));
        }
        options.seed = seed;
      },
      "N", "The same seed gives the same text.");
  group.AddRepeated("--stop", options.stop, "TEXT",
                    "Text that ends the generation, and is left out. May be given again.");
  group.Add("--min-tokens", options.min_tokens, "N",
            InRange(0, std::numeric_limits<int32_t>::max()),
            "Neither an end token nor a stop text ends the first N tokens.");
  group.Switch("--ignore-eos", options.ignore_eos, "Go on after the model's end token.");
}

}  // namespace penstock::cli
