// The service's instruments, all made at start-up: requests by behaviour and outcome, time, tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/infer_counts.h"
#include "api/types.h"
#include "base/status.h"
#include "metrics/metrics.h"

namespace penstock::api {

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
  kInfer,
};
inline constexpr size_t kBehaviours = 10;
const char* BehaviourName(Behaviour behaviour);  // "embed", "embed_all", ...

class ServiceMetrics {
 public:
  explicit ServiceMetrics(metrics::Metrics* metrics);

  void CountRequest(Behaviour behaviour, StatusCode outcome, double duration_s);
  // Counts a failed call of Service::Infer; calls that succeed are counted by infers().
  void CountInferFailure(StatusCode outcome);
  InferCounts& infers() { return *infers_; }
  // Time of calls that succeed, from the moment the model is there.
  metrics::DurationHistogram& infer_duration() { return *infer_duration_; }
  void CountTokens(Behaviour behaviour, const encode::Usage& usage,
                   const encode::Truncation& truncation);
  metrics::Gauge& in_flight() { return *in_flight_; }
  metrics::Histogram& tokenize_duration() { return *tokenize_duration_; }

 private:
  static constexpr size_t kOutcomes = static_cast<size_t>(StatusCode::kInternal) + 1;
  std::array<std::array<metrics::Counter*, kOutcomes>, kBehaviours> requests_{};
  std::array<metrics::Histogram*, kBehaviours> durations_{};
  std::array<metrics::Counter*, kBehaviours> tokens_{};
  std::array<metrics::Counter*, kOutcomes> errors_{};
  metrics::Counter* truncated_inputs_;
  metrics::Counter* truncated_tokens_;
  metrics::Counter* unread_bytes_;
  const std::shared_ptr<InferCounts> infers_;  // printed as long as the metrics are
  metrics::DurationHistogram* infer_duration_;
  metrics::Gauge* in_flight_;
  metrics::Histogram* tokenize_duration_;
};

}  // namespace penstock::api
