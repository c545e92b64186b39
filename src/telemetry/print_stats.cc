#include "telemetry/print_stats.h"

#include <cmath>

#include "base/kv_block.h"
#include "json/json_writer.h"

namespace penstock::telemetry {
namespace {

// Nanoseconds in seconds. More digits would only be noise.
double Rounded(double x) { return std::round(x * 1e9) / 1e9; }

void WriteLatency(const metrics::DurationSnapshot& latency, JsonWriter* json) {
  const auto ms = [json](const char* key, double ns) { json->Field(key, Rounded(ns / 1e6)); };
  json->Field("count", latency.count()).Field("total_s", Rounded(latency.total_s()));
  ms("mean_ms", latency.mean_ns());
  ms("p50_ms", latency.percentile_ns(0.5));
  ms("p90_ms", latency.percentile_ns(0.9));
  ms("p95_ms", latency.percentile_ns(0.95));
  ms("p99_ms", latency.percentile_ns(0.99));
  ms("p999_ms", latency.percentile_ns(0.999));
  ms("max_ms", latency.max_ns());
}

double Ratio(double a, double b) { return b > 0 ? Rounded(a / b) : 0; }

void WriteText(const Snapshot::Model& model, double window_s, JsonWriter* json) {
  const auto per_s = [&](uint64_t tokens) { return Ratio(static_cast<double>(tokens), window_s); };
  const auto mean_ms = [](double seconds, uint64_t count) {
    return Ratio(seconds * 1e3, static_cast<double>(count));
  };
  const generate::DecodeTotals& done = model.decode;
  const generate::DecodeStats& now = *model.text;
  json->Key("text").BeginObject().Field("running", now.running);
  json->Field("waiting", now.waiting).Field("generated_tokens", done.generated_tokens);
  json->Field("prompt_tokens", done.prompt_tokens).Field("cached_tokens", done.cached_tokens);
  json->Field("generated_tokens_per_s", per_s(done.generated_tokens));
  json->Field("prompt_tokens_per_s", per_s(done.prompt_tokens));
  json->Field("first_token_mean_ms", mean_ms(done.first_token_s, done.first_tokens));
  json->Field("inter_token_mean_ms", mean_ms(done.gap_s, done.gaps));
  json->Key("kv").BeginObject().Field("block_tokens", kKvBlockTokens);
  for (const generate::CacheGroupStats& group : now.groups) {
    json->Field(generate::CacheCountName(group.kind, "blocks"), group.blocks);
    json->Field(generate::CacheCountName(group.kind, "blocks_used"), group.used);
    json->Field(generate::CacheCountName(group.kind, "blocks_cached"), group.cached);
  }
  json->Field("bytes", now.BytesOf(&generate::CacheGroupStats::blocks));
  json->Field("bytes_used", now.BytesOf(&generate::CacheGroupStats::used));
  json->Field("bytes_cached", now.BytesOf(&generate::CacheGroupStats::cached));
  json->EndObject().EndObject();
}

void WriteTensors(const Snapshot::Model& model, double window_s, JsonWriter* json) {
  json->Key("tensors").BeginObject().Field("requests", model.requests);
  json->Field("requests_per_s", Ratio(static_cast<double>(model.requests), window_s));
  json->Field("rows_per_s", Ratio(static_cast<double>(model.rows), window_s));
  json->Field("queued_rows", model.tensors.queued_rows);
  json->Field("queued_bytes", model.tensors.queued_bytes);
  json->Field("max_batch_size", model.tensors.max_batch_size).EndObject();
}

void WriteModel(const Snapshot::Model& model, double window_s, JsonWriter* json) {
  const auto tokens = static_cast<double>(model.tokens);
  const auto batches = static_cast<double>(model.batches);
  json->BeginObject().Field("model", model.name).Field("device", model.device);
  json->Field("ready", model.ready);
  json->Field("queued_requests", model.queued_requests());
  json->Field("queued_tokens", model.queued_tokens()).Field("batches", model.batches);
  json->Field("rows", model.rows).Field("tokens", model.tokens);
  json->Field("rows_per_batch", Ratio(static_cast<double>(model.rows), batches));
  json->Field("tokens_per_batch", Ratio(tokens, batches));
  json->Field("batch_mean_ms", Ratio(model.replica_busy_s() * 1e3, batches));
  json->Field("tokens_per_s", Ratio(tokens, window_s));
  json->Field("busy_percent", Ratio(100 * model.replica_busy_s(), window_s));
  if (model.text) WriteText(model, window_s, json);
  if (model.kind == Snapshot::Model::Kind::kTensors) WriteTensors(model, window_s, json);
  json->EndObject();
}

void WriteStages(const std::array<metrics::DurationSnapshot, metrics::kStages>& stages,
                 JsonWriter* json) {
  double total_s = 0;
  for (const metrics::DurationSnapshot& stage : stages) total_s += stage.total_s();
  for (size_t s = 0; s < metrics::kStages; ++s) {
    json->BeginObject().Field("stage", metrics::StageName(static_cast<metrics::Stage>(s)));
    json->Field("percent", Ratio(100 * stages[s].total_s(), total_s));
    WriteLatency(stages[s], json);
    json->EndObject();
  }
}

void WriteDevice(const Snapshot::Device& device, JsonWriter* json) {
  json->BeginObject().Field("device", device.name);
  json->Field("memory_budget_bytes", device.memory_budget_bytes);
  json->Field("memory_used_bytes", device.memory_used_bytes);
  if (const auto& work = device.work) {
    json->Field("busy_s", Rounded(work->busy_s));
    json->Field("copied_in_bytes", work->bytes_in).Field("copied_out_bytes", work->bytes_out);
    json->Field("graphs", work->graphs).Field("graph_captures", work->graph_captures);
  }
  if (!device.lost.empty()) json->Field("lost", device.lost);
  json->EndObject();
}

}  // namespace

std::string PrintStats(const Stats& stats, bool stage_timers) {
  const Snapshot& window = stats.window;
  const double window_s = window.seconds;
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("uptime_s", Rounded(stats.uptime_s));
  json.Field("window_s", Rounded(window_s)).Field("stage_timers", stage_timers);
  if (stage_timers) {
    json.Key("requests").BeginObject();
    json.Field("per_s", Ratio(static_cast<double>(window.requests.count()), window_s));
    WriteLatency(window.requests, &json);
    json.EndObject().Key("stages").BeginArray();
    WriteStages(window.stages, &json);
    json.EndArray();
  }
  json.Key("models").BeginArray();
  for (const Snapshot::Model& model : window.models) WriteModel(model, window_s, &json);
  json.EndArray().Key("devices").BeginArray();
  // Their sums are told since the start.
  for (const Snapshot::Device& device : window.devices) WriteDevice(device, &json);
  json.EndArray().Key("tokenization").BeginObject();
  json.Field("workers", window.tokenization.workers);
  json.Field("waiting_tasks", window.tokenization.waiting);
  const double workers_s = window_s * static_cast<double>(window.tokenization.workers);
  json.Field("busy_percent", Ratio(100 * window.tokenization.busy_s, workers_s)).EndObject();
  json.Key("process").BeginObject();
  json.Field("processors_busy", Ratio(window.processor_s, window_s));
  json.Field("processors_max", window.processors_max);
  json.Field("resident_bytes", window.resident_bytes).EndObject();
  json.Key("bottleneck").BeginObject().Field("name", stats.bottleneck.name);
  json.Field("why", stats.bottleneck.why).Field("saturated", stats.bottleneck.saturated);
  json.Field("window_s", Rounded(stats.bottleneck.window_s)).EndObject().EndObject();
  return out;
}

}  // namespace penstock::telemetry
