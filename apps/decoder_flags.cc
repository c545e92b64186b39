#include "decoder_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "bench/random_decoder.h"
#include "common/log.h"
#include "common/step_progress.h"
#include "devices/backends.h"
#include "download_progress.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "model_flags.h"

namespace penstock {
namespace {

// "ID=BIAS"; the error, or empty.
std::string ReadBias(const std::string& given, LogitBias* bias) {
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
Flag* AddNumber(FlagSet* app, const char* name, std::optional<T>* value, const char* text, T least,
                T most) {
  return app->AddOption(name, *value, text)->Check(InRange(least, most))->TypeName("X");
}

}  // namespace

void AddCacheTypeFlag(FlagSet* app, const std::string& group, TextModelOptions* options) {
  app->AddOptionFunction<std::string>(
         "--cache-type",
         [options](const std::string& name) { options->cache_type = *DTypeOfFlag(name); },
         "Type of the cached keys and values: bf16, f16, f32 or int8 (penstock doctor says what "
         "each costs).")
      ->Check(OneOf({"bf16", "f16", "f32", "int8"}))
      ->DefaultText("bf16")
      ->TypeName("TYPE")
      ->Group(group);
}

void AddDecoderFlags(CommandLine* line, DecoderFlags* flags) {
  const std::string model = "Model";
  FlagSet& app = line->flags();
  app.AddOption("-m,--model", flags->model,
                "A .gguf file, a folder (safetensors, or one GGUF model), or "
                "owner/name[:QUANT][@revision] on the Hugging Face hub (docs/MODELS.md).")
      ->TypeName("REF")
      ->Group(model);
  AddAutoPull(&app, &flags->auto_pull);
  app.AddOptionFunction<std::string>(
         "--dtype", [flags](const std::string& name) { flags->options.dtype = DTypeOfFlag(name); },
         "Type the linear layers compute in: f32, bf16 or int8; auto = int8 for quantised "
         "weights, which stay as they are, else bf16 where the processor multiplies it natively, "
         "else f32.")
      ->Check(OneOf({"auto", "f32", "bf16", "int8"}))
      ->DefaultText("auto")
      ->TypeName("TYPE")
      ->Group(model);
  app.AddOption(kContextFlag, flags->options.context, kContextHelp)
      ->Check(InRange(0, 1 << 27))
      ->TypeName("TOKENS")
      ->Group(model);
  AddCacheTypeFlag(&app, model, &flags->options);
  const std::string speed = "Speed";
  app.AddOption("--device", flags->device, kDeviceHelp)
      ->Check(FlagRule(
          [](std::string& given) {
            const auto device = ParseDevice(given);
            return device.ok() ? "" : device.status().message();
          },
          ""))
      ->DefaultText(Devices::kAuto)
      ->TypeName("DEVICE")
      ->Group(speed);
  app.AddOption("-t,--threads", flags->threads,
                "Threads that compute; 0 = one for each processor this process may use, quotas "
                "counted.")
      ->Check(InRange(0, 256))
      ->TypeName("N")
      ->Group(speed);
  app.AddSwitch("--pin,!--no-pin", flags->pin,
                "Pin these threads to processors, or not, where no others share these. [on]")
      ->Group(speed);
  app.AddOption("--log-level", flags->log_level, "debug, info, warn, error or off.")
      ->Check(OneOf({"debug", "info", "warn", "error", "off"}))
      ->TypeName("LEVEL")
      ->Group("Log");
}

void AddRandomModelFlags(FlagSet* app, const std::string& group, std::string* shape,
                         std::string* mix, std::string* name) {
  app->AddOption("--shape", *shape, "Without --model: random weights of this shape.")
      ->Transform(OneOfAnyCase(DecoderShapes()))
      ->TypeName("NAME")
      ->Group(group);
  app->AddOption("--type", *mix, "Number types of the random weights.")
      ->Transform(OneOf(DecoderMixes()))
      ->TypeName("TYPE")
      ->Group(group);
  app->AddOption("--name", *name, "What records call the model.")->TypeName("NAME")->Group(group);
}

Expected<LoadedDecoder> LoadedDecoder::Load(const DecoderFlags& flags) {
  LogOptions log;
  PENSTOCK_ASSIGN_OR_RETURN(log.level, ParseLogLevel(flags.log_level));
  InitLog(log);
  std::string reference = flags.model;
  if (reference.empty()) {
    reference = FindDemoModel().reference;
  }
  LoadedDecoder loaded;
  SetAutoPull(flags.auto_pull);
  PENSTOCK_ASSIGN_OR_RETURN(reference, ResolveShown(reference));
  PENSTOCK_ASSIGN_OR_RETURN(loaded.backend,
                            NewBackend({flags.device, flags.threads, flags.pin, ""}));
  const StepProgress loading("loading the model", /*quiet=*/false);
  PENSTOCK_ASSIGN_OR_RETURN(loaded.model,
                            TextModel::Load(reference, loaded.backend.get(), flags.options));
  return loaded;
}

SamplingOptions SamplingFlags::For(const GenerationDefaults& defaults) const {
  SamplingOptions all = options;
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
static void AddChoiceFlags(FlagSet* app, SamplingFlags* flags, const std::string& group) {
  AddNumber(app, "--temperature,--temp", &flags->temperature,
            "0: the most probable token; more: more variety. Default of this and the next three: "
            "as the model's makers recommend, else 0.8, 40, 0.95 and 0.05.",
            0.0f, kTemperatureMax)
      ->Group(group);
  app->AddOption("--top-k", flags->top_k, "Draw from the K most probable tokens; 0 = from all.")
      ->Check(InRange(-1, 1 << 24))
      ->TypeName("K")
      ->Group(group);
  AddNumber(app, "--top-p", &flags->top_p,
            "Draw from the fewest tokens that together are this probable.", 0.0f, 1.0f)
      ->Group(group);
  AddNumber(app, "--min-p", &flags->min_p,
            "Draw from tokens at least this times as probable as the most probable one.", 0.0f,
            1.0f)
      ->Group(group);
  AddNumber(app, "--repetition-penalty,--repeat-penalty", &flags->repetition_penalty,
            "Logits of tokens that occurred are divided by it.", kRepetitionPenaltyMin,
            kRepetitionPenaltyMax)
      ->Group(group);
}

void AddSamplingFlags(CommandLine* line, SamplingFlags* flags) {
  const std::string group = "Choice of tokens";
  FlagSet& app = line->flags();
  SamplingOptions& options = flags->options;
  app.AddOption("-n,--max-tokens", options.max_tokens,
                "Most tokens to generate; -1 = as many as the context holds (default: as the "
                "model's makers recommend, else 4096).")
      ->Check(FlagRule(CheckMaxTokens, ""))
      ->TypeName("N")
      ->Group(group);
  AddChoiceFlags(&app, flags, group);
  app.AddOption("--presence-penalty", options.presence_penalty,
                "Taken off the logits of generated tokens.")
      ->Check(InRange(-kPenaltyMax, kPenaltyMax))
      ->TypeName("X")
      ->Group(group);
  app.AddOption("--frequency-penalty", options.frequency_penalty,
                "The same as often as they were generated.")
      ->Check(InRange(-kPenaltyMax, kPenaltyMax))
      ->TypeName("X")
      ->Group(group);
  app.AddOptionFunction<std::vector<std::string>>(
         "--logit-bias",
         [&options](const std::vector<std::string>& given) {
           options.logit_bias.resize(given.size());
           for (size_t i = 0; i < given.size(); ++i) {
             const std::string error = ReadBias(given[i], &options.logit_bias[i]);
             if (!error.empty()) RefuseFlag("--logit-bias", error);
           }
         },
         "Added to the logit of a token: ID=BIAS. May be given again.")
      ->AllowExtraArgs(false)
      ->TypeName("ID=BIAS")
      ->Group(group);
  app.AddOptionFunction<std::string>(
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
         "The same seed gives the same text.")
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--stop", options.stop,
                "Text that ends the generation, and is left out. May be given again.")
      ->AllowExtraArgs(false)
      ->TypeName("TEXT")
      ->Group(group);
  app.AddOption("--min-tokens", options.min_tokens,
                "Neither an end token nor a stop text ends the first N tokens.")
      ->Check(InRange(0, std::numeric_limits<int32_t>::max()))
      ->TypeName("N")
      ->Group(group);
  app.AddSwitch("--ignore-eos", options.ignore_eos, "Go on after the model's end token.")
      ->Group(group);
}

}  // namespace penstock
