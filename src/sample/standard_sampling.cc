#include "sample/standard_sampling.h"

namespace penstock::sample {
namespace {

constexpr int32_t kTokensStandard = 4096;

struct KnownModel {
  std::string_view in_template;  // a piece of its chat template that no other model has
  float temperature, top_p;
  int32_t max_tokens;
};

constexpr KnownModel kKnownModels[] = {
    // SmolLM2 Instruct, of each size. It repeats itself at times, so that a text is short.
    {"You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>", 0.2f, 0.9f,
     512},
};

}  // namespace

GenerationDefaults StandardSampling(std::string_view chat_template) {
  GenerationDefaults standard;
  for (const KnownModel& known : kKnownModels) {
    if (chat_template.find(known.in_template) == std::string_view::npos) continue;
    standard.temperature = known.temperature;
    standard.top_p = known.top_p;
    standard.max_new_tokens = known.max_tokens;
    return standard;
  }
  standard.temperature = 0.8f;
  standard.top_k = 40;
  standard.top_p = 0.95f;
  standard.min_p = 0.05f;
  standard.max_new_tokens = kTokensStandard;
  return standard;
}

bool RecommendsSampling(const GenerationDefaults& files) {
  return files.temperature || files.top_k || files.top_p || files.min_p ||
         (files.do_sample && !*files.do_sample);
}

void CompleteDefaults(std::string_view chat_template, GenerationDefaults* files) {
  const auto tokens = files->max_new_tokens;
  const GenerationDefaults standard = StandardSampling(chat_template);
  if (!RecommendsSampling(*files)) OverrideDefaults(standard, files);
  files->max_new_tokens = tokens ? tokens : standard.max_new_tokens;
}

void OverrideDefaults(const GenerationDefaults& given, GenerationDefaults* defaults) {
  if (given.temperature) {
    defaults->temperature = given.temperature;
    defaults->do_sample.reset();
  }
  if (given.top_k) defaults->top_k = given.top_k;
  if (given.top_p) defaults->top_p = given.top_p;
  if (given.min_p) defaults->min_p = given.min_p;
  if (given.repetition_penalty) defaults->repetition_penalty = given.repetition_penalty;
  if (!given.max_new_tokens) return;
  defaults->max_new_tokens = given.max_new_tokens;
  if (*given.max_new_tokens == 0) defaults->max_new_tokens.reset();
}

}  // namespace penstock::sample
