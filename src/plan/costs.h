// What requests cost a replica: measured once on a machine (measure.h), kept in a file, and used on
// any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "generate/step_cost.h"
#include "sched/batch_limits.h"

namespace penstock::plan {

// A model that embeds, reranks or classifies. Seconds; tokens include those that the tokenizer adds.
struct EncoderCosts {
  sched::BatchTimes batch;  // of a batch, alone on the machine
  double gap_s = 0;         // between two batches, while others wait
  double cold_s = 0;        // added to a batch after an idle time: caches and threads are cold
  double cold_token_s = 0;  // ... and for each of its tokens
  double noise = 0;         // of the times of a batch: sigma of their logarithm
  double request_s = 0;     // what a request that arrives during a batch adds to it
  // What a request takes beside its batch: HTTP, JSON, tokenization; where it finds the model idle, and where
  // it finds it at work. And for each of its tokens.
  double outside_s = 0;
  double outside_busy_s = 0;
  double outside_token_s = 0;
  double added_tokens = 0;  // by the tokenizer to those of a text
  double word_tokens = 1;   // of a common word, as load/http_texts.h has them
  int32_t batch_tokens = 1024;
  int32_t length_max = 512;
};

// A model that generates text.
struct DecoderCosts {
  // As the scheduler knows it: of rows. The server's own is measured with few rows of which logits
  // are wanted, and so is this one.
  generate::StepCost step;
  double pick_s = 0;     // added by each row of which logits are wanted: one of every text
  double outside_s = 0;  // of a request beside its steps, up to its first token
  int32_t context = 0;
  int32_t sequences = 64;    // that may be in a step at once
  int32_t cache_blocks = 0;  // of kKvBlockTokens tokens
  // At the beginning of every prompt, and cached: the words of the chat template.
  int32_t template_tokens = 0;
};

// A machine on which batches take `factor` times as long.
EncoderCosts Slower(const EncoderCosts& costs, double factor);
DecoderCosts Slower(const DecoderCosts& costs, double factor);

struct Costs {
  std::string model, machine, version;
  std::optional<EncoderCosts> encoder;  // one of the two
  std::optional<DecoderCosts> decoder;

  std::string ToJson() const;
  // kInvalidArgument names the field.
  static Expected<Costs> FromJson(const std::string& text);
  static Expected<Costs> ReadFile(const std::string& path);
};

}  // namespace penstock::plan
