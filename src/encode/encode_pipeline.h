// The path from texts to model outputs, for every behaviour: tokenize on the worker pool, in
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

#include "base/status.h"
#include "encode/encode_types.h"
#include "encode/result_cache.h"
#include "encode/token_cache.h"
#include "engine/encoder_engine.h"
#include "metrics/metrics.h"
#include "registry/lease.h"
#include "threads/request_context.h"
#include "threads/worker_pool.h"

namespace penstock::encode {

// One sequence to make: a text, a pair, or ids as they are. Views into EncodePlan::owner.
struct EncodeItem {
  std::string_view first;
  std::optional<std::string_view> second;
  std::span<const int32_t> ids;
  bool is_ids = false;
  std::string field;  // of the request, for messages: "inputs[3]"
};

struct EncodePlan {
  registry::Lease<engine::EncoderEngine> engine;
  std::vector<EncodeItem> items;
  std::shared_ptr<const void> owner;  // keeps the viewed texts and ids
  std::string prompt;                 // put before `first`; not before ids
  bool truncate = true;
  text::TruncationSide side = text::TruncationSide::kRight;
  bool add_special_tokens = true;
  program::EncoderOutput output = program::EncoderOutput::kPooled;
  // Bytes of the response for each output value, besides the value: printed, and of values derived
  // from it.
  int64_t printed_value_bytes = 0;
  int64_t response_value_bytes = 0;
  size_t request_items = 0;  // of the whole request; 0: this plan is all of it
  RequestContext context;
};

struct EncodeOutcome {
  const engine::EncoderEngine* engine = nullptr;  // leased while `done` runs
  std::vector<float> values;                      // [rows, width], as EncodeJob
  int32_t width = 0;
  std::vector<int32_t> lengths;  // tokens of each item
  Usage usage;
  Truncation truncation;
};

using EncodeDone = std::function<void(Expected<EncodeOutcome>)>;

// The text as the tokenizer gets it: prompt before it, lower case where the model wants that.
std::string PreparedText(const engine::EncoderEngine& engine, std::string_view prompt,
                         std::string_view text);

// The stages of a plan. All outlive it.
struct EncodeStages {
  WorkerPool* pool = nullptr;
  TokenCache* tokens = nullptr;
  ResultCache* results = nullptr;
  // Observes the time from the call until all items are tokenized.
  metrics::Histogram* tokenize_duration = nullptr;
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
// on the model's executor. Errors: a bad item (the first in order), refusal by pool, scheduler or
// memory budget, cancellation.
void StartEncode(EncodePlan plan, const EncodeStages& stages, EncodeDone done);

}  // namespace penstock::encode
