// The kinds of activation and pooling that operations name. Not in program.h, so that files
// compiled for one instruction set can include it alone.
#pragma once

namespace penstock::program {

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };
enum class Pooling { kCls, kMean, kMax, kLastToken, kMeanSqrtLen, kWeightedMean };

}  // namespace penstock::program
