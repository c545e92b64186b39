// A warp's products that are under way (simt::Wgmma), for the emulator.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "cuda/emulator.h"

namespace penstock::cuda::emulator {

class WarpProducts {
 public:
  void Fence() { fenced_ = true; }
  bool fenced() const { return fenced_; }
  // Does it at once, or with `late` once it is waited for.
  void Start(const Product& product, const TensorCore& core, bool late);
  void Commit();
  // Does all groups but the last ones.
  void Finish(int groups, const TensorCore& core);
  bool pending() const { return !open_.empty() || !groups_.empty(); }

 private:
  static constexpr size_t kSums = 96;  // of a lane
  struct Started {
    Product product;
    bool done;
  };
  void Do(const Product& product, const TensorCore& core);
  // Where the sums of a lane are: apart while they are poisoned.
  float* SumsOf(float (*d)[4]);

  bool fenced_ = false;
  std::vector<Started> open_;  // since the last commit
  std::deque<std::vector<Started>> groups_;
  std::map<float (*)[4], std::array<float, kSums>> apart_;
};

}  // namespace penstock::cuda::emulator
