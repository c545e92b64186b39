// The load generator of text: streams of /v1/chat/completions or /v1/completions from many clients,
// and when their tokens come.
//
// Closed loop and open loop as in http_load.h. A token is an event with text; where a server sends
// several tokens in one event, the usage at the end tells how many there were. Some clients may
// leave in the middle, or read slowly. One event loop on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/status.h"
#include "load/chat_request.h"
#include "load/http_load.h"
#include "load/latency.h"

namespace penstock::load {

// Limits that a request has to meet; 0 = none.
struct Goodput {
  double first_token_ms = 0;
  double token_ms = 0;  // mean time between the tokens of a request
  double whole_ms = 0;

  // "ttft:500,itl:50", also tpot (as itl) and e2el, in ms.
  static Expected<Goodput> Parse(const std::string& text);
  bool any() const { return first_token_ms > 0 || token_ms > 0 || whole_ms > 0; }
};

struct ChatLoad {
  std::string name;
  // Closed loop: clients. Open loop: connections at most; requests that come while all are busy
  // wait.
  int concurrency = 1;
  double rate = 0;                              // requests/s, Poisson; 0 = closed loop
  std::function<double()> next_arrival_s = {};  // as HttpLoad has it
  ChatRequestOptions request;
  PromptScale scale;
  double timeout_share =
      1;  // share of the requests that carry request.timeout_ms; slow readers have none
  double leave_share = 0;     // share of the clients that close the connection before the end:
  double leave_ms_max = 100;  // half of them at a random moment, half after a random token
  double slow_share = 0;      // share of the clients that read slowly, from a small window,
  double slow_bytes_per_s = 16'384;  // and ask for the probabilities of many tokens
  Goodput goodput;
  uint64_t seed = 1;
};

// "Measured", "in the window": as LoadResult.
struct ChatResult {
  double seconds = 0;               // of the window
  uint64_t whole = 0;               // answers that came whole in the window
  uint64_t outside = 0;             // answers that came whole before it or after it
  uint64_t good = 0;                // ... and met the limits
  uint64_t tokens = 0;              // that came in the window
  uint64_t prompt_tokens = 0;       // of the answers that came whole, as the server counts
  uint64_t cached_tokens = 0;       // ... of which it had cached
  LatencyHistogram first_token;     // of measured requests, from when they were to be sent
  LatencyHistogram between_tokens;  // that ended in the window; slow readers left out
  LatencyHistogram per_token;       // of measured requests: from the first token to the end of the
                                    // text, over the tokens but one
  LatencyHistogram whole_answer;    // of measured requests
  std::map<int, uint64_t> errors;   // measured requests by status; kLost ... kErrorEvent

  // Counts of the whole run, warm-up and drain included.
  uint64_t sent = 0;                  // requests written completely
  std::map<int, uint64_t> by_status;  // answers, whole or not, of clients that did not leave
  uint64_t left = 0;                  // clients that went before the end of their answer
  uint64_t lost = 0;                  // connections without the head of an answer
  uint64_t cut = 0;                   // answers of 200 that ended before [DONE]
  uint64_t error_events = 0;          // answers of 200 that ended with an error
  uint64_t slow_whole = 0;            // whole answers to slow readers
  uint64_t no_answer = 0;             // not whole at the end of the drain
  uint64_t not_sent = 0;              // arrived when too many waited for a connection
  uint64_t no_retry_after = 0;        // answers 429 without Retry-After
  // Answers 503, or error events, to requests without a deadline.
  uint64_t expired_without_deadline = 0;
  // Latest end of an answer after its deadline.
  double deadline_over_ms_max = 0;
  double client_cpu_s = 0;  // this thread's, in the window
  double server_cpu_s = 0;  // the server process's, in the window

  static constexpr int kLost = -1;
  static constexpr int kNoAnswer = -2;
  static constexpr int kCut = -3;
  static constexpr int kErrorEvent = -4;

  uint64_t ErrorCount() const;
  // "429: 12, cut: 3", or "-".
  std::string ErrorsText() const;
};

// kUnavailable: the server cannot be reached. kInvalidArgument: the load makes no sense.
Expected<ChatResult> RunChatLoad(const HttpTarget& target, const ChatLoad& load,
                                 const LoadWindow& window);

}  // namespace penstock::load
