// penstock doctor of a decoder: whether it computes here what it should, and how far its types and
// the types of its cache are from f32.
//
//   load       the files are understood and the tensors fit together
//   tokenizer  decoding and encoding again gives the same tokens
//   finite     every logit of a built-in text is finite
//   batch      a token's logits have the same bits alone, in a prompt, in a prompt that is cut, and
//              beside another text
//   threads    and the same bits with one thread
//   kernels    each kernel of each instruction set agrees with the plain one, on random input
//   accuracy   the default type, bf16, and caches in f16 and int8 against f32; WARN: not advisable
#pragma once

#include "doctor_accuracy.h"
#include "doctor_report.h"
#include "inspect_decoder.h"
#include "runtime/model_options.h"

namespace penstock {

// Of `model`: threads, pin, isa and dtype.
void DiagnoseDecoder(const DecoderPlace& place, const ModelOptions& model,
                     const AccuracyFlags& accuracy, DoctorReport* report);

}  // namespace penstock
