// A linear layer of a loaded model beside plain arithmetic on its weights as the files store them:
// whether packing and the kernels of this processor give what they should.
#pragma once

#include <functional>

#include "common/status.h"
#include "numbers/dtype.h"
#include "program/kernel_difference.h"

namespace penstock {

class Backend;
class DecoderModel;   // models/decoder.h
class EncoderModel;   // models/encoder.h
struct DecoderFiles;  // families/decoder_files.h

// The largest difference at which results of a linear layer, or of a whole model, by two sets of
// kernels count as equal, of the largest number. f32: sums of a few thousand terms in another
// order, through some tens of layers; other types: where two instruction sets round a value to
// different sides, layers carry it on.
double KernelTolerance(DType dtype);
// How far the cosine of a vector with that of a reference, computed in f32, may be below 1.
double CosineTolerance(DType dtype);

// Null: a model without such a layer.
using LinearChecker = std::function<Expected<KernelDifference>()>;

// Both look at layer 0, and at the files, which are opened again; milliseconds. Errors are those of
// opening them and of running a batch.
// The output of its attention.
Expected<KernelDifference> CheckEncoderLinear(const EncoderModel& model, Backend* backend);
// The gate of its feed-forward, on rows of the embedding. `cache_type` as PrepareOptions.
Expected<KernelDifference> CheckDecoderLinear(const DecoderModel& model, const DecoderFiles& files,
                                              DType cache_type, Backend* backend);

}  // namespace penstock
