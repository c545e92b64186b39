#include "encode/token_cache.h"

#include <algorithm>
#include <cstring>

namespace penstock::encode {
namespace {

std::string RemoteKeyOf(const engine::EncoderEngine& engine, std::string_view text, uint64_t salt) {
  if (salt == 0) return cache::RemoteKey('t', {engine.fingerprint(), text});
  return cache::RemoteKey(
      't', {engine.fingerprint(), text, {reinterpret_cast<const char*>(&salt), sizeof salt}});
}

}  // namespace

TokenCache::TokenCache(size_t bytes, std::chrono::seconds ttl, cache::RemoteStore* remote,
                       metrics::Metrics* metrics)
    : remote_(remote),
      metrics_(cache::MakeCacheMetrics("token", metrics)),
      lru_(cache::LruOptions{.bytes_max = bytes, .ttl = ttl}, &metrics_) {}

Status TokenCache::EncodeText(const engine::EncoderEngine& engine, std::string_view text,
                              uint64_t salt, const StopCondition& stop, std::vector<int32_t>* ids) {
  if (!lru_.enabled() || text.size() < kTextBytesMin) {
    return engine.tokenizer().EncodeTextUntil(text, stop, ids);
  }
  // The salt is random bits: another client's entries, or another model's, are not met by chance.
  const uint64_t space = engine.cache_id() ^ salt;
  const bool found = lru_.Get(space, text, [&](std::span<const std::byte> value) {
    ids->resize(value.size() / sizeof(int32_t));
    if (!value.empty()) std::memcpy(ids->data(), value.data(), value.size());
  });
  if (found) return Status::Ok();
  const bool shared = remote_ != nullptr && text.size() >= kRemoteTextBytesMin && remote_->up() &&
                      !engine.fingerprint().empty();
  const std::string key = shared ? RemoteKeyOf(engine, text, salt) : std::string();
  if (!shared || !FromRemote(key, engine, ids)) {
    PENSTOCK_RETURN_IF_ERROR(engine.tokenizer().EncodeTextUntil(text, stop, ids));
    const auto bytes = std::as_bytes(std::span(*ids));
    if (shared) remote_->Put(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  lru_.Put(space, text, {std::as_bytes(std::span(*ids))});
  return Status::Ok();
}

// Blocks this worker for some milliseconds at most.
bool TokenCache::FromRemote(const std::string& key, const engine::EncoderEngine& engine,
                            std::vector<int32_t>* ids) {
  const auto value = remote_->GetNow(key);
  if (!value || value->size() % sizeof(int32_t) != 0) return false;
  ids->resize(value->size() / sizeof(int32_t));
  if (!ids->empty()) std::memcpy(ids->data(), value->data(), value->size());
  const int32_t vocab_size = engine.tokenizer().vocab_size();
  return std::all_of(ids->begin(), ids->end(),
                     [&](int32_t id) { return id >= 0 && id < vocab_size; });
}

}  // namespace penstock::encode
