// Logits of a decoder for a built-in text, as `penstock doctor` checks them.
#pragma once

#include <functional>
#include <memory>

#include "checks/check.h"
#include "generate/text_model.h"
#include "program/backend.h"

namespace penstock::checks {

// A decoder, and what computes it.
struct HeldDecoder {
  std::unique_ptr<program::Backend> backend;
  std::unique_ptr<generate::TextModel> model;
};
// `load_again`: the same model, with one thread.
std::unique_ptr<CheckedResults> DecoderResultsOf(HeldDecoder loaded,
                                                 std::function<Expected<HeldDecoder>()> load_again);

}  // namespace penstock::checks
