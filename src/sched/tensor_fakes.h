// For tests: tensor models whose results a test can work out, and jobs for them.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sched/tensor_job.h"
#include "signature/tensor_runner.h"

namespace penstock::sched {

// x [rows, width] of FP32 -> y [rows, width] = 2 x, sum [rows] of the row's elements. A run with a
// negative x[0] of any row fails.
class DoublingRunner : public signature::TensorRunner {
 public:
  explicit DoublingRunner(uint32_t width) : width_(width) {}

  static signature::TensorSignature Signature(int64_t width, int32_t max_batch_size) {
    signature::TensorSignature signature;
    const signature::DimensionRange rows{1, -1}, elements{width, width};
    signature.inputs = {{"x", signature::ElementType::kFp32, {{rows, elements}}}};
    signature.outputs = {{"y", signature::ElementType::kFp32, {{rows, elements}}},
                         {"sum", signature::ElementType::kFp32, {{rows}}}};
    signature.max_batch_size = max_batch_size;
    return signature;
  }

  Status RunRows(uint32_t rows, uint32_t capacity, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    PENSTOCK_CHECK(rows >= 1 && rows <= capacity);
    ++runs;
    rows_run += rows;
    if (before_run) before_run();
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    auto* sum = reinterpret_cast<float*>(outputs[1]);
    for (uint32_t row = 0; row < rows; ++row) {
      if (x[row * width_] < 0) return Status::Internal("a row is negative");
      sum[row] = 0;
      for (uint32_t i = 0; i < width_; ++i) {
        y[row * width_ + i] = 2 * x[row * width_ + i];
        sum[row] += x[row * width_ + i];
      }
    }
    return Status::Ok();
  }
  Status Run(std::span<const signature::TensorData>, std::vector<signature::TensorData>*) override {
    return Status::Internal("rows are fixed");
  }

  // A job whose first value is over a million is refused.
  Status CheckValues(std::span<const signature::TensorData> inputs) const override {
    float first = 0;
    std::memcpy(&first, inputs[0].bytes.data(), sizeof(first));
    if (first <= 1e6f) return Status::Ok();
    return Status::InvalidArgument("a value is over a million", "x");
  }

  std::atomic<int> runs{0};
  std::atomic<uint64_t> rows_run{0};
  std::function<void()> before_run;

 private:
  const uint32_t width_;
};

// Gives its inputs back; for any shapes.
class EchoRunner : public signature::TensorRunner {
 public:
  Status RunRows(uint32_t, uint32_t, std::span<const std::byte* const>,
                 std::span<std::byte* const>) override {
    return Status::Internal("rows vary");
  }
  Status Run(std::span<const signature::TensorData> inputs,
             std::vector<signature::TensorData>* outputs) override {
    ++runs;
    if (before_run) before_run(inputs[0].shape[0]);
    if (fails && fails(inputs)) return Status::Internal("bad inputs");
    kept_.clear();
    outputs->clear();
    for (const signature::TensorData& input : inputs) {
      if (reinterpret_cast<uintptr_t>(input.bytes.data()) % 64 != 0) {
        return Status::Internal("not aligned");
      }
      kept_.emplace_back(input.bytes.begin(), input.bytes.end());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      outputs->push_back({inputs[i].shape, kept_[i]});
    }
    return Status::Ok();
  }

  std::atomic<int> runs{0};
  std::function<void(int64_t rows)> before_run;
  std::function<bool(std::span<const signature::TensorData>)> fails;

 private:
  std::vector<std::vector<std::byte>> kept_;
};

// A job of a test with memory of its own for inputs, and what became of it.
struct TestTensorJob : TensorJob {
  explicit TestTensorJob(size_t outputs) {
    results.resize(outputs);
    done = [](TensorJob* job, Status result) {
      auto* const self = static_cast<TestTensorJob*>(job);
      self->status = std::move(result);
      self->values.clear();
      self->shapes.clear();
      if (self->status.ok()) {
        for (const TensorResult& one : self->results) {
          self->values.emplace_back(one.bytes.begin(), one.bytes.end());
          self->shapes.push_back(one.shape);
        }
      }
      ++self->ends;
      self->ended.store(true, std::memory_order_release);
      self->ended.notify_all();
    };
  }

  template <typename T>
  void AddInput(std::vector<int64_t> shape, const std::vector<T>& elements) {
    auto& kept = memory.emplace_back(elements.size() * sizeof(T));
    if (!elements.empty()) std::memcpy(kept.data(), elements.data(), kept.size());
    inputs.push_back({std::move(shape), kept});
  }
  template <typename T>
  std::vector<T> Values(size_t output) const {
    std::vector<T> read(values[output].size() / sizeof(T));
    if (!read.empty()) std::memcpy(read.data(), values[output].data(), values[output].size());
    return read;
  }
  void Await() const { ended.wait(false); }

  std::vector<std::vector<std::byte>> memory;
  Status status;
  std::vector<std::vector<std::byte>> values;
  std::vector<std::vector<int64_t>> shapes;
  std::atomic<int> ends{0};
  std::atomic<bool> ended{false};
};

// For DoublingRunner: row i is {first + i, 1, 1, ...}.
inline std::unique_ptr<TestTensorJob> RowsJob(uint32_t rows, uint32_t width, float first) {
  auto job = std::make_unique<TestTensorJob>(2);
  std::vector<float> x(rows * width, 1.0f);
  for (uint32_t row = 0; row < rows; ++row) x[row * width] = first + static_cast<float>(row);
  job->AddInput({rows, width}, x);
  job->rows = rows;
  return job;
}

// Whether the job has the results of RowsJob.
inline bool IsDoubled(const TestTensorJob& job, uint32_t width, float first) {
  if (!job.status.ok() || job.shapes.size() != 2) return false;
  if (job.shapes[0] != std::vector<int64_t>{job.rows, width} ||
      job.shapes[1] != std::vector<int64_t>{job.rows}) {
    return false;
  }
  const auto y = job.Values<float>(0), sum = job.Values<float>(1);
  for (uint32_t row = 0; row < job.rows; ++row) {
    const float x = first + static_cast<float>(row);
    if (y[row * width] != 2 * x || (width > 1 && y[row * width + width - 1] != 2) ||
        sum[row] != x + static_cast<float>(width - 1)) {
      return false;
    }
  }
  return true;
}

// The wire form of strings: each behind its length of 4 bytes.
inline std::vector<std::byte> BytesOf(const std::vector<std::string>& strings) {
  std::vector<std::byte> bytes;
  for (const std::string& text : strings) {
    const auto size = static_cast<uint32_t>(text.size());
    const auto* const head = reinterpret_cast<const std::byte*>(&size);
    bytes.insert(bytes.end(), head, head + 4);
    const auto* const body = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), body, body + text.size());
  }
  return bytes;
}

}  // namespace penstock::sched
