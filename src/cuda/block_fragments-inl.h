// Weights of blocks (block_weights.h) as fragments of tensor cores: the forms, how their codes lie,
// and how a lane makes operands of them.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// A scale, and with kOffsets an offset, for each kSize of k. Those of a feature lie together.
template <int kSize, bool kOffsets>
struct BlockScales {
  static constexpr int kBlock = kSize;
  static constexpr int kBytesOfOne = kOffsets ? 4 : 2;
  static constexpr int kBytesOfFeature = 64 / kSize * kBytesOfOne;
  static constexpr int kBytes = 8 * kBytesOfFeature;  // of half a piece

  struct ScaleWords {  // of a feature
    uint32_t w[kBytesOfFeature / 4];
  };
  static SIMT_FN ScaleWords ReadScales(const char* scales, int feature) {
    const char* const at = scales + feature * kBytesOfFeature;
    if constexpr (kBytesOfFeature == 4) {
      return {{*reinterpret_cast<const uint32_t*>(at)}};
    } else {
      const simt::TwoWords two = simt::Load8(at);
      return {{two.w[0], two.w[1]}};
    }
  }

  // A scale, twice, and its offset.
  struct Pair {
    uint32_t scale, offset;
  };
  static SIMT_FN Pair PairOf(const ScaleWords& words, int part) {
    return PairOfWord(words.w[kOffsets ? part : part / 2], part);
  }
  static SIMT_FN Pair PairAt(const char* scales, int feature, int part) {
    const char* const at = scales + feature * kBytesOfFeature + (kOffsets ? part : part / 2) * 4;
    return PairOfWord(*reinterpret_cast<const uint32_t*>(at), part);
  }
  // Two codes in f16 as weights.
  static SIMT_FN uint32_t Weights(uint32_t codes, const Pair& pair) {
    if constexpr (kOffsets) {
      return simt::FmaHalf2(codes, pair.scale, pair.offset);
    } else {
      return simt::MulHalf2(codes, pair.scale);
    }
  }
  static void Put(std::byte* scales, int feature, int part, uint16_t scale, uint16_t offset) {
    auto* const at =
        reinterpret_cast<uint16_t*>(scales + feature * kBytesOfFeature + part * kBytesOfOne);
    at[0] = scale;
    if constexpr (kOffsets) at[1] = offset;
  }

 private:
  static SIMT_FN Pair PairOfWord(uint32_t word, int part) {
    constexpr uint32_t kLow = 0x1010, kHigh = 0x3232;
    if constexpr (kOffsets) {
      return {simt::Permute(word, 0, kLow), simt::Permute(word, 0, kHigh)};
    } else {
      return {simt::Permute(word, 0, part % 2 == 0 ? kLow : kHigh), 0};
    }
  }
};

// Signed codes of 8 bits; each byte lies as code + 128, so that it is the end of an f16.
template <int kSize, bool kOffsets>
struct Codes8 : BlockScales<kSize, kOffsets> {
  using Scales = BlockScales<kSize, kOffsets>;
  static constexpr int kCodeBytes = 512;
  static constexpr int kHalfPieceBytes = kCodeBytes + Scales::kBytes;

  using Codes = simt::Words;  // of a lane
  static constexpr int kLaneBytes = 16, kStepsOfWord = 1;
  static SIMT_FN Codes ReadCodes(const char* half, int lane) {
    return simt::LoadStream16(half + kLaneBytes * lane);
  }
  // The codes of two neighbours of k, in f16: of step `step` of 16, the first or the second 8.
  // `word`: the lane's for that step.
  static SIMT_FN uint32_t CodesOf(uint32_t word, int /*step*/, int second) {
    // 1024 + byte each; 1152 is taken off.
    return simt::AddHalf2(simt::Permute(word, 0x64646464, second != 0 ? 0x4342 : 0x4140),
                          0xE480E480);
  }
  static void PutCode(std::byte* half, int feature, int k, int code) {
    const int lane = feature * 4 + k % 8 / 2;
    half[16 * lane + k / 16 * 4 + k % 16 / 8 * 2 + k % 2] = static_cast<std::byte>(code + 128);
  }
  static void PutScale(std::byte* half, int feature, int part, uint16_t scale, uint16_t offset) {
    Scales::Put(half + kCodeBytes, feature, part, scale, offset);
  }
};

// Codes of 4 bits without a sign.
struct Codes4 : BlockScales<32, true> {
  using Scales = BlockScales<32, true>;
  static constexpr int kCodeBytes = 256;
  static constexpr int kHalfPieceBytes = kCodeBytes + Scales::kBytes;

  using Codes = simt::TwoWords;
  static constexpr int kLaneBytes = 8, kStepsOfWord = 2;
  static SIMT_FN Codes ReadCodes(const char* half, int lane) {
    return simt::LoadStream8(half + kLaneBytes * lane);
  }
  static SIMT_FN uint32_t CodesOf(uint32_t word, int step, int second) {
    if (step % 2 == 1) word >>= 8;
    // 1024 + code each, and 1024 is taken off; or 1024 + 16 code, a sixteenth of it, less 64.
    if (second == 0) return simt::AddHalf2((word & 0x000F000F) | 0x64006400, 0xE400E400);
    return simt::FmaHalf2((word & 0x00F000F0) | 0x64006400, 0x2C002C00, 0xD400D400);
  }
  static void PutCode(std::byte* half, int feature, int k, int code) {
    const int lane = feature * 4 + k % 8 / 2, pair = k / 16 % 2 * 2 + k % 16 / 8;
    auto* const word = reinterpret_cast<uint32_t*>(half + 8 * lane + k / 32 * 4);
    *word |= static_cast<uint32_t>(code & 15) << (4 * pair + 16 * (k % 2));
  }
  static void PutScale(std::byte* half, int feature, int part, uint16_t scale, uint16_t offset) {
    Scales::Put(half + kCodeBytes, feature, part, scale, offset);
  }
};

using Codes8Plain = Codes8<32, false>;
using Codes8Short = Codes8<16, false>;
using Codes8Offsets = Codes8<32, true>;

// Calls f.template operator()<Form>() with the form; not with kNone.
template <typename Function>
SIMT_FN void VisitForm(BlockForm form, Function&& f) {
  if (form == BlockForm::kCodes4) f.template operator()<Codes4>();
  if (form == BlockForm::kCodes8) f.template operator()<Codes8Plain>();
  if (form == BlockForm::kCodes8Short) f.template operator()<Codes8Short>();
  if (form == BlockForm::kCodes8Offsets) f.template operator()<Codes8Offsets>();
}

// The half piece of 8 features from 8 * eighth on, of 64 of k.
template <typename Form>
SIMT_FN const char* HalfPieceOf(const std::byte* blocks, int eighth, int pieces_k, int block) {
  const int64_t piece = static_cast<int64_t>(eighth / 2) * pieces_k + block;
  return reinterpret_cast<const char*>(blocks) + (2 * piece + eighth % 2) * Form::kHalfPieceBytes;
}

// One weight, as all kernels have it.
template <typename Form>
SIMT_FN float BlockWeight(const std::byte* blocks, int pieces_k, int feature, int k) {
  const int lane = feature % 8 * 4 + k % 8 / 2, step = k % 64 / 16;
  const char* const half = HalfPieceOf<Form>(blocks, feature / 8, pieces_k, k / 64);
  const auto word = *reinterpret_cast<const uint32_t*>(half + Form::kLaneBytes * lane +
                                                       step / Form::kStepsOfWord * 4);
  const uint32_t two =
      Form::Weights(Form::CodesOf(word, step, k % 16 / 8),
                    Form::PairAt(half + Form::kCodeBytes, feature % 8, k % 64 / Form::kBlock));
  return simt::HalfToFloat(static_cast<uint16_t>(k % 2 == 1 ? two >> 16 : two));
}

}  // namespace penstock::cuda
