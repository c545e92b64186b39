// KernelLoop: a model run over the same texts again and again with nothing around it: no queue, no
// tokenizer, no network. The best that a server could reach on the same threads. One thread drives
// it; the backend's threads work inside, and sleep between calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/latency.h"
#include "models/encoder.h"
#include "text/tokenizer.h"

namespace penstock::bench {

class KernelLoop {
 public:
  struct Result {
    double seconds = 0;
    double cpu_s = 0;  // of this process
    uint64_t texts = 0;
    uint64_t tokens = 0;
  };

  struct Place {
    std::string device;  // as devices::ParseDevice
    int threads = 0;     // 0 = one a processor
  };
  // `folder`: of the model. Batches hold whole texts, at most batch_tokens tokens and batch_texts
  // texts.
  static Expected<std::unique_ptr<KernelLoop>> Load(const std::string& folder, const Place& place,
                                                    const std::vector<std::string>& texts,
                                                    size_t batch_tokens, size_t batch_texts);

  // Whole batches until `seconds` have passed.
  Expected<Result> RunFor(double seconds);
  // Every text once.
  Expected<Result> RunOnce();
  // Times single runs of the fullest batch there is, for about `seconds`.
  Expected<load::LatencyHistogram> TimeFullestBatch(double seconds);
  double mean_tokens() const;
  const std::string& backend_name() const { return backend_name_; }

 private:
  KernelLoop() = default;
  Status RunBatch(size_t batch);
  // Batches from where the last ones ended, as long as `more` of the result so far is true.
  template <typename More>
  Expected<Result> RunWhile(More more);

  std::unique_ptr<program::Backend> backend_;
  std::string backend_name_;
  std::unique_ptr<models::EncoderModel> model_;
  std::unique_ptr<models::EncoderSession> session_;
  program::EncoderOutput output_ = program::EncoderOutput::kPooled;

  std::vector<int32_t> ids_;      // of all texts, end to end
  std::vector<int32_t> offsets_;  // [texts + 1]
  struct Batch {
    size_t begin = 0;  // texts
    size_t end = 0;
    std::vector<int32_t> offsets;  // [texts + 1], from 0
  };
  std::vector<Batch> batches_;
  size_t next_batch_ = 0;
  std::vector<float> out_;
};

}  // namespace penstock::bench
