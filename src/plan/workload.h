// The requests of a plan: drawn at random or read from a trace. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/http_texts.h"
#include "threads/request_context.h"

namespace penstock::plan {

// One request. Lengths are of what a client sends: tokens that the server adds are not in them.
struct Request {
  double at_s = 0;
  Priority priority = Priority::kInteractive;
  std::vector<int32_t> lengths;  // of each text; empty: a request for text
  // A request for text.
  uint64_t session = 0;  // equal ones are of one conversation
  int32_t prompt = 0;    // tokens, with the conversation so far
  int32_t shared = 0;    // of these, at the begin, equal in all conversations
  int32_t fresh = 0;     // ... new to the conversation
  int32_t output = 0;    // tokens
};

struct Workload {
  double rate = 1;  // requests/s, in the mean; times of a trace are stretched to it
  int burst = 1;    // requests that arrive together, Poisson in between
  load::LengthSpec lengths;
  int texts = 1;          // of a request
  double bulk_share = 0;  // of the requests
  // Requests for text.
  bool chat = false;
  load::LengthSpec prompts;  // of what is new in a turn
  load::LengthSpec outputs;
  int32_t shared = 0;         // tokens of a system message that all conversations begin with
  double turns = 1;           // of a conversation, in the mean
  int32_t context = 1 << 20;  // longest prompt and output; a longer conversation begins anew

  std::shared_ptr<const std::vector<Request>> trace;  // instead of all of these
};

// Lines of {"at": SECONDS, "tokens": N or [N, ...], "priority": "bulk"}, or of
// {"at": SECONDS, "prompt": N, "output": N, "session": TEXT, "shared": N}, by time. Errors name the
// line.
Expected<std::shared_ptr<const std::vector<Request>>> ReadTrace(const std::string& path);
// Its requests a second.
double RateOf(const std::vector<Request>& trace);

// One request after another, by time, without end; a trace begins again. Equal seeds give equal
// requests.
class RequestSource {
 public:
  // `workload` must outlive it.
  RequestSource(const Workload& workload, uint64_t seed);
  void Next(Request* request);

 private:
  struct Conversation {
    uint64_t session = 0;
    int32_t tokens = 0;  // so far
    int turns_left = 0;
  };
  void NextOfTrace(Request* request);
  void DrawChat(Request* request);

  const Workload& workload_;
  std::mt19937_64 random_;
  double at_s_ = 0;
  int together_ = 0;  // still to come at this time
  uint64_t sessions_ = 0;
  std::vector<Conversation> conversations_;  // that go on
  size_t next_of_trace_ = 0;
  uint64_t pass_ = 0;  // through the trace
  double trace_scale_ = 1;
};

}  // namespace penstock::plan
