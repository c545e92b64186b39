// A linear layer of a loaded model beside plain arithmetic on its weights as the files store them:
// whether packing and the kernels of this processor give what they should.
#pragma once

#include <functional>

#include "base/status.h"
#include "numbers/dtype.h"
#include "program/kernel_difference.h"

namespace penstock::families {
struct DecoderFiles;  // families/decoder_files.h
}  // namespace penstock::families

namespace penstock::models {
class DecoderModel;  // models/decoder.h
class EncoderModel;  // models/encoder.h
}  // namespace penstock::models

namespace penstock::program {
class Backend;
}  // namespace penstock::program

namespace penstock::checks {

// The largest difference at which results of a linear layer, or of a whole model, by two sets of
// kernels count as equal, of the largest number. f32: sums of a few thousand terms in another
// order, through some tens of layers; other types: where two instruction sets round a value to
// different sides, layers carry it on.
double KernelTolerance(numbers::DType dtype);
// How far the cosine of a vector with that of a reference, computed in f32, may be below 1.
double CosineTolerance(numbers::DType dtype);

// Null: a model without such a layer.
using LinearChecker = std::function<Expected<program::KernelDifference>()>;

// Both look at layer 0, and at the files, which are opened again; milliseconds. Errors are those of
// opening them and of running a batch.
// The output of its attention.
Expected<program::KernelDifference> CheckEncoderLinear(const models::EncoderModel& model,
                                                       program::Backend* backend);
// The gate of its feed-forward, on rows of the embedding. `cache_type` as PrepareOptions.
Expected<program::KernelDifference> CheckDecoderLinear(const models::DecoderModel& model,
                                                       const families::DecoderFiles& files,
                                                       numbers::DType cache_type,
                                                       program::Backend* backend);

}  // namespace penstock::checks
