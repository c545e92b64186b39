#include "lab/model_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>

#include "bench/arithmetic_peak.h"
#include "cpu/dispatch.h"
#include "devices/backends.h"
#include "families/model_folder.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "models/encoder.h"
#include "os/processors.h"
#include "program/program_cost.h"
#include "threads/thread_pool.h"

namespace penstock::lab {
namespace {

// The model in one type, and the batch it runs.
class SharedModel {
 public:
  static Expected<std::unique_ptr<SharedModel>> Load(const families::ModelFolder& folder,
                                                     program::Backend* backend,
                                                     numbers::DType dtype,
                                                     const ModelShareOptions& options) {
    auto model = std::make_unique<SharedModel>();
    PENSTOCK_ASSIGN_OR_RETURN(model->encoder_, models::EncoderModel::Load(folder, backend, dtype));
    model->session_ = std::make_unique<models::EncoderSession>(model->encoder_.get());
    PENSTOCK_RETURN_IF_ERROR(model->session_->status());
    model->output_ = folder.task == families::ModelTask::kEmbedding
                         ? program::EncoderOutput::kPooled
                         : program::EncoderOutput::kLogits;
    std::mt19937 random(1);
    std::uniform_int_distribution<int32_t> ids(0, std::max(0, folder.encoder.vocab_size - 1));
    model->ids_.resize(static_cast<size_t>(options.sequences) *
                       static_cast<size_t>(options.length));
    for (int32_t& id : model->ids_) id = ids(random);
    for (int s = 0; s <= options.sequences; ++s) model->offsets_.push_back(s * options.length);
    model->out_.resize(static_cast<size_t>(options.sequences) *
                       static_cast<size_t>(model->encoder_->OutputWidth(model->output_)));
    return model;
  }

  double Operations(int sequences, int length) const {
    return program::CostOf(*encoder_->program(output_), {sequences, length}).operations;
  }

  Status Run() {
    program::PackedBatch batch;
    batch.ids = ids_;
    batch.offsets = offsets_;
    return session_->Run(batch, output_, out_);
  }

 private:
  std::unique_ptr<models::EncoderModel> encoder_;
  std::unique_ptr<models::EncoderSession> session_;
  program::EncoderOutput output_ = program::EncoderOutput::kPooled;
  std::vector<int32_t> ids_, offsets_;
  std::vector<float> out_;
};

}  // namespace

Status MeasureModelShare(const ModelShareOptions& options, load::BenchRecords* records) {
  const size_t threads =
      options.threads > 0 ? static_cast<size_t>(options.threads) : UsableProcessors();
  PENSTOCK_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::DefaultKernels());
  PENSTOCK_ASSIGN_OR_RETURN(auto backend,
                            devices::NewBackend({.threads = static_cast<int>(threads)}));
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelFolder folder,
                            families::ModelFolder::Read(options.folder));
  ThreadPool pool(threads);

  struct Result {
    std::unique_ptr<SharedModel> model;
    double seconds = 1e30;
    double peak = 0;
  };
  std::vector<Result> results(options.dtypes.size());
  for (size_t i = 0; i < results.size(); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(results[i].model,
                              SharedModel::Load(folder, backend.get(), options.dtypes[i], options));
    PENSTOCK_RETURN_IF_ERROR(results[i].model->Run());
  }
  StepProgress progress({.steps = options.rounds, .in_log = false});
  for (int round = 0; round < options.rounds; ++round) {
    progress.Next("round");
    for (size_t i = 0; i < results.size(); ++i) {
      Result& result = results[i];
      result.peak =
          std::max(result.peak, bench::ArithmeticPeak(*kernels, options.dtypes[i], &pool));
      const auto start = std::chrono::steady_clock::now();
      PENSTOCK_RETURN_IF_ERROR(result.model->Run());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      result.seconds = std::min(result.seconds, took.count());
    }
  }

  progress.Clear();
  const double tokens = static_cast<double>(options.sequences) * options.length;
  const double operations =
      results.empty() ? 0 : results[0].model->Operations(options.sequences, options.length);
  std::printf("%s, %d x %d tokens\n\n", backend->name().c_str(), options.sequences, options.length);
  load::BenchTable table({"model", "type", "tokens/s", "GOP/s", "peak GOP/s", "% of limit"});
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    const double percent = 100 * operations / result.seconds / result.peak;
    const char* type = numbers::DTypeFlag(options.dtypes[i]);
    table.AddRow({options.name, type, load::ShortNumber(tokens / result.seconds),
                  load::ShortNumber(operations / result.seconds * 1e-9),
                  load::ShortNumber(result.peak * 1e-9), fmt::format("{:.1f}", percent)});
    records->Add(fmt::format("model.{}.{}_{}x{}.percent_of_limit", type, options.name,
                             options.sequences, options.length),
                 percent, "%");
  }
  table.Print();
  return Status::Ok();
}

}  // namespace penstock::lab
