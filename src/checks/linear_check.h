// A linear layer of a loaded model beside plain arithmetic on its weights as the files store them:
// whether packing and the kernels of this processor give what they should.
#pragma once

#include <functional>
#include <string>

#include "common/status.h"
#include "numbers/dtype.h"

namespace penstock {

class Backend;
class DecoderModel;   // models/decoder.h
class EncoderModel;   // models/encoder.h
struct DecoderFiles;  // families/decoder_files.h

struct LinearCheck {
  std::string layer;  // its tensor's name
  double error = 0;   // the largest difference, of the largest number; infinite: not finite
  double error_max = 0;
  bool ok() const { return error <= error_max; }
};

// The largest difference at which results of a linear layer, or of a whole model, by two sets of
// kernels count as equal, of the largest number. f32: sums of a few thousand terms in another
// order, through some tens of layers; other types: where two instruction sets round a value to
// different sides, layers carry it on.
double KernelTolerance(DType dtype);
// How far the cosine of a vector with that of a reference, computed in f32, may be below 1.
double CosineTolerance(DType dtype);

// Null: a model without such a layer.
using LinearChecker = std::function<Expected<LinearCheck>()>;

// Of layer 0: the output of its attention. The files are opened again; milliseconds. Errors are
// those of opening them and of running a batch.
Expected<LinearCheck> CheckEncoderLinear(const EncoderModel& model, Backend* backend);
// Of layer 0: the gate of its feed-forward, on rows of the embedding. `cache_type` as PrepareOptions.
Expected<LinearCheck> CheckDecoderLinear(const DecoderModel& model, const DecoderFiles& files,
                                         DType cache_type, Backend* backend);

}  // namespace penstock
