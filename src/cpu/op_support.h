// Which settings of operations this backend runs. Each is in cpu/ops/, beside its code.
#pragma once

#include "base/status.h"
#include "program/program.h"

namespace penstock::cpu {

// kUnsupported names the first op of a program that is not run, and what of it.
Status CheckSupport(const program::Program& program);

// What of an op is not run in programs with a cache, or without one; null: all is run.
const char* RefusalOf(const program::EmbedOp& op, bool cached);
const char* RefusalOf(const program::InputOp& op, bool cached);
const char* RefusalOf(const program::NormOp& op, bool cached);
const char* RefusalOf(const program::LinearOp& op, bool cached);
const char* RefusalOf(const program::FeedForwardOp& op, bool cached);
const char* RefusalOf(const program::AttentionOp& op, bool cached);
const char* RefusalOf(const program::PoolOp& op, bool cached);
const char* RefusalOf(const program::PicksOp& op, bool cached);
const char* RefusalOf(const program::Residual& residual, bool cached);

inline bool IsOf(const program::Norm& norm, program::NormKind kind) {
  return norm.gamma == nullptr || norm.kind == kind;
}

}  // namespace penstock::cpu
