// The load generator: drives an HTTP server with one or more streams of requests at once and
// measures the answers.
//
// Closed loop: `concurrency` clients, each sending its next request when it has the answer to the
// last. Open loop: requests arrive at `rate` whether or not the server keeps up, and a request's
// time is counted from when it was to be sent, not from when a connection was free for it, so
// that a stalled server cannot hide its stall (no coordinated omission).
//
// RunHttpLoads runs everything on the calling thread with one event loop, so the client's cost is
// that thread's processor time. HTTP/1.1 with keep-alive, plain or TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/http_texts.h"
#include "load/latency.h"

namespace penstock::load {

struct HttpTarget {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string api_key;  // "" = none
  bool tls = false;
  std::string ca_file;    // PEM; "" = that of SSL_CERT_FILE, else the system's
  bool insecure = false;  // the certificate is not checked
};

// "host:443", an IPv6 address in brackets.
std::string AuthorityOf(const HttpTarget& target);
// "https://host:443".
std::string UrlOf(const HttpTarget& target);

enum class LoadRoute { kOpenAiEmbeddings, kTeiEmbed, kRerank, kClassify };

// One stream of requests.
struct HttpLoad {
  static constexpr int kConnectionsMax = 20'000;

  std::string name;
  // Closed loop: clients. Open loop: connections at most; what arrives while all are busy waits.
  int concurrency = 1;
  double rate = 0;  // requests/s, Poisson; 0 = closed loop
  int burst = 1;    // open loop: requests that arrive together, the rate staying the same
  // Open loop instead of `rate` and `burst`: when the next request arrives, in seconds since the
  // begin of the run; infinity: none comes any more. May be empty.
  std::function<double()> next_arrival_s = {};
  int batch = 1;                         // texts of one request
  std::function<int()> next_batch = {};  // ... of the next one, instead; may be empty
  LoadRoute route = LoadRoute::kOpenAiEmbeddings;
  bool base64 = true;         // encoding_format of kOpenAiEmbeddings
  std::string model;          // "" = left out
  std::string priority;       // X-Penstock-Priority; "" = left out
  int64_t timeout_ms = 0;     // X-Request-Timeout-Ms; 0 = left out
  double timeout_share = 1;   // share of the requests that carry it
  double leave_share = 0;     // share of the clients that close the connection before the answer
  double leave_ms_max = 100;  // ... at a random moment after the request was sent
  std::function<std::string()> next_text;
  uint64_t seed = 1;
};

struct LoadWindow {
  double warmup_s = 1;
  double duration_s = 10;
  uint64_t requests_max = 0;  // of all loads together; 0 = by time alone
  double drain_s = 60;        // how long answers are waited for after the end
  pid_t server_pid = 0;       // whose processor time is read; 0 = none
  // Asked a few times a second, on the thread that runs the load; true ends the run at once. May
  // be empty.
  std::function<bool()> give_up;
};

// The result of one load. "Measured": requests that were to be sent in the window; rates count the
// answers that came in the window.
struct LoadResult {
  std::string name;
  double seconds = 0;  // of the window
  uint64_t ok = 0;     // answers with status 2xx in the window, and their texts and tokens
  uint64_t texts = 0;
  uint64_t tokens = 0;
  LatencyHistogram latency;        // measured requests answered with 2xx
  std::map<int, uint64_t> errors;  // measured requests by other status; kLost, kNoAnswer

  // Counts of the whole run, warm-up and drain included.
  uint64_t sent = 0;                  // requests written completely
  std::map<int, uint64_t> by_status;  // answers
  uint64_t left = 0;                  // clients that went before their answer came
  uint64_t lost = 0;                  // connections that failed or were closed without an answer
  uint64_t no_answer = 0;             // still waiting at the end of the drain
  uint64_t lost_after_sent = 0;       // of `lost` and `no_answer`: the request was written whole
  uint64_t connections = 0;           // clients that were needed at once
  uint64_t not_sent = 0;              // arrived when kBacklogMax waited for a connection
  uint64_t no_retry_after = 0;        // answers 429 without Retry-After
  uint64_t expired_without_deadline = 0;  // answers 503 to requests without X-Request-Timeout-Ms
  double deadline_over_ms_max = 0;        // latest answer after its X-Request-Timeout-Ms

  static constexpr int kLost = -1;
  static constexpr int kNoAnswer = -2;
  static constexpr size_t kBacklogMax = 100'000;
};

struct HttpRunResult {
  std::vector<LoadResult> loads;  // in the order given
  double seconds = 0;             // of the window
  double client_cpu_s = 0;        // this thread's, in the window
  double server_cpu_s = 0;        // the server process's, in the window
};

// kUnavailable: the server cannot be reached, or its certificate is refused. kInvalidArgument: a
// load makes no sense.
Expected<HttpRunResult> RunHttpLoads(const HttpTarget& target, const std::vector<HttpLoad>& loads,
                                     const LoadWindow& window);

// GET of a server without TLS, blocking, on a connection of its own. kUnavailable: no answer, or
// not 200.
Expected<std::string> HttpGet(const HttpTarget& target, const std::string& path);

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// The same of a POST of JSON, with any status.
Expected<HttpAnswer> HttpPostJson(const HttpTarget& target, const std::string& path,
                                  const std::string& body);

}  // namespace penstock::load
