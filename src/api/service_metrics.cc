#include "api/service_metrics.h"

namespace penstock::api {

const char* BehaviourName(Behaviour behaviour) {
  switch (behaviour) {
    case Behaviour::kEmbed:
      return "embed";
    case Behaviour::kEmbedAll:
      return "embed_all";
    case Behaviour::kRerank:
      return "rerank";
    case Behaviour::kClassify:
      return "classify";
    case Behaviour::kSimilarity:
      return "similarity";
    case Behaviour::kTokenize:
      return "tokenize";
    case Behaviour::kDecode:
      return "decode";
    case Behaviour::kGenerate:
      return "generate";
    case Behaviour::kRender:
      return "render";
    case Behaviour::kInfer:
      return "infer";
  }
  return "unknown";
}

ServiceMetrics::ServiceMetrics(metrics::Metrics* metrics)
    : infers_(std::make_shared<InferCounts>()) {
  constexpr char kRequests[] = "penstock_requests_total";
  constexpr char kRequestsHelp[] = "Requests answered, by their outcome.";
  for (size_t b = 0; b < kBehaviours; ++b) {
    const bool infer = b == static_cast<size_t>(Behaviour::kInfer);
    const auto behaviour =
        metrics::MetricLabel("behaviour", BehaviourName(static_cast<Behaviour>(b)));
    for (size_t o = 0; o < kOutcomes; ++o) {
      const char* outcome = StatusCodeName(static_cast<StatusCode>(o));
      const std::string labels = behaviour + "," + metrics::MetricLabel("outcome", outcome);
      if (infer && o == 0) {
        metrics->AddFunction(
            kRequests, kRequestsHelp, metrics::Metrics::Kind::kCounter,
            [infers = infers_] { return static_cast<double>(infers->succeeded()); }, labels);
        continue;
      }
      requests_[b][o] = &metrics->AddCounter(kRequests, kRequestsHelp, labels);
    }
    if (infer) continue;  // its durations are counted by thread, and it has no tokens
    durations_[b] = &metrics->AddHistogram(
        "penstock_request_duration_seconds",
        "Time from the acceptance of a request until it was answered; failed ones left out.",
        metrics::DurationBounds(), behaviour);
    tokens_[b] = &metrics->AddCounter("penstock_tokens_total",
                                      "Tokens of the inputs of answered requests, whether a model "
                                      "worked on them or a cache knew.",
                                      behaviour);
  }
  for (size_t o = 1; o < kOutcomes; ++o) {
    errors_[o] = &metrics->AddCounter(
        "penstock_errors_total", "Requests that failed, by the kind of failure.",
        metrics::MetricLabel("kind", StatusCodeName(static_cast<StatusCode>(o))));
  }
  truncated_inputs_ = &metrics->AddCounter("penstock_truncated_inputs_total",
                                           "Inputs that were cut to the model's limit.");
  truncated_tokens_ =
      &metrics->AddCounter("penstock_truncated_tokens_total",
                           "Tokens that were cut off inputs, of the text that was read.");
  unread_bytes_ = &metrics->AddCounter("penstock_unread_bytes_total",
                                       "Bytes that were cut off inputs without being read.");
  infer_duration_ = &metrics->AddDurations(
      "penstock_infer_duration_seconds",
      "Time from the acceptance of a request with tensors, its model being loaded, until it was "
      "answered; failed ones left out.");
  in_flight_ =
      &metrics->AddGauge("penstock_requests_in_flight", "Requests accepted and not yet answered.");
  metrics->router().Add(metrics::RouterGauges::Family::kInFlight, "", in_flight_);
  tokenize_duration_ = &metrics->AddHistogram(
      "penstock_tokenize_duration_seconds",
      "Time to tokenize all inputs of a request, waiting for a worker included.",
      metrics::DurationBounds());
}

void ServiceMetrics::CountRequest(Behaviour behaviour, StatusCode outcome, double duration_s) {
  const auto b = static_cast<size_t>(behaviour);
  const auto o = static_cast<size_t>(outcome);
  requests_[b][o]->Add();
  if (outcome == StatusCode::kOk) {
    durations_[b]->Observe(duration_s);
  } else {
    errors_[o]->Add();
  }
}

void ServiceMetrics::CountInferFailure(StatusCode outcome) {
  const auto o = static_cast<size_t>(outcome);
  requests_[static_cast<size_t>(Behaviour::kInfer)][o]->Add();
  errors_[o]->Add();
}

void ServiceMetrics::CountTokens(Behaviour behaviour, const encode::Usage& usage,
                                 const encode::Truncation& truncation) {
  tokens_[static_cast<size_t>(behaviour)]->Add(usage.prompt_tokens);
  truncated_inputs_->Add(truncation.inputs);
  truncated_tokens_->Add(truncation.tokens);
  unread_bytes_->Add(truncation.unread_bytes);
}

}  // namespace penstock::api
