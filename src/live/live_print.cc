#include "live/live_print.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <vector>

#include "metrics/stages.h"

namespace penstock::live {
namespace {

// A field and its value. PrintLivePoint and LiveFields read the same rows, so that names and
// numbers cannot part.
struct Field {
  std::string_view name;
  double (*value)(const LivePoint& point);
};

template <size_t kStage>
constexpr Field StageField(std::string_view name) {
  return {name, [](const LivePoint& p) { return p.load.stage_ms[kStage]; }};
}

constexpr Field kFields[] = {
    {"unix_ms", [](const LivePoint& p) { return double(p.unix_ms); }},
    {"requests_per_s", [](const LivePoint& p) { return p.load.requests_per_s; }},
    {"rows_per_s", [](const LivePoint& p) { return p.load.rows_per_s; }},
    {"tokens_per_s", [](const LivePoint& p) { return p.load.tokens_per_s; }},
    {"prompt_tokens_per_s", [](const LivePoint& p) { return p.load.prompt_tokens_per_s; }},
    {"generated_tokens_per_s", [](const LivePoint& p) { return p.load.generated_tokens_per_s; }},
    {"p50_ms", [](const LivePoint& p) { return p.load.p50_ms; }},
    {"p90_ms", [](const LivePoint& p) { return p.load.p90_ms; }},
    {"p99_ms", [](const LivePoint& p) { return p.load.p99_ms; }},
    {"max_ms", [](const LivePoint& p) { return p.load.max_ms; }},
    {"client_errors_per_s", [](const LivePoint& p) { return p.client_errors_per_s; }},
    {"server_errors_per_s", [](const LivePoint& p) { return p.server_errors_per_s; }},
    {"in_flight", [](const LivePoint& p) { return double(p.load.now.requests_in_flight); }},
    {"interactive_requests",
     [](const LivePoint& p) { return double(p.load.now.queues[0].requests); }},
    {"interactive_tokens", [](const LivePoint& p) { return double(p.load.now.queues[0].tokens); }},
    {"bulk_requests", [](const LivePoint& p) { return double(p.load.now.queues[1].requests); }},
    {"bulk_tokens", [](const LivePoint& p) { return double(p.load.now.queues[1].tokens); }},
    {"batches_per_s", [](const LivePoint& p) { return p.load.batches_per_s; }},
    {"batch_fill", [](const LivePoint& p) { return p.load.batch_fill; }},
    {"tensor_requests_per_s", [](const LivePoint& p) { return p.load.tensor_requests_per_s; }},
    {"tensor_p50_ms", [](const LivePoint& p) { return p.load.tensor_p50_ms; }},
    {"tensor_p99_ms", [](const LivePoint& p) { return p.load.tensor_p99_ms; }},
    {"tensor_rows_per_s", [](const LivePoint& p) { return p.load.tensor_rows_per_s; }},
    {"tensor_batches_per_s", [](const LivePoint& p) { return p.load.tensor_batches_per_s; }},
    {"tensor_batch_fill", [](const LivePoint& p) { return p.load.tensor_batch_fill; }},
    {"tensor_queue_rows", [](const LivePoint& p) { return double(p.load.now.tensor_queue.rows); }},
    {"tensor_queue_bytes",
     [](const LivePoint& p) { return double(p.load.now.tensor_queue.bytes); }},
    {"token_cache_hits", [](const LivePoint& p) { return p.load.token_cache_hits; }},
    {"result_cache_hits", [](const LivePoint& p) { return p.load.result_cache_hits; }},
    {"processors", [](const LivePoint& p) { return p.load.processors; }},
    {"tokenization", [](const LivePoint& p) { return p.load.tokenization; }},
    {"weights_bytes", [](const LivePoint& p) { return double(p.load.now.memory.weights); }},
    {"activations_bytes", [](const LivePoint& p) { return double(p.load.now.memory.activations); }},
    {"kv_bytes", [](const LivePoint& p) { return double(p.load.now.memory.kv); }},
    {"requests_bytes", [](const LivePoint& p) { return double(p.load.now.memory.requests); }},
    {"caches_bytes", [](const LivePoint& p) { return double(p.load.now.memory.caches); }},
    {"resident_bytes", [](const LivePoint& p) { return double(p.load.now.memory.resident); }},
    {"kv_blocks_bytes", [](const LivePoint& p) { return double(p.load.now.kv.bytes); }},
    {"kv_used_bytes", [](const LivePoint& p) { return double(p.load.now.kv.used); }},
    {"kv_cached_bytes", [](const LivePoint& p) { return double(p.load.now.kv.cached); }},
    {"texts_running", [](const LivePoint& p) { return double(p.load.now.texts_running); }},
    {"texts_waiting", [](const LivePoint& p) { return double(p.load.now.texts_waiting); }},
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
