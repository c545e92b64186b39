#include "plan/drive.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <random>
#include <utility>

#include "load/chat_load.h"
#include "load/http_sweep.h"
#include "load/http_texts.h"

namespace penstock::plan {
namespace {

constexpr int kConnections = 1000;

// The requests as the generators of load ask for them: when the next one comes, then what it holds.
class Feed {
 public:
  Feed(const Workload& workload, uint64_t seed) : source_(workload, seed), random_(seed) {}

  double NextArrival() {
    waiting_.emplace_back();
    source_.Next(&waiting_.back());
    return waiting_.back().at_s;
  }
  int NextTexts() const { return static_cast<int>(waiting_.front().lengths.size()); }
  std::string NextText(double word_tokens) {
    const double tokens = waiting_.front().lengths[text_++];
    if (text_ == waiting_.front().lengths.size()) Pop();
    std::string text;
    load::AppendWords(std::max<int32_t>(1, static_cast<int32_t>(std::lround(tokens / word_tokens))),
                      &random_, &text);
    return text;
  }
  std::pair<int, int> NextTokens() {
    const std::pair<int, int> tokens = {waiting_.front().prompt, waiting_.front().output};
    Pop();
    return tokens;
  }

 private:
  void Pop() {
    waiting_.pop_front();
    text_ = 0;
  }

  RequestSource source_;
  std::mt19937_64 random_;
  std::deque<Request> waiting_;
  size_t text_ = 0;  // of the first one
};

Status NotAnswered(const std::string& errors) {
  return Status(StatusCode::kUnavailable, "the server did not answer all requests: " + errors);
}

Expected<Driven> DriveChat(const ServedModel& model, const DriveOptions& options, Feed* feed,
                           const load::LoadWindow& window) {
  load::ChatLoad load;
  load.concurrency = kConnections;
  load.next_arrival_s = [feed] { return feed->NextArrival(); };
  load.request.next_tokens = [feed] { return feed->NextTokens(); };
  load.request.model = model.name;
  load.request.completions = !model.chat;
  load.seed = std::random_device()();  // so that no prompt is in the server's cache
  PENSTOCK_ASSIGN_OR_RETURN(load.scale, MeasurePromptScale(options.target, load.request));
  PENSTOCK_ASSIGN_OR_RETURN(const StepTotals before, StepTotals::Read(options.target, model.name));
  // Read when the time is over: the ends of answers that come later are not of its share.
  const double seconds = options.warmup_s + options.seconds;
  std::promise<void> ended;
  auto at_end = std::async(std::launch::async, [&, load_ended = ended.get_future()] {
    load_ended.wait_for(std::chrono::duration<double>(seconds));
    return StepTotals::Read(options.target, model.name);
  });
  const Expected<load::ChatResult> run = RunChatLoad(options.target, load, window);
  ended.set_value();
  const Expected<StepTotals> after = at_end.get();
  PENSTOCK_RETURN_IF_ERROR(run.status());
  PENSTOCK_RETURN_IF_ERROR(after.status());
  const load::ChatResult& result = *run;
  if (result.ErrorCount() > 0 || result.first_token.count() == 0) {
    return NotAnswered(result.ErrorsText());
  }
  Driven driven;
  driven.answers = PercentilesOf(result.first_token);
  driven.between_tokens = PercentilesOf(result.between_tokens);
  driven.busy_share = (*after - before).seconds / seconds;
  return driven;
}

}  // namespace

Percentiles PercentilesOf(const load::LatencyHistogram& times) {
  return {times.PercentileMs(0.5), times.PercentileMs(0.95), times.PercentileMs(0.99)};
}

Expected<Driven> DriveServer(const ServedModel& model, const Workload& workload,
                             const DriveOptions& options) {
  Feed feed(workload, options.seed);
  const load::LoadWindow window{.warmup_s = options.warmup_s, .duration_s = options.seconds};
  if (model.generates()) return DriveChat(model, options, &feed, window);
  load::HttpLoad load;
  load.concurrency = kConnections;
  load.next_arrival_s = [&feed] { return feed.NextArrival(); };
  load.next_batch = [&feed] { return feed.NextTexts(); };
  load.route = model.route();
  load.model = model.name;
  load.next_text = [&feed, &options] { return feed.NextText(options.word_tokens); };
  PENSTOCK_ASSIGN_OR_RETURN(const BatchTotals before,
                            BatchTotals::Read(options.target, model.name));
  PENSTOCK_ASSIGN_OR_RETURN(const load::HttpRunResult run,
                            RunHttpLoads(options.target, {load}, window));
  PENSTOCK_ASSIGN_OR_RETURN(const BatchTotals after, BatchTotals::Read(options.target, model.name));
  const load::LoadResult& result = run.loads.front();
  if (!result.errors.empty() || result.latency.count() == 0) {
    return NotAnswered(load::ErrorsText(result));
  }
  const BatchTotals totals = after - before;
  Driven driven;
  driven.answers = PercentilesOf(result.latency);
  driven.busy_share = totals.seconds / (options.warmup_s + options.seconds);
  driven.outside_s =
      result.latency.mean_ms() / 1000 - totals.inside_s / static_cast<double>(result.sent);
  driven.row_tokens = totals.tokens / totals.rows;
  return driven;
}

}  // namespace penstock::plan
