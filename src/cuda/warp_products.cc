#include "cuda/warp_products.h"

#include <cstring>
#include <utility>

namespace penstock::cuda::emulator {
namespace {

constexpr int kRows = kProductRows, kColumns = kProductColumns, kDepth = kProductDepth;

float ValueAt(uint64_t tile, int row, int k, Operand type) {
  uint16_t bits;
  std::memcpy(&bits, reinterpret_cast<const void*>(OperandAddress(tile, row, k)), sizeof(bits));
  return OperandValue(bits, type);
}

}  // namespace

float* WarpProducts::SumsOf(float (*d)[4]) {
  const auto found = apart_.find(d);
  return found != apart_.end() ? found->second.data() : &d[0][0];
}

void WarpProducts::Do(const Product& product, const TensorCore& core) {
  float x[kRows][kDepth], w[8][kDepth], sums[kRows][8];
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) x[row][k] = ValueAt(product.x, row, k, product.type);
  }
  std::array<float*, kWarpThreads> d;
  for (size_t lane = 0; lane < d.size(); ++lane) d[lane] = SumsOf(product.d[lane]);
  for (int first = 0; first < kColumns; first += 8) {
    for (int column = 0; column < 8; ++column) {
      for (int k = 0; k < kDepth; ++k) {
        w[column][k] = ValueAt(product.w, first + column, k, product.type);
      }
    }
    const auto cell = [&](size_t lane, size_t i) -> float& {
      return sums[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
    };
    const auto at = [&](size_t lane, size_t i) -> float& {
      return d[lane][static_cast<size_t>(first) / 2 + i];
    };
    for (size_t lane = 0; lane < d.size(); ++lane) {
      for (size_t i = 0; i < 4; ++i) cell(lane, i) = product.adds ? at(lane, i) : 0.0F;
    }
    MmaTile(core, product.type, x, w, sums);
    for (size_t lane = 0; lane < d.size(); ++lane) {
      for (size_t i = 0; i < 4; ++i) at(lane, i) = cell(lane, i);
    }
    CountMma();
  }
}

void WarpProducts::Start(const Product& product, const TensorCore& core, bool late) {
  open_.push_back({product, !late});
  if (!late) return Do(product, core);
  for (float(*const d)[4] : product.d) {
    const auto [place, added] = apart_.try_emplace(d);
    if (!added) continue;
    std::memcpy(place->second.data(), d, sizeof(place->second));
    std::memset(d, 0xFF, sizeof(place->second));
  }
}

void WarpProducts::Commit() { groups_.push_back(std::exchange(open_, {})); }

void WarpProducts::Finish(int groups, const TensorCore& core) {
  while (groups_.size() > static_cast<size_t>(groups)) {
    for (const Started& one : groups_.front()) {
      if (!one.done) Do(one.product, core);
    }
    groups_.pop_front();
  }
  fenced_ = false;
  if (pending()) return;
  for (const auto& [d, sums] : apart_) std::memcpy(d, sums.data(), sizeof(sums));
  apart_.clear();
}

}  // namespace penstock::cuda::emulator
