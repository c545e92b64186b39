// The kinds of activation and pooling that operations name. Apart from program.h, for files that
// are compiled for one instruction set.
#pragma once

namespace penstock {

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };
enum class Pooling { kCls, kMean, kMax, kLastToken, kMeanSqrtLen, kWeightedMean };

}  // namespace penstock
