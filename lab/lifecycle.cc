#include "lab/lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "json/json_writer.h"
#include "load/http_load.h"
#include "load/process_stat.h"
#include "load/prometheus_text.h"
#include "load/server_process.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kEmbed = R"({"model": "embed", "input": "A penstock feeds a turbine."})";
constexpr const char* kRerank =
    R"({"model": "rank", "query": "What is a penstock?", "documents": ["A pipe.", "A pen."]})";
constexpr const char* kComplete =
    R"({"model": "text", "prompt": "Water falls", "max_tokens": 1, "temperature": 0})";
constexpr int kUnloadTriesMax = 20'000;
constexpr milliseconds kLook{2};
// The traffic's pause between requests of a client, so that loading is not starved.
constexpr milliseconds kPause{1};
constexpr int kResidentLooks = 50;

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
std::string Named(const char* name) {
  std::string body;
  JsonWriter(&body).BeginObject().Field("model", name).EndObject();
  return body;
}

// A model of the traffic and how it is asked.
struct Asked {
  const char* name;
  std::string reference;
  const char* path;
  const char* body;
};

class LifecycleBench {
 public:
  LifecycleBench(const LifecycleOptions& options, load::BenchRecords* records)
      : options_(options), records_(records) {
    for (const Asked& one : {Asked{"embed", options.embedder, "/v1/embeddings", kEmbed},
                             Asked{"rank", options.reranker, "/v1/rerank", kRerank},
                             Asked{"text", options.generator, "/v1/completions", kComplete}}) {
      if (!one.reference.empty()) asked_.push_back(one);
    }
  }

  Status Run() {
    StepProgress progress({.steps = options_.cycles > 0 ? 4 : 3, .in_log = false});
    progress.Next("starts");
    PENSTOCK_RETURN_IF_ERROR(MeasureStart());
    PENSTOCK_RETURN_IF_ERROR(Start(asked_));
    progress.Next("reloads");
    PENSTOCK_RETURN_IF_ERROR(MeasureReloads());
    progress.Next("many callers");
    PENSTOCK_RETURN_IF_ERROR(MeasureCallers());
    if (options_.cycles > 0) {
      progress.Next(fmt::format("{} cycles", options_.cycles));
      PENSTOCK_RETURN_IF_ERROR(MeasureCycles());
    }
    progress.Clear();
    table_.Print();
    const int exit_code = server_->Stop();
    if (exit_code == 0) return Status::Ok();
    return Status::Internal(fmt::format("the server ended with {}", exit_code));
  }

 private:
  Status Start(const std::vector<Asked>& models);
  Status MeasureStart();
  Status MeasureReloads();
  Status MeasureCallers();
  Status MeasureCycles();
  // An answer of 200.
  Status Ask(const Asked& model) const;
  Status Unload(const char* name) const;
  Expected<double> Loads(const char* name) const;
  // The least of a while: what requests hold comes and goes.
  double Resident() const;
  Status Cycle(size_t index) const;

  void Add(const char* name, double value, const char* unit) {
    records_->Add(std::string("lifecycle.") + name, value, unit);
    table_.AddRow({name, load::ShortNumber(value), unit});
  }

  const LifecycleOptions& options_;
  load::BenchRecords* const records_;
  std::vector<Asked> asked_;
  std::unique_ptr<load::ServerProcess> server_;
  load::BenchTable table_{{"measured", "value", "unit"}};
};

Status LifecycleBench::Start(const std::vector<Asked>& models) {
  std::vector<std::string> words = {"--log-level", "warn", "--keep-alive", "-1"};
  for (const Asked& model : models) {
    words.insert(words.end(), {"--model", fmt::format("{}={}", model.name, model.reference)});
  }
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(
      server_, load::ServerProcess::Start(words, {.ready_timeout_s = 60, .preload = false}));
  return Status::Ok();
}

Status LifecycleBench::Ask(const Asked& model) const {
  PENSTOCK_ASSIGN_OR_RETURN(const load::HttpAnswer answer,
                            load::HttpPostJson(server_->target(), model.path, model.body));
  if (answer.status == 200) return Status::Ok();
  return Status(StatusCode::kUnavailable,
                fmt::format("{}: {} {:.300}", model.path, answer.status, answer.body));
}

// Until it is gone.
Status LifecycleBench::Unload(const char* name) const {
  for (int i = 0; i < kUnloadTriesMax; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const load::HttpAnswer answer,
        load::HttpPostJson(server_->target(), "/admin/models/unload", Named(name)));
    if (answer.status == 200 && answer.body.find("\"state\":\"absent\"") != std::string::npos) {
      return Status::Ok();
    }
    std::this_thread::sleep_for(kLook);
  }
  return Status(StatusCode::kUnavailable, fmt::format("model {} does not leave", name));
}

Expected<double> LifecycleBench::Loads(const char* name) const {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, load::HttpGet(server_->target(), "/metrics"));
  return load::SumOfSeries(text, "penstock_model_loads_total", {fmt::format("model=\"{}\"", name)});
}

double LifecycleBench::Resident() const {
  double least = 0;
  for (int i = 0; i < kResidentLooks; ++i) {
    const double now = load::ProcessResidentBytes(server_->pid());
    least = i == 0 ? now : std::min(least, now);
    std::this_thread::sleep_for(milliseconds(10));
  }
  return least;
}

Status LifecycleBench::MeasureStart() {
  std::vector<double> ready, first;
  for (int i = 0; i < options_.rounds; ++i) {
    const auto begin = Clock::now();
    PENSTOCK_RETURN_IF_ERROR(Start({asked_.front()}));
    ready.push_back(Milliseconds(Clock::now() - begin));
    PENSTOCK_RETURN_IF_ERROR(Ask(asked_.front()));
    first.push_back(Milliseconds(Clock::now() - begin));
    server_->Stop();
  }
  Add("ready_ms", Median(ready), "ms");
  Add("cold_first_embedding_ms", Median(first), "ms");
  return Status::Ok();
}

Status LifecycleBench::MeasureReloads() {
  for (const Asked& model : asked_) {
    PENSTOCK_RETURN_IF_ERROR(Ask(model));
    std::vector<double> took;
    for (int i = 0; i < options_.rounds; ++i) {
      PENSTOCK_RETURN_IF_ERROR(Unload(model.name));
      const auto begin = Clock::now();
      PENSTOCK_RETURN_IF_ERROR(Ask(model));
      took.push_back(Milliseconds(Clock::now() - begin));
    }
    const std::string name = model.name;
    if (name == "embed") Add("reload_ms", Median(took), "ms");
    if (name == "text") Add("first_token_after_eviction_ms", Median(took), "ms");
  }
  return Status::Ok();
}

Status LifecycleBench::MeasureCallers() {
  const Asked& model = asked_.front();
  PENSTOCK_RETURN_IF_ERROR(Unload(model.name));
  PENSTOCK_ASSIGN_OR_RETURN(const double before, Loads(model.name));
  std::vector<std::thread> callers;
  std::atomic<int> answered{0};
  for (int i = 0; i < options_.callers; ++i) {
    callers.emplace_back([&] { answered += Ask(model).ok(); });
  }
  for (std::thread& caller : callers) caller.join();
  PENSTOCK_ASSIGN_OR_RETURN(const double after, Loads(model.name));
  if (answered != options_.callers) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} of {} callers were answered", answered.load(), options_.callers));
  }
  Add(fmt::format("loads_for_{}_callers", options_.callers).c_str(), after - before, "1");
  return Status::Ok();
}

// Unloads one of the models; the traffic loads it again.
Status LifecycleBench::Cycle(size_t index) const {
  const Asked& model = asked_[index % asked_.size()];
  PENSTOCK_ASSIGN_OR_RETURN(const double before, Loads(model.name));
  for (int i = 0; i < kUnloadTriesMax; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const load::HttpAnswer answer,
        load::HttpPostJson(server_->target(), "/admin/models/unload", Named(model.name)));
    if (answer.status == 200) break;
    std::this_thread::sleep_for(kLook);
  }
  for (int i = 0; i < kUnloadTriesMax; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const double now, Loads(model.name));
    if (now > before) return Status::Ok();
    std::this_thread::sleep_for(kLook);
  }
  return Status(StatusCode::kUnavailable, fmt::format("model {} does not come back", model.name));
}

Status LifecycleBench::MeasureCycles() {
  std::atomic<bool> ending{false};
  std::atomic<int64_t> answered{0}, failed{0};
  std::vector<std::thread> clients;
  for (const Asked& model : asked_) {
    clients.emplace_back([&, model] {
      while (!ending) {
        ++(Ask(model).ok() ? answered : failed);
        std::this_thread::sleep_for(kPause);
      }
    });
  }
  const int warm = std::max(1, options_.cycles / 10);
  double before = 0;
  Status status;
  const auto begin = Clock::now();
  for (int i = 0; i < options_.cycles && status.ok(); ++i) {
    if (i == warm) before = Resident();
    status = Cycle(static_cast<size_t>(i));
  }
  const double seconds = Milliseconds(Clock::now() - begin) / 1000;
  const double after = Resident();
  ending = true;
  for (std::thread& client : clients) client.join();
  PENSTOCK_RETURN_IF_ERROR(status);
  Add("cycles", options_.cycles, "1");
  Add("cycles_per_s", options_.cycles / seconds, "1/s");
  Add("cycles_rss_percent", 100 * (after / before - 1), "%");
  Add("cycles_rss_mb", after / 1e6, "MB");
  Add("answered_requests", static_cast<double>(answered), "1");
  Add("failed_requests", static_cast<double>(failed), "1");
  return Status::Ok();
}

}  // namespace

Status MeasureLifecycle(const LifecycleOptions& options, load::BenchRecords* records) {
  return LifecycleBench(options, records).Run();
}

}  // namespace penstock::lab
