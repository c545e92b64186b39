// Texts and their tokens, so that a text that comes again is not tokenized again: queries,
// documents, prompts, and both sides of pairs, each by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cache/sharded_lru.h"
#include "common/status.h"
#include "engine/engine.h"
#include "metrics/metrics.h"

namespace penstock {

class TokenCache {
 public:
  // Shorter texts are tokenized faster than they are found: a look-up costs about 0.2 us.
  static constexpr size_t kTextBytesMin = 32;

  // `bytes` 0: nothing is kept.
  TokenCache(size_t bytes, std::chrono::seconds ttl, Metrics* metrics);

  // As engine.tokenizer().EncodeText. Any thread.
  Status EncodeText(const Engine& engine, std::string_view text, std::vector<int32_t>* ids);
  void Clear() { lru_.Clear(); }

 private:
  const CacheMetrics metrics_;
  ShardedLru lru_;
};

}  // namespace penstock
