#include "generate/model_defaults.h"

#include "sample/standard_sampling.h"

namespace penstock {

void OverrideDefaults(const GenerationDefaults& given, TextModel* model) {
  OverrideDefaults(given, &model->defaults);
}

}  // namespace penstock
