#include "api/token_cache.h"

#include <cstring>

namespace penstock {
namespace {

LruOptions Options(size_t bytes, std::chrono::seconds ttl) {
  LruOptions options;
  options.bytes_max = bytes;
  options.ttl = ttl;
  return options;
}

}  // namespace

TokenCache::TokenCache(size_t bytes, std::chrono::seconds ttl, Metrics* metrics)
    : metrics_(MakeCacheMetrics("token", metrics)), lru_(Options(bytes, ttl), &metrics_) {}

Status TokenCache::EncodeText(const Engine& engine, std::string_view text,
                              std::vector<int32_t>* ids) {
  if (!lru_.enabled() || text.size() < kTextBytesMin) {
    return engine.tokenizer().EncodeText(text, ids);
  }
  const bool found = lru_.Get(engine.cache_id(), text, [&](std::span<const std::byte> value) {
    ids->resize(value.size() / sizeof(int32_t));
    if (!value.empty()) std::memcpy(ids->data(), value.data(), value.size());
  });
  if (found) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(engine.tokenizer().EncodeText(text, ids));
  lru_.Put(engine.cache_id(), text, {std::as_bytes(std::span(*ids))});
  return Status::Ok();
}

}  // namespace penstock
