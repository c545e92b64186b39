// The way from texts to model outputs that every behaviour shares: tokenize on the worker pool, in
// chunks; join the chunks into one job; hand it to the model's scheduler.
//
//   Start --> [chunk][chunk][chunk] on the pool, taking turns with other requests
//         --> last one to finish: EncodeJob --> scheduler --> done
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/request_context.h"
#include "common/status.h"
#include "common/worker_pool.h"
#include "encode/encode_types.h"
#include "encode/result_cache.h"
#include "encode/token_cache.h"
#include "engine/engine.h"
#include "engine/engine_lease.h"
#include "metrics/metrics.h"

namespace penstock {

// One sequence to make: a text, a pair, or ids as they are. Views into EncodePlan::owner.
struct EncodeItem {
  std::string_view first;
  std::optional<std::string_view> second;
  std::span<const int32_t> ids;
  bool is_ids = false;
  std::string field;  // of the request, for messages: "inputs[3]"
};

struct EncodePlan {
  EngineLease engine;
  std::vector<EncodeItem> items;
  std::shared_ptr<const void> owner;  // keeps what the items view
  std::string prompt;                 // put before `first`; not before ids
  bool truncate = true;
  TruncationSide side = TruncationSide::kRight;
  bool add_special_tokens = true;
  EncoderOutput output = EncoderOutput::kPooled;
  // What the response takes for each value of the output, besides the value: printed, and in
  // values made of it.
  int64_t printed_value_bytes = 0;
  int64_t response_value_bytes = 0;
  size_t request_items = 0;  // of the request that this is a part of; 0: it is all of it
  RequestContext context;
};

struct EncodeOutcome {
  const Engine* engine = nullptr;  // leased while `done` runs
  std::vector<float> values;       // [rows, width], as EncodeJob
  int32_t width = 0;
  std::vector<int32_t> lengths;  // tokens of each item
  Usage usage;
  Truncation truncation;
};

using EncodeDone = std::function<void(Expected<EncodeOutcome>)>;

// The text as the tokenizer gets it: prompt before it, lower case where the model wants that.
std::string PreparedText(const Engine& engine, std::string_view prompt, std::string_view text);

// What a plan passes through. All outlive it.
struct EncodeStages {
  WorkerPool* pool = nullptr;
  TokenCache* tokens = nullptr;
  ResultCache* results = nullptr;
  // Gets the time from the call until all is tokenized.
  Histogram* tokenize_duration = nullptr;
  RunStages run = RunStages::kAll;
  int64_t response_bytes_max = INT64_MAX;  // printed
};

// A float as JSON prints it, with its comma: "-1.17549435e-38,".
inline constexpr int64_t kPrintedFloatBytes = 16;

// A response of about `bytes`, printed: kPayloadTooLarge over --max-response-bytes.
Status CheckResponseBytes(int64_t bytes, int64_t limit);

// Memory is taken from plan.context.memory before it is allocated: for ids as they are made, for
// results and the printed response before the model is asked.
//
// Calls `done` exactly once: on this thread when the plan is refused at once, else on a worker or
// on the model's executor. Errors: what is wrong with an item (the first of them in order), the
// refusals of pool and scheduler, of memory, cancellation.
void StartEncode(EncodePlan plan, const EncodeStages& stages, EncodeDone done);

}  // namespace penstock
