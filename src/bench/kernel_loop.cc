#include "bench/kernel_loop.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "devices/backends.h"
#include "families/model_folder.h"
#include "load/clock_units.h"
#include "load/process_stat.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Expected<std::unique_ptr<KernelLoop>> KernelLoop::Load(const std::string& path, const Place& place,
                                                       const std::vector<std::string>& texts,
                                                       size_t batch_tokens, size_t batch_texts) {
  std::unique_ptr<KernelLoop> loop(new KernelLoop());
  PENSTOCK_ASSIGN_OR_RETURN(
      loop->backend_, devices::NewBackend({.device = place.device, .threads = place.threads}));
  loop->backend_name_ = loop->backend_->name();
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelFolder folder, families::ModelFolder::Read(path));
  if (folder.decoder) {
    return Status::Unsupported(
        "the kernels measured here are those of encoders; this model is a "
        "decoder",
        "model");
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      loop->model_,
      models::EncoderModel::Load(folder, loop->backend_.get(), loop->backend_->preferred_dtype()));
  loop->session_ = std::make_unique<models::EncoderSession>(loop->model_.get());
  if (folder.task != families::ModelTask::kEmbedding)
    loop->output_ = program::EncoderOutput::kLogits;
  PENSTOCK_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::FromFile(folder.tokenizer_path));

  text::EncodeOptions options;
  options.max_tokens = static_cast<size_t>(loop->model_->max_tokens());
  text::Encoding encoding;
  loop->offsets_ = {0};
  Batch batch{0, 0, {0}};
  for (const std::string& text : texts) {
    PENSTOCK_RETURN_IF_ERROR(tokenizer->Encode(text, options, &encoding));
    const size_t tokens = encoding.ids.size();
    const size_t in_batch = batch.end - batch.begin;
    if (in_batch > 0 && (static_cast<size_t>(batch.offsets.back()) + tokens > batch_tokens ||
                         in_batch == batch_texts)) {
      loop->batches_.push_back(std::move(batch));
      const size_t begin = loop->offsets_.size() - 1;
      batch = {begin, begin, {0}};
    }
    loop->ids_.insert(loop->ids_.end(), encoding.ids.begin(), encoding.ids.end());
    loop->offsets_.push_back(static_cast<int32_t>(loop->ids_.size()));
    batch.offsets.push_back(batch.offsets.back() + static_cast<int32_t>(tokens));
    ++batch.end;
  }
  if (batch.end > batch.begin) loop->batches_.push_back(std::move(batch));
  if (loop->batches_.empty()) return Status::InvalidArgument("the kernel loop needs texts");
  size_t rows = 0;
  for (const Batch& one : loop->batches_) rows = std::max(rows, one.end - one.begin);
  loop->out_.resize(rows * static_cast<size_t>(loop->model_->OutputWidth(loop->output_)));
  return loop;
}

double KernelLoop::mean_tokens() const {
  return static_cast<double>(ids_.size()) / static_cast<double>(offsets_.size() - 1);
}

Status KernelLoop::RunBatch(size_t index) {
  const Batch& batch = batches_[index];
  program::PackedBatch packed;
  packed.ids = std::span(ids_).subspan(static_cast<size_t>(offsets_[batch.begin]),
                                       static_cast<size_t>(batch.offsets.back()));
  packed.offsets = batch.offsets;
  const size_t width = static_cast<size_t>(model_->OutputWidth(output_));
  return session_->Run(packed, output_, std::span(out_).first((batch.end - batch.begin) * width));
}

template <typename More>
Expected<KernelLoop::Result> KernelLoop::RunWhile(More more) {
  Result result;
  const double cpu = load::ProcessCpuSeconds(getpid());
  const auto begin = Clock::now();
  while (more(result)) {
    const Batch& batch = batches_[next_batch_];
    PENSTOCK_RETURN_IF_ERROR(RunBatch(next_batch_));
    next_batch_ = (next_batch_ + 1) % batches_.size();
    result.texts += batch.end - batch.begin;
    result.tokens += static_cast<uint64_t>(batch.offsets.back());
    result.seconds = load::SecondsSince(begin);
  }
  result.cpu_s = load::ProcessCpuSeconds(getpid()) - cpu;
  return result;
}

Expected<KernelLoop::Result> KernelLoop::RunFor(double seconds) {
  return RunWhile([seconds](const Result& so_far) { return so_far.seconds < seconds; });
}

Expected<KernelLoop::Result> KernelLoop::RunOnce() {
  const size_t texts = offsets_.size() - 1;
  return RunWhile([texts](const Result& so_far) { return so_far.texts < texts; });
}

Expected<load::LatencyHistogram> KernelLoop::TimeFullestBatch(double seconds) {
  const auto fullest = std::max_element(
      batches_.begin(), batches_.end(),
      [](const Batch& a, const Batch& b) { return a.offsets.back() < b.offsets.back(); });
  const auto index = static_cast<size_t>(fullest - batches_.begin());
  load::LatencyHistogram times;
  for (const auto begin = Clock::now(); load::SecondsSince(begin) < seconds;) {
    const auto start = Clock::now();
    PENSTOCK_RETURN_IF_ERROR(RunBatch(index));
    times.Add(1000 * load::SecondsSince(start));
  }
  return times;
}

}  // namespace penstock::bench
