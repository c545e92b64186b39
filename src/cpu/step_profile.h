// What a decoder's steps do to be fast, and where their time goes: for measurements.
#pragma once

#include <cstddef>
#include <iterator>

namespace penstock::cpu {

// To be switched off one by one; results are the same to the bit.
struct CpuTuning {
  bool own_rows = true;    // few rows are normed and packed by every thread for itself
  bool split_keys = true;  // the keys of a sequence that decodes are shared out among the threads
  bool fuse_heads = true;  // heads are rotated and appended by the thread that projected them
};
inline constexpr bool CpuTuning::*kCpuTunings[] = {&CpuTuning::own_rows, &CpuTuning::split_keys,
                                                   &CpuTuning::fuse_heads};
inline constexpr const char* kCpuOptimisations[] = {"own_rows", "split_keys", "fuse_heads"};

enum class StepStage {
  kLookup,
  kProject,  // norm, q, k and v, rotation, appending
  kAttend,
  kOut,
  kGateUp,  // norm, gate and up
  kDown,
  kLogits,
  kWait,  // threads for each other
};
inline constexpr const char* kStepStageNames[] = {"lookup",  "project", "attend", "out",
                                                  "gate_up", "down",    "logits", "wait"};
inline constexpr size_t kStepStages = std::size(kStepStageNames);

}  // namespace penstock::cpu
