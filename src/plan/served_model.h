// What a server says of one of its models: by its routes and its metrics. Blocking calls; one thread.
#pragma once

#include <string>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::plan {

struct ServedModel {
  // The model of that name, or the only one where `name` is empty. kUnavailable: no answer;
  // kNotFound: no such model; kUnsupported: one that takes tensors.
  static Expected<ServedModel> Find(const load::HttpTarget& target, const std::string& name);

  std::string name, task;
  int32_t length_max = 0;    // tokens of an input
  int32_t batch_tokens = 0;  // of encoders
  int32_t context = 0;       // of models that generate text
  int32_t sequences = 0;     // ... in a step at once
  int32_t cache_blocks = 0;
  bool chat = false;  // ... with a chat template

  bool generates() const { return context > 0; }
  load::LoadRoute route() const;
};

// Totals of a model's batches since the server's start.
struct BatchTotals {
  static Expected<BatchTotals> Read(const load::HttpTarget& target, const std::string& model);
  BatchTotals operator-(const BatchTotals& before) const {
    return {batches - before.batches, rows - before.rows, tokens - before.tokens,
            seconds - before.seconds, inside_s - before.inside_s};
  }

  double batches = 0, rows = 0, tokens = 0, seconds = 0;
  double inside_s = 0;  // requests of all models: waiting for a batch, and in it
};

// Totals of a decoder's steps since the server's start.
struct StepTotals {
  static Expected<StepTotals> Read(const load::HttpTarget& target, const std::string& model);
  StepTotals operator-(const StepTotals& before) const {
    return {steps - before.steps, rows - before.rows, seconds - before.seconds};
  }

  double steps = 0, rows = 0, seconds = 0;
};

}  // namespace penstock::plan
