// A thread's copies of 16 bytes that are under way (simt::CopyAsync16), for the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

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
    const auto end = groups_.end() - static_cast<ptrdiff_t>(groups);
    size_t count = 0;
    for (auto group = groups_.begin(); group != end; ++group) count += *group;
    for (size_t i = 0; i < count; ++i) {
      const Copy& copy = copies_[i];
      std::memcpy(copy.to, copy.from != nullptr ? copy.from : copy.data.data(), kBytes);
    }
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(count));
    groups_.erase(groups_.begin(), end);
  }
  bool pending() const { return !copies_.empty(); }

 private:
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
