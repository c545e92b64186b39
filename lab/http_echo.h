// A client that keeps one and the same HTTP request under way on many connections and does as
// little as can be with the answers, so that it is the server that is measured.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace penstock::lab {

struct HttpEchoOptions {
  uint16_t port = 0;     // of 127.0.0.1
  std::string request;   // as sent, head and body
  int connections = 64;  // each has one request under way
  double seconds = 1;
};

struct HttpEchoResult {
  double requests_per_s = 0;
  double p50_us = 0;
  std::string last_answer;
};

// One thread. kUnavailable: no connection, or an answer that is not 200, with its first bytes.
Expected<HttpEchoResult> RunHttpEcho(const HttpEchoOptions& options);

}  // namespace penstock::lab
