// Defaults that an operator gives a model in place of what its files recommend.
#pragma once

#include "generate/text_model.h"

namespace penstock::generate {

// As OverrideDefaults (sample/standard_sampling.h), of a model that no request has seen yet.
void OverrideDefaults(const sample::GenerationDefaults& given, TextModel* model);

}  // namespace penstock::generate
