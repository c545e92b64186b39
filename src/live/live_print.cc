#include "live/live_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "metrics/stages.h"

namespace penstock::live {
namespace {

using telemetry::Snapshot;
using Model = Snapshot::Model;
using Kind = Model::Kind;

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

double PercentileMs(const metrics::DurationSnapshot& times, double share) {
  if (times.count() == 0) return std::numeric_limits<double>::quiet_NaN();
  return times.percentile_ns(share) / 1e6;
}

double PerS(const LivePoint& p, double count) { return count / std::max(p.window.seconds, 1e-6); }

// `value` of all models of a kind.
template <typename T>
double SumOf(const LivePoint& p, Kind kind, T Model::*value) {
  double sum = 0;
  for (const Model& model : p.window.models) {
    if (model.kind == kind) sum += static_cast<double>(model.*value);
  }
  return sum;
}

// What `value` reads of each model, summed.
template <typename F>
double SumOf(const LivePoint& p, F value) {
  double sum = 0;
  for (const Model& model : p.window.models) sum += static_cast<double>(value(model));
  return sum;
}

template <Kind kKind, auto kValue>
double RateOf(const LivePoint& p) {
  return PerS(p, SumOf(p, kKind, kValue));
}

template <Kind kKind>
double FillOf(const LivePoint& p) {
  return Ratio(SumOf(p, kKind, &Model::fill), SumOf(p, kKind, &Model::batches));
}

template <uint64_t generate::DecodeTotals::*kTokens>
double DecodeRate(const LivePoint& p) {
  return PerS(p, SumOf(p, [](const Model& model) { return model.decode.*kTokens; }));
}

template <Priority kPriority, int64_t Model::Queue::*kValue>
double QueueOf(const LivePoint& p) {
  return SumOf(
      p, [](const Model& model) { return model.queues[static_cast<size_t>(kPriority)].*kValue; });
}

template <int64_t generate::CacheGroupStats::*kBlocks>
double CacheBytes(const LivePoint& p) {
  return SumOf(p, [](const Model& model) { return model.text ? model.text->BytesOf(kBlocks) : 0; });
}

double HitsOf(const Snapshot::Cache& cache) {
  return Ratio(static_cast<double>(cache.hits), static_cast<double>(cache.lookups));
}

// A field and its value. PrintLivePoint and LiveFields read the same rows, so that names and
// numbers cannot part.
struct Field {
  std::string_view name;
  double (*value)(const LivePoint& point);
};

// A stage of the mean request.
template <size_t kStage>
constexpr Field StageField(std::string_view name) {
  return {name, [](const LivePoint& p) {
            return Ratio(1e3 * p.window.stages[kStage].total_s(),
                         static_cast<double>(p.window.requests.count()));
          }};
}

constexpr Field kFields[] = {
    {"unix_ms", [](const LivePoint& p) { return double(p.unix_ms); }},
    {"requests_per_s",
     [](const LivePoint& p) { return PerS(p, double(p.window.requests.count())); }},
    {"rows_per_s", RateOf<Kind::kEncoder, &Model::rows>},
    {"tokens_per_s", RateOf<Kind::kEncoder, &Model::tokens>},
    {"prompt_tokens_per_s", DecodeRate<&generate::DecodeTotals::prompt_tokens>},
    {"generated_tokens_per_s", DecodeRate<&generate::DecodeTotals::generated_tokens>},
    {"p50_ms", [](const LivePoint& p) { return PercentileMs(p.window.requests, 0.5); }},
    {"p90_ms", [](const LivePoint& p) { return PercentileMs(p.window.requests, 0.9); }},
    {"p99_ms", [](const LivePoint& p) { return PercentileMs(p.window.requests, 0.99); }},
    {"max_ms", [](const LivePoint& p) { return PercentileMs(p.window.requests, 1); }},
    {"client_errors_per_s", [](const LivePoint& p) { return PerS(p, double(p.client_errors)); }},
    {"server_errors_per_s", [](const LivePoint& p) { return PerS(p, double(p.server_errors)); }},
    {"in_flight", [](const LivePoint& p) { return double(p.window.requests_in_flight); }},
    {"interactive_requests", QueueOf<Priority::kInteractive, &Model::Queue::requests>},
    {"interactive_tokens", QueueOf<Priority::kInteractive, &Model::Queue::tokens>},
    {"bulk_requests", QueueOf<Priority::kBulk, &Model::Queue::requests>},
    {"bulk_tokens", QueueOf<Priority::kBulk, &Model::Queue::tokens>},
    {"batches_per_s", RateOf<Kind::kEncoder, &Model::batches>},
    {"batch_fill", FillOf<Kind::kEncoder>},
    {"tensor_requests_per_s",
     [](const LivePoint& p) { return PerS(p, double(p.window.infers.count())); }},
    {"tensor_p50_ms", [](const LivePoint& p) { return PercentileMs(p.window.infers, 0.5); }},
    {"tensor_p99_ms", [](const LivePoint& p) { return PercentileMs(p.window.infers, 0.99); }},
    {"tensor_rows_per_s", RateOf<Kind::kTensors, &Model::rows>},
    {"tensor_batches_per_s", RateOf<Kind::kTensors, &Model::batches>},
    {"tensor_batch_fill", FillOf<Kind::kTensors>},
    {"tensor_queue_rows",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.tensors.queued_rows; });
     }},
    {"tensor_queue_bytes",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.tensors.queued_bytes; });
     }},
    {"token_cache_hits", [](const LivePoint& p) { return HitsOf(p.window.token_cache); }},
    {"result_cache_hits", [](const LivePoint& p) { return HitsOf(p.window.result_cache); }},
    {"processors", [](const LivePoint& p) { return PerS(p, p.window.processor_s); }},
    {"tokenization",
     [](const LivePoint& p) {
       return PerS(p, p.window.tokenization.busy_s) /
              double(std::max<int64_t>(p.window.tokenization.workers, 1));
     }},
    {"weights_bytes",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.weights_bytes; });
     }},
    {"activations_bytes",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.activations_bytes; });
     }},
    {"kv_bytes",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.kv_bytes; });
     }},
    {"requests_bytes", [](const LivePoint& p) { return double(p.window.requests_bytes); }},
    {"caches_bytes",
     [](const LivePoint& p) {
       return double(p.window.token_cache.bytes + p.window.result_cache.bytes);
     }},
    {"resident_bytes", [](const LivePoint& p) { return double(p.window.resident_bytes); }},
    {"kv_blocks_bytes", CacheBytes<&generate::CacheGroupStats::blocks>},
    {"kv_used_bytes", CacheBytes<&generate::CacheGroupStats::used>},
    {"kv_cached_bytes", CacheBytes<&generate::CacheGroupStats::cached>},
    {"texts_running",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.text ? model.text->running : 0; });
     }},
    {"texts_waiting",
     [](const LivePoint& p) {
       return SumOf(p, [](const Model& model) { return model.text ? model.text->waiting : 0; });
     }},
    {"connections", [](const LivePoint& p) { return double(p.connections); }},
    {"streams", [](const LivePoint& p) { return double(p.streams); }},
    {"watchers", [](const LivePoint& p) { return double(p.watchers); }},
    StageField<0>("stage_receive_ms"),
    StageField<1>("stage_parse_ms"),
    StageField<2>("stage_load_ms"),
    StageField<3>("stage_tokenize_ms"),
    StageField<4>("stage_queue_ms"),
    StageField<5>("stage_form_ms"),
    StageField<6>("stage_forward_ms"),
    StageField<7>("stage_prefill_ms"),
    StageField<8>("stage_decode_ms"),
    StageField<9>("stage_complete_ms"),
    StageField<10>("stage_serialise_ms"),
    StageField<11>("stage_send_ms"),
};
static_assert(metrics::kStages == 12);

// Whole numbers as they are, others with four digits: a picture shows no more.
void AppendNumber(double value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("null");
  } else if (value == std::round(value) && std::abs(value) < 1e15) {
    fmt::format_to(std::back_inserter(*out), "{:.0f}", value);
  } else {
    fmt::format_to(std::back_inserter(*out), "{:.4g}", value);
  }
}

}  // namespace

std::span<const std::string_view> LiveFields() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Field& field : kFields) all.push_back(field.name);
    return all;
  }();
  return names;
}

std::string PrintLivePoint(const LivePoint& point) {
  std::string out = "[";
  for (const Field& field : kFields) {
    if (out.size() > 1) out += ',';
    AppendNumber(field.value(point), &out);
  }
  return out += ']';
}

}  // namespace penstock::live
