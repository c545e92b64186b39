#include "load/http_sweep.h"

#include <fmt/format.h>

#include <memory>

#include "load/table.h"
#include "load/text_file.h"
#include "log/step_progress.h"
#include "plot/line_plot.h"

namespace penstock::load {
namespace {

struct Row {
  std::string name;
  LoadResult load;
  double cpu_client = 0;  // processors' worth
  double cpu_server = 0;
};

class Sweep {
 public:
  Sweep(const HttpSweepOptions& options, TextSource texts, BenchRecords* records)
      : options_(options),
        texts_(std::make_shared<TextSource>(std::move(texts))),
        records_(records),
        table_(Columns(options)),
        progress_({.steps = static_cast<int>(options.batches.size() * RowsOf(options)),
                   .step_s = options.window.warmup_s + options.window.duration_s}) {}

  Status Run() {
    const bool open = !options_.rates.empty();
    Status status;
    for (const int batch : options_.batches) {
      HttpLoad load = options_.load;
      load.batch = batch;
      load.name = fmt::format("batch={}", batch);
      AddSeries(fmt::format("batch {}", batch));
      for (size_t i = 0; i < RowsOf(options_); ++i) {
        HttpLoad one = load;
        if (open) {
          one.rate = options_.rates[i];
          one.concurrency = options_.concurrencies.front();
          one.name += fmt::format(" rate={:g}", one.rate);
        } else {
          one.concurrency = options_.concurrencies[i];
          one.name += fmt::format(" concurrency={}", one.concurrency);
        }
        if (status = RunRow(std::move(one)); !status.ok()) break;
      }
      if (!status.ok()) break;
    }
    progress_.Clear();
    table_.Print();
    PENSTOCK_RETURN_IF_ERROR(status);
    PENSTOCK_RETURN_IF_ERROR(WritePlot());
    return errors_;
  }

 private:
  static size_t RowsOf(const HttpSweepOptions& options) {
    return options.rates.empty() ? options.concurrencies.size() : options.rates.size();
  }

  static std::vector<std::string> Columns(const HttpSweepOptions& options) {
    std::vector<std::string> columns = {"load",   "requests/s", "texts/s",   "tokens/s",
                                        "p50 ms", "p90",        "p95",       "p99",
                                        "p99.9",  "max",        "client cpu"};
    if (options.window.server_pid > 0) columns.push_back("server cpu");
    columns.push_back("errors");
    return columns;
  }

  // Two lines of one hue for the measured load, and two for the one beside it.
  void AddSeries(const std::string& name) {
    const bool beside = options_.background_concurrency > 0;
    for (int i = 0; i < (beside ? 2 : 1); ++i) {
      const std::string whole = i == 0 ? name : "beside " + name;
      plot_.series.push_back({whole + ", p50", {}, hues_, false});
      plot_.series.push_back({whole + ", p99", {}, hues_, true});
      ++hues_;
    }
  }

  Status RunRow(HttpLoad load) {
    load.next_text = [texts = texts_] { return texts->Next(); };
    std::vector<HttpLoad> loads = {load};
    if (options_.background_concurrency > 0) {
      HttpLoad background = load;
      background.name = "  background";
      background.rate = 0;
      background.burst = 1;
      background.concurrency = options_.background_concurrency;
      background.batch = options_.background_batch;
      background.priority = "bulk";
      background.seed = load.seed + 1;
      loads.push_back(std::move(background));
    }
    progress_.Next(load.name);
    PENSTOCK_ASSIGN_OR_RETURN(HttpRunResult result,
                              RunHttpLoads(options_.target, loads, options_.window));
    for (LoadResult& one : result.loads) {
      const bool first = &one == &result.loads.front();
      Add(Row{one.name, std::move(one), result.client_cpu_s / result.seconds,
              result.server_cpu_s / result.seconds},
          load.name + (first ? "" : " background"), first);
    }
    const uint64_t answered = rows_answered_;
    rows_answered_ = 0;
    if (answered > 0) return Status::Ok();
    return {StatusCode::kUnavailable, load.name + ": no request was answered with 200"};
  }

  void Add(const Row& row, const std::string& record_row, bool first) {
    const LoadResult& load = row.load;
    rows_answered_ += load.ok;
    if (!options_.allow_errors && errors_.ok() && ErrorsOf(load) > 0) {
      errors_ = {
          StatusCode::kUnavailable,
          record_row + ": not every request was answered with 200 (" + ErrorsText(load) + ")"};
    }
    const double texts_per_s = PerSecond(load.texts, load.seconds);
    const auto percentile = [&load](double share) {
      return ShortNumber(load.latency.PercentileMs(share));
    };
    std::vector<std::string> cells = {row.name,
                                      ShortNumber(PerSecond(load.ok, load.seconds)),
                                      ShortNumber(texts_per_s),
                                      ShortNumber(PerSecond(load.tokens, load.seconds)),
                                      percentile(0.5),
                                      percentile(0.9),
                                      percentile(0.95),
                                      percentile(0.99),
                                      percentile(0.999),
                                      ShortNumber(load.latency.max_ms()),
                                      first ? fmt::format("{:.2f}", row.cpu_client) : ""};
    if (options_.window.server_pid > 0) {
      cells.push_back(first ? fmt::format("{:.2f}", row.cpu_server) : "");
    }
    cells.push_back(ErrorsText(load));
    table_.AddRow(cells);
    AddRecords(row, record_row, first);
    const bool beside = options_.background_concurrency > 0;
    const size_t series = plot_.series.size() - (first && beside ? 4 : 2);
    // The part of the row's name that changes along the line: "16" of "batch=8 concurrency=16".
    const std::string label = first ? row.name.substr(row.name.rfind('=') + 1) : "";
    plot_.series[series].points.push_back({texts_per_s, load.latency.PercentileMs(0.5), ""});
    plot_.series[series + 1].points.push_back(
        {texts_per_s, load.latency.PercentileMs(0.99), label});
  }

  void AddRecords(const Row& row, const std::string& name, bool first) {
    const LoadResult& load = row.load;
    const auto add = [&](const char* what, double value, const char* unit) {
      records_->Add(std::string("http.") + what, value, unit, name);
    };
    add("requests_per_s", PerSecond(load.ok, load.seconds), "1/s");
    add("texts_per_s", PerSecond(load.texts, load.seconds), "1/s");
    add("tokens_per_s", PerSecond(load.tokens, load.seconds), "1/s");
    add("p50_ms", load.latency.PercentileMs(0.5), "ms");
    add("p90_ms", load.latency.PercentileMs(0.9), "ms");
    add("p95_ms", load.latency.PercentileMs(0.95), "ms");
    add("p99_ms", load.latency.PercentileMs(0.99), "ms");
    add("p999_ms", load.latency.PercentileMs(0.999), "ms");
    add("max_ms", load.latency.max_ms(), "ms");
    add("errors", static_cast<double>(ErrorsOf(load)), "1");
    if (!first) return;
    add("client_processors", row.cpu_client, "1");
    if (options_.window.server_pid > 0) add("server_processors", row.cpu_server, "1");
  }

  Status WritePlot() {
    if (options_.plot_file.empty()) return Status::Ok();
    plot_.title = "Latency against throughput";
    if (options_.background_concurrency > 0) {
      plot_.title += fmt::format(" beside bulk requests of {} texts, {} at a time",
                                 options_.background_batch, options_.background_concurrency);
    }
    plot_.label_note = options_.rates.empty() ? "labels: clients" : "labels: requests/s";
    plot_.x_label = "texts/s";
    plot_.y_label = "latency, ms";
    return WriteTextFile(options_.plot_file, plot_.ToSvg());
  }

  const HttpSweepOptions& options_;
  const std::shared_ptr<TextSource> texts_;
  BenchRecords* const records_;
  BenchTable table_;
  plot::LinePlot plot_;
  StepProgress progress_;
  int hues_ = 0;
  uint64_t rows_answered_ = 0;
  Status errors_;  // of the first row that has some
};

}  // namespace

uint64_t ErrorsOf(const LoadResult& load) {
  uint64_t errors = load.not_sent;
  for (const auto& [status, count] : load.errors) errors += count;
  return errors;
}

std::string ErrorsText(const LoadResult& load) {
  std::string text;
  const auto add = [&text](const std::string& what, uint64_t count) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", what, count);
  };
  for (const auto& [status, count] : load.errors) {
    add(status == LoadResult::kLost       ? "lost"
        : status == LoadResult::kNoAnswer ? "no answer"
                                          : std::to_string(status),
        count);
  }
  if (load.not_sent > 0) add("not sent", load.not_sent);
  return text.empty() ? "-" : text;
}

Status RunHttpSweep(const HttpSweepOptions& options, BenchRecords* records) {
  TextSource texts(options.lengths, options.load.seed);
  if (!options.text_file.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(texts, TextSource::FromFile(options.text_file));
  }
  return Sweep(options, std::move(texts), records).Run();
}

}  // namespace penstock::load
