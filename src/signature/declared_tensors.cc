#include "signature/declared_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "signature/tensor_spec.h"

namespace penstock::signature {
namespace {

constexpr int64_t kAny = -1;

// Elements between dimensions of any size: {2, -1, 3, 4} has 2 and 12.
Expected<std::vector<uint64_t>> FixedParts(const std::vector<int64_t>& dims) {
  std::vector<uint64_t> parts;
  std::vector<int64_t> part, all;
  for (const int64_t size : dims) {
    if (size != kAny && size < 1) {
      return Status::InvalidArgument(fmt::format("a dimension is -1, or 1 or more, not {}", size));
    }
    if (size != kAny) all.push_back(size);
  }
  if (!ElementCount(all)) {
    return Status::InvalidArgument(fmt::format("{} has more than 2^59 elements", ShapeText(dims)));
  }
  for (const int64_t size : dims) {
    if (size != kAny) {
      part.push_back(size);
    } else {
      parts.push_back(*ElementCount(part));
      part.clear();
    }
  }
  parts.push_back(*ElementCount(part));
  return parts;
}

const std::vector<int64_t>& ModelDims(const DeclaredTensor& tensor) {
  return tensor.reshape ? *tensor.reshape : tensor.dims;
}

// The shape of dimensions without that of rows.
std::vector<DimensionRange> ShapeOf(const std::vector<int64_t>& dims, bool batches) {
  std::vector<DimensionRange> shape;
  if (batches) shape.push_back({1, -1});
  for (const int64_t size : dims) {
    shape.push_back(size == kAny ? DimensionRange{0, -1} : DimensionRange{size, size});
  }
  return shape;
}

bool IsWithin(const DimensionRange& inner, const DimensionRange& outer) {
  return inner.min >= outer.min && (outer.max < 0 || (inner.max >= 0 && inner.max <= outer.max));
}

std::string NamesOf(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& spec : specs) names += (names.empty() ? "" : ", ") + spec.name;
  return names;
}

const DeclaredTensor* FindDeclared(const std::vector<DeclaredTensor>& declared,
                                   const std::string& name) {
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const DeclaredTensor& one) { return one.name == name; });
  return found == declared.end() ? nullptr : &*found;
}

// Whether the model's tensor takes, or may give, what is declared.
Status CheckAgainst(const TensorSpec& spec, const DeclaredTensor& declared, bool batches) {
  if (spec.type != declared.type) {
    return Status::InvalidArgument(fmt::format("is declared as {}, the model has {}",
                                               ElementTypeName(declared.type),
                                               ElementTypeName(spec.type)));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckDims(declared));
  if (!spec.shape) return Status::Ok();
  const std::vector<DimensionRange> shape = ShapeOf(ModelDims(declared), batches);
  bool fits = shape.size() == spec.shape->size();
  for (size_t i = batches ? 1 : 0; fits && i < shape.size(); ++i) {
    // A dimension of any size is told as such also where the model has a least size.
    const DimensionRange& own = (*spec.shape)[i];
    fits = IsWithin(shape[i], own) || (!shape[i].fixed() && !own.fixed() && own.max < 0);
  }
  if (fits) return Status::Ok();
  std::vector<DimensionRange> own = *spec.shape;
  if (batches && !own.empty()) own.erase(own.begin());
  return Status::InvalidArgument(fmt::format(
      "is declared as {}, the model has {}{}", ShapeText(ShapeOf(ModelDims(declared), false)),
      ShapeText(own), batches ? " after the dimension of rows" : ""));
}

// `what`: "input" or "output".
Status Declare(const char* what, const std::vector<DeclaredTensor>& declared, bool batches,
               std::vector<TensorSpec>* specs) {
  for (size_t i = 0; i < declared.size(); ++i) {
    const DeclaredTensor& one = declared[i];
    const auto spec = std::find_if(specs->begin(), specs->end(),
                                   [&](const TensorSpec& own) { return own.name == one.name; });
    if (spec == specs->end()) {
      return Status::InvalidArgument(
          fmt::format("the model has no {} '{}'; it has {}", what, one.name, NamesOf(*specs)),
          one.name);
    }
    if (FindDeclared(declared, one.name) != &one) {
      return Status::InvalidArgument(fmt::format("{} '{}' is declared twice", what, one.name),
                                     one.name);
    }
    if (const Status fits = CheckAgainst(*spec, one, batches); !fits.ok()) {
      return Status::InvalidArgument(fmt::format("{} '{}' {}", what, one.name, fits.message()),
                                     one.name);
    }
  }
  if (declared.empty()) return Status::Ok();
  for (TensorSpec& spec : *specs) {
    const DeclaredTensor* const one = FindDeclared(declared, spec.name);
    if (one != nullptr) spec.shape = ShapeOf(one->dims, batches);
  }
  return Status::Ok();
}

// A tensor between its two shapes.
class Reshape {
 public:
  Reshape(const DeclaredTensor* declared, bool batches) : declared_(declared), batches_(batches) {}

  std::vector<int64_t> ToModel(std::vector<int64_t> shape) const {
    if (declared_ == nullptr || !declared_->reshape) return shape;
    return Other(declared_->dims, *declared_->reshape, shape);
  }
  // nullopt: the shape is not as declared.
  std::optional<std::vector<int64_t>> ToUser(std::vector<int64_t> shape) const {
    if (declared_ == nullptr) return shape;
    const std::vector<int64_t>& model = ModelDims(*declared_);
    const size_t first = batches_ ? 1 : 0;
    if (shape.size() != model.size() + first) return std::nullopt;
    for (size_t i = 0; i < model.size(); ++i) {
      if (model[i] != kAny && model[i] != shape[i + first]) return std::nullopt;
    }
    if (!declared_->reshape) return shape;
    return Other(model, declared_->dims, shape);
  }

 private:
  // `shape`, of the form `from`, in the form `to`: dimensions of any size keep theirs.
  std::vector<int64_t> Other(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                             const std::vector<int64_t>& shape) const {
    std::vector<int64_t> other;
    const size_t first = batches_ ? 1 : 0;
    if (batches_) other.push_back(shape[0]);
    size_t at = 0;
    for (const int64_t size : to) {
      if (size != kAny) {
        other.push_back(size);
        continue;
      }
      while (from[at] != kAny) ++at;
      other.push_back(shape[first + at++]);
    }
    return other;
  }

  const DeclaredTensor* declared_;
  bool batches_;
};

// Memory for outputs that are not declared: the model writes them all.
class Scratch {
 public:
  std::byte* Get(size_t bytes) {
    if (bytes > size_) {
      bytes_.reset(new (std::align_val_t{64}) std::byte[bytes]());
      size_ = bytes;
    }
    return bytes_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { operator delete[](bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t size_ = 0;
};

class DeclaredRunner : public TensorRunner {
 public:
  DeclaredRunner(std::unique_ptr<TensorRunner> runner, const TensorSignature& model,
                 const DeclaredTensors& declared)
      : runner_(std::move(runner)),
        model_(model),
        declared_(declared),
        users_(*DeclareTensors(model, declared)),
        fixed_in_model_(model.has_fixed_rows()),
        hidden_(model.outputs.size()) {
    const bool batches = model.max_batch_size > 0;
    for (const TensorSpec& spec : model_.inputs) {
      inputs_.emplace_back(FindDeclared(declared_.inputs, spec.name), batches);
    }
    for (size_t i = 0; i < model_.outputs.size(); ++i) {
      const DeclaredTensor* const one = FindDeclared(declared_.outputs, model_.outputs[i].name);
      if (!declared_.outputs.empty() && one == nullptr) continue;
      outputs_.emplace_back(one, batches);
      shown_.push_back(i);
    }
  }

  Status RunRows(uint32_t rows, uint32_t capacity, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    if (!fixed_in_model_) return RunViews(rows, inputs, outputs);
    if (shown_.size() == model_.outputs.size()) {
      return runner_->RunRows(rows, capacity, inputs, outputs);
    }
    std::vector<std::byte*> all(model_.outputs.size(), nullptr);
    for (size_t i = 0; i < shown_.size(); ++i) all[shown_[i]] = outputs[i];
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == nullptr) all[i] = hidden_[i].Get(capacity * RowBytes(model_.outputs[i]));
    }
    return runner_->RunRows(rows, capacity, inputs, all);
  }

  Status Run(std::span<const TensorData> inputs, std::vector<TensorData>* outputs) override {
    views_.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < views_.size(); ++i) {
      views_[i].shape = inputs_[i].ToModel(std::move(views_[i].shape));
    }
    PENSTOCK_RETURN_IF_ERROR(runner_->Run(views_, &results_));
    outputs->clear();
    for (size_t i = 0; i < shown_.size(); ++i) {
      TensorData& result = results_[shown_[i]];
      auto shape = outputs_[i].ToUser(result.shape);
      if (!shape) {
        return Status::Internal(fmt::format("output '{}' has the shape {}, declared is {}",
                                            users_.outputs[i].name, ShapeText(result.shape),
                                            ShapeText(users_.outputs[i].shape)));
      }
      outputs->push_back({*std::move(shape), result.bytes});
    }
    return Status::Ok();
  }

  uint64_t HeldBytes() const override { return runner_->HeldBytes(); }
  uint64_t ReleaseMemory() override { return runner_->ReleaseMemory(); }

 private:
  static size_t RowBytes(const TensorSpec& spec) {
    return *ElementCount(TensorSignature::RowShape(spec)) * ElementBytes(spec.type);
  }

  // Rows of fixed shape of a model that would take others.
  Status RunViews(uint32_t rows, std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> outputs) {
    std::vector<TensorData> given(inputs.size()), got;
    for (size_t i = 0; i < given.size(); ++i) {
      given[i].shape = TensorSignature::RowShape(users_.inputs[i]);
      given[i].shape.insert(given[i].shape.begin(), rows);
      given[i].bytes = {inputs[i], rows * RowBytes(users_.inputs[i])};
    }
    PENSTOCK_RETURN_IF_ERROR(Run(given, &got));
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t bytes = rows * RowBytes(users_.outputs[i]);
      if (got[i].bytes.size() != bytes) {
        return Status::Internal(fmt::format("output '{}' of {} rows has {} bytes, not {}",
                                            users_.outputs[i].name, rows, got[i].bytes.size(),
                                            bytes));
      }
      std::memcpy(outputs[i], got[i].bytes.data(), bytes);
    }
    return Status::Ok();
  }

  const std::unique_ptr<TensorRunner> runner_;
  const TensorSignature model_;
  const DeclaredTensors declared_;
  const TensorSignature users_;
  const bool fixed_in_model_;
  std::vector<Reshape> inputs_, outputs_;  // outputs: of those that users see
  std::vector<size_t> shown_;              // their numbers in the model
  std::vector<Scratch> hidden_;            // by the model's outputs
  std::vector<TensorData> views_, results_;
};

}  // namespace

Status CheckDims(const DeclaredTensor& tensor) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto parts, FixedParts(tensor.dims));
  if (!tensor.reshape) return Status::Ok();
  const auto reshaped = FixedParts(*tensor.reshape);
  if (!reshaped.ok()) return reshaped.status().Annotate("reshape");
  if (parts == *reshaped) return Status::Ok();
  return Status::InvalidArgument(fmt::format(
      "reshape {} does not keep the elements of {}: both need the same number of dimensions "
      "of -1, and equal products between them",
      ShapeText(*tensor.reshape), ShapeText(tensor.dims)));
}

Expected<TensorSignature> DeclareTensors(const TensorSignature& model,
                                         const DeclaredTensors& declared) {
  TensorSignature users = model;
  const bool batches = model.max_batch_size > 0;
  PENSTOCK_RETURN_IF_ERROR(Declare("input", declared.inputs, batches, &users.inputs));
  PENSTOCK_RETURN_IF_ERROR(Declare("output", declared.outputs, batches, &users.outputs));
  for (const TensorSpec& spec : users.inputs) {
    if (declared.inputs.empty() || FindDeclared(declared.inputs, spec.name) != nullptr) continue;
    return Status::InvalidArgument(
        fmt::format("input '{}' of the model is not declared, others are", spec.name), spec.name);
  }
  if (!declared.outputs.empty()) {
    std::erase_if(users.outputs, [&](const TensorSpec& spec) {
      return FindDeclared(declared.outputs, spec.name) == nullptr;
    });
  }
  return users;
}

std::unique_ptr<TensorRunner> NewDeclaredRunner(std::unique_ptr<TensorRunner> runner,
                                                const TensorSignature& model,
                                                const DeclaredTensors& declared) {
  if (declared.empty()) return runner;
  return std::make_unique<DeclaredRunner>(std::move(runner), model, declared);
}

}  // namespace penstock::signature
