#include "lab/tensor_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "api/infer.h"
#include "api/service.h"
#include "log/exception_status.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

// A request that is sent again as soon as it was answered.
class EchoCall final : public api::InferCall {
 public:
  EchoCall(const std::string& model_in, int row_count, int width)
      : x_(static_cast<size_t>(row_count) * static_cast<size_t>(width)) {
    model = model_in;
    inputs.push_back({.name = "INPUT0",
                      .type = signature::ElementType::kFp32,
                      .shape = {row_count, width},
                      .bytes = std::as_bytes(std::span(x_))});
    outputs.push_back({.name = "OUTPUT0"});
  }

  bool busy() const { return busy_.load(std::memory_order_acquire); }
  const Status& failure() const { return failure_; }
  uint64_t wrong() const { return wrong_; }

  void Send(api::Service* service, float value) {
    x_.front() = x_.back() = value;
    busy_.store(true, std::memory_order_relaxed);
    service->Infer(this);
  }

  void Done(const Status& status) override {
    if (status.ok()) {
      const std::span<const std::byte> y = outputs[0].bytes;
      float ends[2] = {};
      if (y.size() == x_.size() * sizeof(float)) {
        std::memcpy(&ends[0], y.data(), sizeof(float));
        std::memcpy(&ends[1], y.data() + y.size() - sizeof(float), sizeof(float));
      }
      wrong_ += ends[0] != x_.front() || ends[1] != x_.back();
    } else if (status.code() != StatusCode::kResourceExhausted) {
      failure_ = status;
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  std::vector<float> x_;
  std::atomic<bool> busy_{false};
  Status failure_;
  uint64_t wrong_ = 0;
};

// Requests a second that were answered; or why one was not.
Expected<double> RateOf(api::Service* service, const TensorSpeedOptions& options, int rows) {
  std::atomic<bool> stop{false};
  std::vector<uint64_t> sent(static_cast<size_t>(options.callers));
  std::vector<Status> failures(sent.size());
  const auto call = [&](size_t caller) {
    std::vector<std::unique_ptr<EchoCall>> calls;
    for (int i = 0; i < options.window; ++i) {
      calls.push_back(std::make_unique<EchoCall>(options.model, rows, options.width));
    }
    uint64_t count = 0;
    for (size_t at = 0; !stop.load(std::memory_order_relaxed);
         at = at + 1 == calls.size() ? 0 : at + 1) {
      while (calls[at]->busy() && !stop.load(std::memory_order_relaxed)) std::this_thread::yield();
      if (calls[at]->busy()) break;
      calls[at]->Send(service, static_cast<float>(count % 1'000'000));
      ++count;
    }
    for (const auto& one : calls) {
      while (one->busy()) std::this_thread::yield();
      if (!one->failure().ok()) failures[caller] = one->failure();
      if (one->wrong() > 0) failures[caller] = Status::Internal("results of other requests");
    }
    sent[caller] = count;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sent.size(); ++i) {
    threads.emplace_back([&, i] {
      if (!RunGuarded("lab tensors", [&] { call(i); })) {
        failures[i] = Status::Internal("a caller ended early");
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  uint64_t count = 0;
  for (size_t i = 0; i < sent.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(failures[i]);
    count += sent[i];
  }
  return static_cast<double>(count) / took.count();
}

}  // namespace

Status MeasureTensorSpeed(api::Service* service, const TensorSpeedOptions& options,
                          load::BenchRecords* records) {
  fmt::print("In process, {} callers, {} requests of each under way, rows of {} FP32\n",
             options.callers, options.window, options.width);
  StepProgress progress({.steps = 2 * options.rounds, .in_log = false});
  for (const int rows : {1, 16}) {
    double best = 0;
    for (int round = 0; round < options.rounds; ++round) {
      progress.Next(fmt::format("{} rows a request", rows));
      PENSTOCK_ASSIGN_OR_RETURN(const double rate, RateOf(service, options, rows));
      best = std::max(best, rate);
    }
    progress.Clear();
    fmt::print("  {:2} rows a request: {:6.2f} M requests/s, {:6.2f} M rows/s\n", rows, best / 1e6,
               best * rows / 1e6);
    if (rows == 1) {
      records->Add("tensor.in_process_requests_per_s", best, "1/s");
    } else {
      records->Add("tensor.in_process_rows_per_s", best * rows, "1/s");
    }
  }
  return Status::Ok();
}

}  // namespace penstock::lab
