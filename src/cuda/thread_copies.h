// A thread's copies of 16 bytes that are under way (simt::CopyAsync16), for the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "cuda/race_hooks.h"

namespace penstock::cuda::emulator {

class ThreadCopies {
 public:
  static constexpr size_t kBytes = 16;

  void Clear() {
    copies_.clear();
    groups_.clear();
    open_ = 0;
  }
  // Starts a copy of 16 bytes of `from`, or of zeros where it is null. The bytes of `to` are `poison`
  // until the copy lands. With `late` it reads `from` when it lands, else now.
  void Start(void* to, const void* from, bool late, int poison) {
    Copy copy;
    copy.to = to;
    copy.from = late ? from : nullptr;
    if (!late && from != nullptr) {
      std::memcpy(copy.data.data(), from, kBytes);
    } else {
      copy.data.fill(std::byte{0});
    }
    std::memset(to, poison, kBytes);
    copies_.push_back(copy);
    ++open_;
  }
  void Commit() {
    groups_.push_back(open_);
    open_ = 0;
  }
  // All groups but the last ones land.
  void Wait(size_t groups) {
    if (groups_.size() <= groups) return;
    const size_t count = Due(groups);
    for (size_t i = 0; i < count; ++i) {
      const Copy& copy = copies_[i];
      std::memcpy(copy.to, copy.from != nullptr ? copy.from : copy.data.data(), kBytes);
    }
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(count));
    groups_.erase(groups_.begin(), groups_.end() - static_cast<ptrdiff_t>(groups));
  }
  // Tells race_hooks.h of the copies that Wait lets land.
  void TellDue(size_t groups, void* line) const {
    for (size_t i = 0; i < Due(groups); ++i) {
      race::Write(copies_[i].to, kBytes, line);
      if (copies_[i].from != nullptr) race::Read(copies_[i].from, kBytes, line);
    }
  }
  bool pending() const { return !copies_.empty(); }

 private:
  // Copies of all groups but the last ones.
  size_t Due(size_t groups) const {
    size_t count = 0;
    for (size_t i = 0; i + groups < groups_.size(); ++i) count += groups_[i];
    return count;
  }

  struct Copy {
    void* to;
    const void* from;  // null: `data`
    std::array<std::byte, kBytes> data;
  };
  std::vector<Copy> copies_;    // the oldest first
  std::vector<size_t> groups_;  // copies of each, the oldest first
  size_t open_ = 0;             // copies since the last commit
};

}  // namespace penstock::cuda::emulator
