// For tests of programs: tables and weights without contents.
#pragma once

#include <cstdint>

#include "program/program.h"

namespace penstock::program {

class FakeTable final : public Table {
 public:
  FakeTable(int64_t rows, int32_t width) : Table(rows, width) {}
};

class FakeLinear final : public PackedLinear {
 public:
  FakeLinear(int32_t out, int32_t in, numbers::DType dtype = numbers::DType::kF32)
      : PackedLinear(in, out, dtype) {}
  uint64_t bytes() const override {
    return static_cast<uint64_t>(in()) * static_cast<uint64_t>(out()) *
           numbers::DTypeBytes(dtype());
  }
};

}  // namespace penstock::program
