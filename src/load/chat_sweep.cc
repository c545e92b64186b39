#include "load/chat_sweep.h"

#include <fmt/format.h>

#include <string>

#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::load {
namespace {

double CachedPercent(const ChatResult& result) {
  if (result.prompt_tokens == 0) return 0;
  return 100 * static_cast<double>(result.cached_tokens) /
         static_cast<double>(result.prompt_tokens);
}

// Why no answer of a row came whole while it was measured, and what to do where nothing failed.
std::string WhyNone(const ChatResult& result, const LoadWindow& window) {
  std::string why =
      fmt::format("no answer came whole in the {:g} s that were measured: ", window.duration_s);
  const auto unanswered = result.errors.find(ChatResult::kNoAnswer);
  const uint64_t late = unanswered == result.errors.end() ? 0 : unanswered->second;
  if (result.ErrorCount() > late) return why + result.ErrorsText();
  why += fmt::format("{} requests were sent, {} answers came before or after that time",
                     result.sent, result.outside);
  if (result.no_answer > 0) {
    why += fmt::format(", {} not within {:g} s after it", result.no_answer, window.drain_s);
  }
  return why + "; a longer --duration or fewer --output-tokens would give some";
}

class ChatSweep {
 public:
  ChatSweep(const ChatSweepOptions& options, BenchRecords* records)
      : options_(options),
        records_(records),
        table_(Columns(options)),
        progress_({.steps = static_cast<int>(RowsOf(options)),
                   .step_s = options.window.warmup_s + options.window.duration_s}) {}

  Status Run() {
    ChatLoad load = options_.load;
    PENSTOCK_ASSIGN_OR_RETURN(load.scale, MeasurePromptScale(options_.target, load.request));
    Status status;
    const bool open = !options_.rates.empty();
    for (size_t i = 0; i < RowsOf(options_) && status.ok(); ++i) {
      load.concurrency = options_.concurrencies[open ? 0 : i];
      load.rate = open ? options_.rates[i] : 0;
      load.name = open ? fmt::format("rate={:g}", load.rate)
                       : fmt::format("concurrency={}", load.concurrency);
      // Another row's prompts would be in the cache.
      load.seed = options_.load.seed + 1000 * i;
      status = RunRow(load);
    }
    progress_.Clear();
    table_.Print();
    PENSTOCK_RETURN_IF_ERROR(status);
    return errors_;
  }

 private:
  static size_t RowsOf(const ChatSweepOptions& options) {
    return options.rates.empty() ? options.concurrencies.size() : options.rates.size();
  }

  static std::vector<std::string> Columns(const ChatSweepOptions& options) {
    std::vector<std::string> columns = {"load", "requests/s"};
    if (options.load.goodput.any()) columns.push_back("goodput");
    for (const char* name : {"tokens/s", "prompt tokens/s", "cached", "ttft p50 ms", "p95", "p99",
                             "itl p50 ms", "p95", "p99", "e2el p50 ms", "p99", "client cpu"}) {
      columns.emplace_back(name);
    }
    if (options.window.server_pid > 0) columns.push_back("server cpu");
    columns.push_back("errors");
    return columns;
  }

  Status RunRow(const ChatLoad& load) {
    progress_.Next(load.name);
    PENSTOCK_ASSIGN_OR_RETURN(const ChatResult result,
                              RunChatLoad(options_.target, load, options_.window));
    AddRow(load, result);
    AddRecords(load, result);
    if (result.whole == 0) {
      return {StatusCode::kUnavailable, load.name + ": " + WhyNone(result, options_.window)};
    }
    if (!options_.allow_errors && errors_.ok() && result.ErrorCount() > 0) {
      errors_ = {StatusCode::kUnavailable,
                 load.name + ": not every answer came whole (" + result.ErrorsText() + ")"};
    }
    return Status::Ok();
  }

  void AddRow(const ChatLoad& load, const ChatResult& result) {
    std::vector<std::string> cells = {load.name,
                                      ShortNumber(PerSecond(result.whole, result.seconds))};
    if (load.goodput.any()) cells.push_back(ShortNumber(PerSecond(result.good, result.seconds)));
    cells.push_back(ShortNumber(PerSecond(result.tokens, result.seconds)));
    cells.push_back(ShortNumber(PerSecond(result.prompt_tokens, result.seconds)));
    cells.push_back(fmt::format("{:.0f} %", CachedPercent(result)));
    for (const LatencyHistogram* times : {&result.first_token, &result.between_tokens}) {
      for (const double share : {0.5, 0.95, 0.99}) {
        cells.push_back(ShortNumber(times->PercentileMs(share)));
      }
    }
    cells.push_back(ShortNumber(result.whole_answer.PercentileMs(0.5)));
    cells.push_back(ShortNumber(result.whole_answer.PercentileMs(0.99)));
    cells.push_back(fmt::format("{:.2f}", result.client_cpu_s / result.seconds));
    if (options_.window.server_pid > 0) {
      cells.push_back(fmt::format("{:.2f}", result.server_cpu_s / result.seconds));
    }
    cells.push_back(result.ErrorsText());
    table_.AddRow(cells);
  }

  void AddRecords(const ChatLoad& load, const ChatResult& result) {
    const auto add = [&](const char* what, double value, const char* unit) {
      records_->Add(std::string("chat.http.") + what, value, unit, load.name);
    };
    add("requests_per_s", PerSecond(result.whole, result.seconds), "1/s");
    if (load.goodput.any()) add("goodput_per_s", PerSecond(result.good, result.seconds), "1/s");
    add("tokens_per_s", PerSecond(result.tokens, result.seconds), "1/s");
    add("prompt_tokens_per_s", PerSecond(result.prompt_tokens, result.seconds), "1/s");
    add("cached_percent", CachedPercent(result), "%");
    add("ttft_p50_ms", result.first_token.PercentileMs(0.5), "ms");
    add("ttft_p95_ms", result.first_token.PercentileMs(0.95), "ms");
    add("ttft_p99_ms", result.first_token.PercentileMs(0.99), "ms");
    add("itl_p50_ms", result.between_tokens.PercentileMs(0.5), "ms");
    add("itl_p95_ms", result.between_tokens.PercentileMs(0.95), "ms");
    add("itl_p99_ms", result.between_tokens.PercentileMs(0.99), "ms");
    add("e2el_p50_ms", result.whole_answer.PercentileMs(0.5), "ms");
    add("e2el_p99_ms", result.whole_answer.PercentileMs(0.99), "ms");
    add("errors", static_cast<double>(result.ErrorCount()), "1");
    add("client_processors", result.client_cpu_s / result.seconds, "1");
    if (options_.window.server_pid > 0) {
      add("server_processors", result.server_cpu_s / result.seconds, "1");
    }
  }

  const ChatSweepOptions& options_;
  BenchRecords* const records_;
  BenchTable table_;
  StepProgress progress_;
  Status errors_;  // of the first row that has some
};

}  // namespace

Status RunChatSweep(const ChatSweepOptions& options, BenchRecords* records) {
  return ChatSweep(options, records).Run();
}

}  // namespace penstock::load
