// What serving costs a stream of text: one stream over HTTP beside the same model in this process,
// and one stream beside bulk embeddings of the same server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"
#include "numbers/dtype.h"

namespace penstock::lab {

struct ChatHttpOptions {
  std::string model;    // a folder or .gguf file
  std::string encoder;  // a model of embeddings for the second part; "" = left out
  std::string name;     // row of the records; "" = none
  std::optional<numbers::DType> dtype;
  numbers::DType cache_type = numbers::DType::kBf16;
  int threads = 0;           // 0: one a processor
  bool completions = false;  // /v1/completions, for models without a chat template
  int tokens = 128;          // of a text in the first part
  int rounds = 5;            // the best of each rate counts; the times between tokens of all
  double round_s = 4;        // of each measurement of the second part
  int bulk_clients = 4;
  int bulk_batch = 16;
  std::string priority = "interactive";  // of the embeddings: in turns of equal time, or "bulk"
  std::vector<std::string> server_flags;
};

// In rounds, in turns. Prints tables; adds
//   chat.http.tokens_per_s, chat.generate.tokens_per_s   one text over HTTP, and in this process
//   chat.http_ratio_vs_bench                             the one over the other
// and with an encoder
//   chat.step_ms                      between two tokens of a stream that is alone, the median
//   chat.intertoken_p99_beside_bulk_ms
//   chat.intertoken_p99_over_bound    that over 2 steps + 25 ms
//   chat.encoder_percent_beside_stream   texts a second of bulk embeddings beside the stream, of
//                                        those alone
// kUnavailable: a request was not answered as it should be.
Status MeasureChatHttp(const ChatHttpOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
