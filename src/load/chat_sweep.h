// penstock bench http --chat: streams of text at several settings, a row of the table each.
#pragma once

#include <vector>

#include "load/chat_load.h"
#include "load/records.h"

namespace penstock::load {

struct ChatSweepOptions {
  HttpTarget target;
  ChatLoad load;  // what all rows have in common; its scale is measured
  // A row for each concurrency, or for each rate if there are rates.
  std::vector<int> concurrencies = {8};
  std::vector<double> rates;
  LoadWindow window;
  bool allow_errors = false;
};

// Prints the table on stdout and adds chat.http.<what>, row "concurrency=8" or "rate=2":
//   requests_per_s, tokens_per_s, prompt_tokens_per_s, cached_percent (of prompt tokens), errors
//   goodput_per_s     requests a second within the limits; only where there are limits
//   ttft_p50_ms, ttft_p95_ms, ttft_p99_ms    to the first token, from when the request was due
//   itl_p50_ms, itl_p95_ms, itl_p99_ms       between two tokens
//   e2el_p50_ms, e2el_p99_ms                 to the end of the answer
//   client_processors, server_processors (where the process is known)
// kUnavailable, after the table is printed: a row had no whole answer, or, without allow_errors, a
// request had another outcome.
Status RunChatSweep(const ChatSweepOptions& options, BenchRecords* records);

}  // namespace penstock::load
