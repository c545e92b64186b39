// Which settings of operations this backend runs. Each is in cpu/ops/, beside its code.
#pragma once

#include "common/status.h"
#include "program/program.h"

namespace penstock::cpu {

// kUnsupported names the first op of a program that is not run, and what of it.
Status CheckSupport(const Program& program);

// What of an op is not run in programs with a cache, or without one; null: all is run.
const char* RefusalOf(const EmbedOp& op, bool cached);
const char* RefusalOf(const InputOp& op, bool cached);
const char* RefusalOf(const NormOp& op, bool cached);
const char* RefusalOf(const LinearOp& op, bool cached);
const char* RefusalOf(const FeedForwardOp& op, bool cached);
const char* RefusalOf(const AttentionOp& op, bool cached);
const char* RefusalOf(const PoolOp& op, bool cached);
const char* RefusalOf(const PicksOp& op, bool cached);
const char* RefusalOf(const Residual& residual, bool cached);

inline bool IsOf(const Norm& norm, NormKind kind) {
  return norm.gamma == nullptr || norm.kind == kind;
}

}  // namespace penstock::cpu
