// penstock doctor of a decoder: whether it computes here what it should, and how far its types and
// the types of its cache are from f32. The checks are those of checks/list.cc; their results are in
// checks/decoder_results.h and doctor_decoder_types.h.
#pragma once

#include "checks/check.h"
#include "doctor_accuracy.h"
#include "inspect_decoder.h"
#include "runtime/model_options.h"

namespace penstock::cli {

// Of `model`: threads, pin, isa and dtype.
void DiagnoseDecoder(const DecoderPlace& place, const runtime::ModelOptions& model,
                     const AccuracyFlags& accuracy, const checks::SayOfCheck& say);

}  // namespace penstock::cli
