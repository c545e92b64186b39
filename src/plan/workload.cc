#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <utility>

#include "base/seeded_hash.h"
#include "json/json.h"

namespace penstock::plan {
namespace {

constexpr int32_t kTokensMax = 1 << 20;
constexpr size_t kTraceMax = 10'000'000;
// Conversations that are open before one goes on: its reader takes a while.
constexpr size_t kConversationsMin = 16;
constexpr double kGoldenRatio = 0.6180339887498949;

Status AddLengths(const JsonObject& line, Request* request) {
  const auto tokens = line.Find("tokens");
  if (tokens && tokens->is_array()) {
    JsonArray all;
    tokens->Get(&all);
    for (const JsonElement& one : all) {
      int64_t length = 0;
      if (!one.Get(&length) || length < 1 || length > kTokensMax) {
        return Status::InvalidArgument("each of 'tokens' is from 1 to 1048576", "tokens");
      }
      request->lengths.push_back(static_cast<int32_t>(length));
    }
    if (request->lengths.empty()) return Status::InvalidArgument("'tokens' is empty", "tokens");
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t length, line.GetInt("tokens", 1, kTokensMax));
  request->lengths.push_back(static_cast<int32_t>(length));
  return Status::Ok();
}

Expected<Request> ReadLine(const std::string& text, SeededMap<std::string, uint64_t>* sessions) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject line, document.Object());
  Request request;
  PENSTOCK_ASSIGN_OR_RETURN(request.at_s, line.GetNumber("at"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string priority,
                            line.GetStringOr("priority", "interactive"));
  if (priority != "interactive" && priority != "bulk") {
    return Status::InvalidArgument("'priority' is interactive or bulk", "priority");
  }
  request.priority = priority == "bulk" ? Priority::kBulk : Priority::kInteractive;
  if (!line.Has("prompt")) {
    PENSTOCK_RETURN_IF_ERROR(AddLengths(line, &request));
    return request;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t prompt, line.GetInt("prompt", 1, kTokensMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t output, line.GetInt("output", 1, kTokensMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t shared, line.GetIntOr("shared", 0, 0, prompt));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string session, line.GetStringOr("session", ""));
  request.prompt = static_cast<int32_t>(prompt);
  request.output = static_cast<int32_t>(output);
  request.shared = static_cast<int32_t>(shared);
  request.session =
      session.empty() ? 0 : sessions->try_emplace(session, sessions->size() + 1).first->second;
  return request;
}

}  // namespace

Expected<std::shared_ptr<const std::vector<Request>>> ReadTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::NotFound("cannot read " + path);
  auto trace = std::make_shared<std::vector<Request>>();
  SeededMap<std::string, uint64_t> sessions;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = ReadLine(line, &sessions);
    Status status = request.status();
    if (status.ok() && !trace->empty() &&
        (request->at_s < trace->back().at_s ||
         request->lengths.empty() != trace->back().lengths.empty())) {
      status = Status::InvalidArgument("lines are by time, and of one kind");
    }
    if (status.ok() && trace->size() == kTraceMax) {
      status = Status::InvalidArgument(fmt::format("a trace has at most {} lines", kTraceMax));
    }
    if (!status.ok()) {
      return Status(status.code(), fmt::format("{}, line {}: {}", path, number, status.message()));
    }
    if (request->session == 0) request->session = (uint64_t{1} << 32) + number;
    trace->push_back(*std::move(request));
  }
  if (trace->size() < 2 || trace->back().at_s <= trace->front().at_s) {
    return Status::InvalidArgument(path + ": a trace has at least two requests at two times");
  }
  return std::shared_ptr<const std::vector<Request>>(std::move(trace));
}

double RateOf(const std::vector<Request>& trace) {
  return static_cast<double>(trace.size() - 1) / (trace.back().at_s - trace.front().at_s);
}

RequestSource::RequestSource(const Workload& workload, uint64_t seed)
    : workload_(workload), random_(seed) {
  if (workload.trace == nullptr) return;
  const std::vector<Request>& trace = *workload.trace;
  // Places that lie apart however many seeds there are; the first seed begins at the beginning.
  const double place = static_cast<double>(seed - 1) * kGoldenRatio;
  next_of_trace_ =
      static_cast<size_t>((place - std::floor(place)) * static_cast<double>(trace.size()));
  trace_scale_ = RateOf(trace) / workload.rate;
}

void RequestSource::Next(Request* request) {
  if (workload_.trace != nullptr) return NextOfTrace(request);
  if (together_ == 0) {
    at_s_ += std::exponential_distribution<double>(workload_.rate / workload_.burst)(random_);
    together_ = workload_.burst;
  }
  --together_;
  request->at_s = at_s_;
  request->lengths.clear();
  const bool bulk = workload_.bulk_share > 0 &&
                    std::uniform_real_distribution<double>(0, 1)(random_) < workload_.bulk_share;
  request->priority = bulk ? Priority::kBulk : Priority::kInteractive;
  if (workload_.chat) return DrawChat(request);
  request->session = ++sessions_;
  for (int i = 0; i < workload_.texts; ++i) {
    request->lengths.push_back(workload_.lengths.Draw(&random_));
  }
}

void RequestSource::DrawChat(Request* request) {
  const int32_t fresh = workload_.prompts.Draw(&random_);
  request->output = workload_.outputs.Draw(&random_);
  request->shared = workload_.shared;
  std::uniform_real_distribution<double> part(0, 1);
  Conversation conversation{0, workload_.shared, 0};
  const bool goes_on =
      conversations_.size() >= kConversationsMin && part(random_) >= 1 / workload_.turns;
  if (goes_on) {
    const auto at = static_cast<size_t>(part(random_) * static_cast<double>(conversations_.size()));
    std::swap(conversations_[at], conversations_.back());
    conversation = conversations_.back();
    conversations_.pop_back();
  }
  const int64_t whole = int64_t{conversation.tokens} + fresh + request->output;
  if (!goes_on || whole >= workload_.context) {
    conversation = {++sessions_, workload_.shared,
                    std::geometric_distribution<int>(1 / workload_.turns)(random_)};
  }
  request->session = conversation.session;
  request->prompt = std::clamp(conversation.tokens + fresh, 1, workload_.context - 2);
  request->shared = std::min(request->shared, request->prompt);
  request->fresh = std::min(fresh, request->prompt);
  request->output = std::clamp(request->output, 1, workload_.context - 1 - request->prompt);
  conversation.tokens = request->prompt + request->output;
  if (conversation.turns_left-- > 0) conversations_.push_back(conversation);
}

// A trace that is over begins again, as long after its end as its requests are apart in the mean.
void RequestSource::NextOfTrace(Request* request) {
  const std::vector<Request>& trace = *workload_.trace;
  const Request& next = trace[next_of_trace_];
  const Request& before = trace[next_of_trace_ == 0 ? trace.size() - 1 : next_of_trace_ - 1];
  const double mean_s =
      (trace.back().at_s - trace.front().at_s) / static_cast<double>(trace.size() - 1);
  at_s_ += trace_scale_ * (next_of_trace_ == 0 ? mean_s : next.at_s - before.at_s);
  *request = next;
  request->at_s = at_s_;
  request->fresh = next.prompt - next.shared;
  // Other conversations than those of the pass before.
  request->session += pass_ << 40;
  if (++next_of_trace_ < trace.size()) return;
  next_of_trace_ = 0;
  ++pass_;
}

}  // namespace penstock::plan
