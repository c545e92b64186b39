#include "generate/model_defaults.h"

#include "sample/standard_sampling.h"

namespace penstock::generate {

void OverrideDefaults(const sample::GenerationDefaults& given, TextModel* model) {
  sample::OverrideDefaults(given, &model->defaults);
}

}  // namespace penstock::generate
