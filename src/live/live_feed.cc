#include "live/live_feed.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "http/stream_formats.h"
#include "json/json_writer.h"
#include "live/live_print.h"
#include "log/exception_status.h"
#include "telemetry/print_stats.h"

namespace penstock::live {
namespace {

int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

void TextRing::Push(std::string text) {
  texts_.push_back(std::move(text));
  if (texts_.size() > max_) texts_.pop_front();
}

std::string TextRing::Joined() const {
  std::string joined;
  for (const std::string& text : texts_) {
    if (!joined.empty()) joined += ',';
    joined += text;
  }
  return joined;
}

LiveFeed::LiveFeed(api::Service* service, frontend::HttpMetrics* http,
                   const http::ServerOptions& options, std::chrono::milliseconds interval)
    : service_(service),
      http_(http),
      stage_timers_(options.stage_timers),
      interval_(interval),
      before_(service->TakeSnapshot()),
      failures_before_(http->TotalFailures()) {
  RunGuarded("live feed", [this] { thread_ = std::thread([this] { Run(); }); });
}

LiveFeed::~LiveFeed() { Stop(); }

void LiveFeed::Stop() {
  std::list<Watcher> ended;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ended.swap(watchers_);
    watcher_count_ = 0;
  }
  wake_.notify_all();
  for (Watcher& watcher : ended) watcher.stream->End();
  if (thread_.joinable()) thread_.join();
}

void LiveFeed::Run() {
  pthread_setname_np(pthread_self(), "live-feed");
  std::unique_lock lock(mutex_);
  auto next = Clock::now() + interval_;
  while (!wake_.wait_until(lock, next, [this] { return stopping_; })) {
    lock.unlock();
    RunGuarded("live feed", [this] { Tick(); });
    lock.lock();
    // After a pause of the machine the points that were missed are left out.
    next = std::max(next + interval_, Clock::now());
  }
}

void LiveFeed::Tick() {
  LivePoint point;
  telemetry::Snapshot now = service_->TakeSnapshot();
  point.window = now.Since(before_);
  before_ = std::move(now);
  const frontend::HttpMetrics::FailureTotals failures = http_->TotalFailures();
  point.client_errors = failures.clients - failures_before_.clients;
  point.server_errors = failures.server - failures_before_.server;
  failures_before_ = failures;
  point.unix_ms = UnixMs();
  point.connections = http_->connections().value();
  point.watchers = static_cast<int64_t>(watchers());
  point.streams = std::max<int64_t>(0, http_->streams().value() - point.watchers);
  std::string printed = PrintLivePoint(point);

  std::string events;
  if (watchers() > 0) {
    http::AppendEvent("point", printed, &events);
    events += PrintStatsEvent();
  }
  const std::lock_guard lock(mutex_);
  points_.Push(std::move(printed));
  if (!events.empty()) Send(events);
}

// With mutex_ held: a watcher gets its points from one thread at a time, in order.
void LiveFeed::Send(const std::string& events) {
  // The connection is closed soon after the request's deadline; the stream ends before.
  const auto soon = Clock::now() + interval_;
  for (auto at = watchers_.begin(); at != watchers_.end();) {
    http::Stream& stream = *at->stream;
    const bool late = at->deadline <= soon;
    if (late) stream.End(events);
    if (late || stream.gone()) {
      at = watchers_.erase(at);
      continue;
    }
    if (stream.unread() == 0) stream.Write(events);
    ++at;
  }
  watcher_count_ = watchers_.size();
}

std::string LiveFeed::PrintHistory() const {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("version", PENSTOCK_VERSION);
  json.Field("interval_ms", interval_.count()).Field("points_max", kPointsMax);
  const telemetry::Limits limits = service_->GetLimits();
  json.Key("limits").BeginObject().Field("processors", limits.processors);
  json.Field("tokenization_workers", limits.tokenization_workers);
  json.Field("models_bytes", limits.models_bytes);
  json.Field("requests_bytes", limits.requests_bytes);
  json.Field("caches_bytes", limits.caches_bytes);
  json.Field("pulls", service_->model_store() != nullptr).EndObject();
  json.Key("fields").BeginArray();
  for (const std::string_view name : LiveFields()) json.String(name);
  json.EndArray().Key("points").BeginArray();
  if (points_.size() > 0) json.Raw(points_.Joined());
  json.EndArray().EndObject();
  return out;
}

std::string LiveFeed::PrintStatsEvent() const {
  std::string event;
  http::AppendEvent("stats", telemetry::PrintStats(service_->GetStats(), stage_timers_), &event);
  return event;
}

Status LiveFeed::Watch(const http::HttpRequest& request, const http::Responder& respond) {
  const std::string stats = PrintStatsEvent();
  const std::lock_guard lock(mutex_);
  if (stopping_) return {StatusCode::kUnavailable, "the server is shutting down"};
  if (watchers_.size() >= kWatchersMax) {  // those that left since the last second make room
    watchers_.remove_if([](const Watcher& watcher) { return watcher.stream->gone(); });
  }
  if (watchers_.size() >= kWatchersMax) {
    return Status(StatusCode::kResourceExhausted,
                  std::to_string(kWatchersMax) + " clients watch already, which is the limit")
        .WithRetryAfter(5);
  }
  std::string events;
  http::AppendEvent("history", PrintHistory(), &events);
  events += stats;
  http::HttpResponse head;
  head.content_type = http::kEventStreamType;
  // Proxies neither keep the events nor hold them back.
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  auto stream = respond.Begin(std::move(head), [] {});
  stream->Write(events);
  watchers_.push_back({std::move(stream), request.context.deadline});
  watcher_count_ = watchers_.size();
  return Status::Ok();
}

}  // namespace penstock::live
