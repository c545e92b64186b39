// A claim on a shard: which process works on it now, for --take.
//
// A claim is a file that its process touches. It is void when the process has ended, which a
// process on the same machine sees at once, and others when it was not touched for kStaleAfter. The
// clock is that of the file system, so machines need not agree on the time. Two processes may come
// to work on one shard all the same, after a machine slept: they make the same part.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace penstock::bulk {

class ShardClaim {
 public:
  static constexpr std::chrono::seconds kTouchEvery{5};
  static constexpr std::chrono::seconds kStaleAfter{60};

  // The claim on `shard` in `folder`, touched until it is destroyed. null: another process has it.
  // kUnavailable: the folder cannot be written.
  static Expected<std::unique_ptr<ShardClaim>> Take(const std::string& folder, int64_t shard);
  // Gives it up, unless another process took it over.
  ~ShardClaim();
  ShardClaim(const ShardClaim&) = delete;
  ShardClaim& operator=(const ShardClaim&) = delete;

  // Another process has taken it over, or it was removed. Any thread.
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  // It was another machine's, whose process may still write.
  bool from_elsewhere() const { return from_elsewhere_; }

 private:
  class Toucher;
  ShardClaim(std::string path, uint64_t inode, bool from_elsewhere);
  bool IsMine() const;

  const std::string path_;
  const uint64_t inode_;
  const bool from_elsewhere_;
  std::atomic<bool> lost_{false};
  std::unique_ptr<Toucher> toucher_;  // last: it ends first
};

}  // namespace penstock::bulk
