// The service's instruments, all made at start-up: requests by behaviour and outcome, time, tokens.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/status.h"
#include "metrics/metrics.h"

namespace penstock {

enum class Behaviour {
  kEmbed,
  kEmbedAll,
  kRerank,
  kClassify,
  kSimilarity,
  kTokenize,
  kDecode,
  kGenerate,
  kRender,
};
inline constexpr size_t kBehaviours = 9;
const char* BehaviourName(Behaviour behaviour);  // "embed", "embed_all", ...

class ServiceMetrics {
 public:
  explicit ServiceMetrics(Metrics* metrics);

  void CountRequest(Behaviour behaviour, StatusCode outcome, double duration_s);
  void CountTokens(Behaviour behaviour, const Usage& usage, const Truncation& truncation);
  // Failures since the start; kinds without any are left out.
  std::vector<std::pair<StatusCode, uint64_t>> ErrorsByKind() const;
  Gauge& in_flight() { return *in_flight_; }
  Histogram& tokenize_duration() { return *tokenize_duration_; }

 private:
  static constexpr size_t kOutcomes = static_cast<size_t>(StatusCode::kInternal) + 1;
  std::array<std::array<Counter*, kOutcomes>, kBehaviours> requests_{};
  std::array<Histogram*, kBehaviours> durations_{};
  std::array<Counter*, kBehaviours> tokens_{};
  std::array<Counter*, kOutcomes> errors_{};
  Counter* truncated_inputs_;
  Counter* truncated_tokens_;
  Counter* unread_bytes_;
  Gauge* in_flight_;
  Histogram* tokenize_duration_;
};

}  // namespace penstock
