// StepShares: how much of a step's panels each worker gets, by how fast it was in earlier steps.
// Cores differ: some of a processor are slow on purpose, and others have neighbours that are busy.
// With equal shares all workers would wait for the slowest. Every kEvery-th step of few rows is
// timed, and every one of many. The bits of a step do not depend on the shares (step_worker.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::cpu {

class StepShares {
 public:
  static constexpr uint32_t kWhole = 1 << 16;
  static constexpr uint32_t kEvery = 8;
  // Part of a new speed in the one that is kept: a single slow step changes little.
  static constexpr double kNew = 0.1;
  // A new speed over what is kept of the mean, at most and at least.
  static constexpr double kFastest = 4, kSlowest = 0.25;
  // Speeds that differ by less are alike: shares are even, as panels often divide evenly.
  static constexpr double kAlike = 0.03;

  explicit StepShares(size_t workers);

  // Bounds of the shares of the first `active` workers, of kWhole: worker i has
  // [bounds[i], bounds[i + 1]). `many_rows`: steps that compute more than they read have speeds of
  // their own.
  void Fill(bool many_rows, size_t active, std::vector<uint32_t>* bounds) const;
  // Whether the next step is to be timed.
  bool TimeNext(bool many_rows);
  // The workers with these bounds took so long for their shares, in seconds, [active].
  void Took(bool many_rows, std::span<const uint32_t> bounds, std::span<const double> seconds);

 private:
  std::vector<double> speeds_[2];  // of each worker, 1 at first; by many_rows
  uint32_t steps_ = 0;             // of few rows
};

}  // namespace penstock::cpu
