#include "engine/openvino_runner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/status.h"

namespace penstock::engine {
namespace {

using openvino::CompiledModel;
using openvino::InferRequest;
using openvino::OutputView;

// Memory at a multiple of 64.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))), bytes_(bytes) {
    std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  size_t bytes_;
};

// Of a row of each.
std::vector<size_t> RowBytes(const std::vector<signature::TensorSpec>& specs) {
  std::vector<size_t> bytes;
  for (const signature::TensorSpec& spec : specs) {
    bytes.push_back(*signature::ElementCount(signature::TensorSignature::RowShape(spec)) *
                    signature::ElementBytes(spec.type));
  }
  return bytes;
}

Status CheckValuesOf(const InferRequest& request, std::span<const signature::TensorData> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(request.CheckValues(i, inputs[i].bytes));
  }
  return Status::Ok();
}

class RowsRunner final : public signature::TensorRunner {
 public:
  static Expected<std::unique_ptr<signature::TensorRunner>> Make(
      const signature::TensorSignature& signature, std::span<const CompiledRows> sizes) {
    auto runner = std::unique_ptr<RowsRunner>(new RowsRunner(
        signature, PlanRows(sizes, static_cast<uint32_t>(signature.max_batch_size))));
    for (const CompiledRows& size : sizes) {
      PENSTOCK_ASSIGN_OR_RETURN(auto request, size.compiled->NewRequest());
      Size& made = runner->sizes_.emplace_back();
      made.rows = size.rows;
      made.request = std::move(request);
      made.inputs.resize(signature.inputs.size());
      made.outputs.resize(signature.outputs.size());
    }
    return std::unique_ptr<signature::TensorRunner>(std::move(runner));
  }

  Status RunRows(uint32_t rows, uint32_t capacity, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    for (uint32_t done = 0; done < rows;) {
      Size& size = Choose(rows - done, capacity - done);
      const uint32_t part = std::min(size.rows, rows - done);
      PENSTOCK_RETURN_IF_ERROR(RunPart(&size, done, part, inputs, outputs));
      done += part;
    }
    return Status::Ok();
  }

  Status Run(std::span<const signature::TensorData> inputs,
             std::vector<signature::TensorData>* outputs) override {
    const auto rows = static_cast<uint32_t>(inputs[0].shape[0]);
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (const signature::TensorData& input : inputs) from.push_back(input.bytes.data());
    kept_.clear();
    outputs->clear();
    for (size_t i = 0; i < signature_.outputs.size(); ++i) {
      to.push_back(kept_.emplace_back(rows * output_bytes_[i]).data());
      std::vector<int64_t> shape = signature::TensorSignature::RowShape(signature_.outputs[i]);
      shape.insert(shape.begin(), rows);
      outputs->push_back({std::move(shape), {kept_[i].data(), kept_[i].size()}});
    }
    return RunRows(rows, rows, from, to);
  }

  Status CheckValues(std::span<const signature::TensorData> inputs) const override {
    return CheckValuesOf(*sizes_[0].request, inputs);
  }

 private:
  struct Size {
    uint32_t rows = 0;
    std::unique_ptr<InferRequest> request;
    std::vector<const std::byte*> inputs;  // as bound; null: not yet
    std::vector<std::byte*> outputs;
  };

  RowsRunner(const signature::TensorSignature& signature, std::vector<uint8_t> plan)
      : signature_(signature),
        plan_(std::move(plan)),
        input_bytes_(RowBytes(signature.inputs)),
        output_bytes_(RowBytes(signature.outputs)) {}

  // The size to run first, of those that have no more than `room` rows.
  Size& Choose(uint32_t rows, uint32_t room) {
    size_t index = plan_[rows];
    while (sizes_[index].rows > room) --index;
    return sizes_[index];
  }

  // Rows first .. first + rows - 1.
  Status RunPart(Size* size, uint32_t first, uint32_t rows,
                 std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::byte* from = inputs[i] + first * input_bytes_[i];
      if (rows < size->rows) from = Padded(i, from, rows, size->rows);
      if (size->inputs[i] == from) continue;
      size->inputs[i] = nullptr;
      PENSTOCK_RETURN_IF_ERROR(size->request->BindInput(i, ShapeOf(signature_.inputs[i], *size),
                                                        {from, size->rows * input_bytes_[i]}));
      size->inputs[i] = from;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::byte* const to = outputs[i] + first * output_bytes_[i];
      if (size->outputs[i] == to) continue;
      size->outputs[i] = nullptr;
      PENSTOCK_RETURN_IF_ERROR(size->request->BindOutput(i, {to, size->rows * output_bytes_[i]}));
      size->outputs[i] = to;
    }
    return size->request->Run();
  }

  // The rows, and the last of them again for those that are missing: what lies there is of others,
  // and might make the run fail.
  const std::byte* Padded(size_t input, const std::byte* from, uint32_t rows, uint32_t wanted) {
    if (padded_.empty()) {
      for (const size_t bytes_in : input_bytes_)
        padded_.emplace_back(sizes_.back().rows * bytes_in);
    }
    const size_t bytes = input_bytes_[input];
    std::byte* const to = padded_[input].data();
    std::memcpy(to, from, rows * bytes);
    for (uint32_t row = rows; row < wanted; ++row) {
      std::memcpy(to + row * bytes, from + (rows - 1) * bytes, bytes);
    }
    return to;
  }

  static std::vector<int64_t> ShapeOf(const signature::TensorSpec& spec, const Size& size) {
    std::vector<int64_t> shape = signature::TensorSignature::RowShape(spec);
    shape.insert(shape.begin(), size.rows);
    return shape;
  }

  const signature::TensorSignature signature_;
  const std::vector<uint8_t> plan_;
  const std::vector<size_t> input_bytes_;  // of a row
  const std::vector<size_t> output_bytes_;
  std::vector<Size> sizes_;           // the smallest first
  std::vector<AlignedBytes> padded_;  // by input; empty until needed
  std::vector<AlignedBytes> kept_;    // outputs of Run
};

class ShapesRunner final : public signature::TensorRunner {
 public:
  static Expected<std::unique_ptr<signature::TensorRunner>> Make(const CompiledModel& compiled) {
    PENSTOCK_ASSIGN_OR_RETURN(auto request, compiled.NewRequest());
    return std::unique_ptr<signature::TensorRunner>(
        new ShapesRunner(std::move(request), compiled.outputs().size()));
  }

  Status RunRows(uint32_t, uint32_t, std::span<const std::byte* const>,
                 std::span<std::byte* const>) override {
    return Status::Internal("the model has no rows of fixed shape");
  }

  Status Run(std::span<const signature::TensorData> inputs,
             std::vector<signature::TensorData>* outputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(request_->BindInput(i, inputs[i].shape, inputs[i].bytes));
    }
    PENSTOCK_RETURN_IF_ERROR(request_->Run());
    outputs->clear();
    for (size_t i = 0; i < outputs_; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(OutputView view, request_->Output(i));
      outputs->push_back({std::move(view.shape), view.bytes});
    }
    return Status::Ok();
  }

  Status CheckValues(std::span<const signature::TensorData> inputs) const override {
    return CheckValuesOf(*request_, inputs);
  }

 private:
  ShapesRunner(std::unique_ptr<InferRequest> request, size_t outputs)
      : request_(std::move(request)), outputs_(outputs) {}

  const std::unique_ptr<InferRequest> request_;
  const size_t outputs_;
};

}  // namespace

std::vector<uint8_t> PlanRows(std::span<const CompiledRows> sizes, uint32_t rows_max) {
  std::vector<uint8_t> first(rows_max + 1);
  std::vector<double> seconds(rows_max + 1);
  for (uint32_t rows = 1; rows <= rows_max; ++rows) {
    seconds[rows] = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const double took = sizes[i].run_s + seconds[rows - std::min(sizes[i].rows, rows)];
      if (took > seconds[rows]) continue;  // of equal ones the largest: fewer parts
      seconds[rows] = took;
      first[rows] = static_cast<uint8_t>(i);
    }
  }
  return first;
}

Expected<std::unique_ptr<signature::TensorRunner>> NewRowsRunner(
    const signature::TensorSignature& signature, std::span<const CompiledRows> sizes) {
  return RowsRunner::Make(signature, sizes);
}

Expected<std::unique_ptr<signature::TensorRunner>> NewShapesRunner(const CompiledModel& compiled) {
  return ShapesRunner::Make(compiled);
}

}  // namespace penstock::engine
