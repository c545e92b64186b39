// How a model is sampled where neither the request nor the model's files say.
#pragma once

#include <string_view>

#include "sample/generation_defaults.h"

namespace penstock::sample {

// Temperature, top_k, top_p, min_p and max_new_tokens. What the makers recommend in the model's
// card, for a model that is known by its chat template; for any other temperature 0.8, top_k 40,
// top_p 0.95, min_p 0.05 and 4096 tokens. At temperature 1 without a bound small models lose the
// thread.
GenerationDefaults StandardSampling(std::string_view chat_template);

// Whether `files` say how the next token is chosen: temperature, top_k, top_p, min_p or do_sample
// false. A repetition penalty or do_sample true alone say nothing of that.
bool RecommendsSampling(const GenerationDefaults& files);

// Completes what a model's files say: the standard sampling where they recommend none, and its
// number of tokens where they have none.
void CompleteDefaults(std::string_view chat_template, GenerationDefaults* files);

// Takes over temperature, top_k, top_p, min_p, repetition penalty and max_new_tokens where `given`
// has them. A temperature goes before do_sample false; max_new_tokens 0 takes the bound away.
void OverrideDefaults(const GenerationDefaults& given, GenerationDefaults* defaults);

}  // namespace penstock::sample
