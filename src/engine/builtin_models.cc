#include "engine/builtin_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/printable.h"

namespace penstock::engine {
namespace {

constexpr std::string_view kPrefix = "builtin:";
constexpr int64_t kRowElementsMax = 1 << 24;
constexpr int64_t kBatchMax = 1 << 16;
constexpr int64_t kInputsMax = 64;
constexpr size_t kRankMax = 8;
constexpr double kSleepMsMax = 60000;
// What the objects of a model take, about: a model that is there takes something.
constexpr uint64_t kModelBytes = 4096;

// --- Options ------------------------------------------------------------------------------------

// "KEY=VALUE&..." of a reference. Options that the model does not read are refused.
class Options {
 public:
  static Expected<Options> Parse(std::string_view text) {
    Options options;
    while (!text.empty()) {
      const std::string_view item = text.substr(0, text.find('&'));
      text.remove_prefix(std::min(item.size() + 1, text.size()));
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return Status::InvalidArgument(
            fmt::format("'{}' is not KEY=VALUE", Printable(std::string(item), 100)));
      }
      const std::string key(item.substr(0, equals));
      if (!options.values_.emplace(key, item.substr(equals + 1)).second) {
        return Refuse(key, "is given twice");
      }
    }
    return options;
  }

  std::string Text(const std::string& key, std::string otherwise) {
    known_.push_back(key);
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second;
  }
  template <typename T>
  Expected<T> Number(const std::string& key, T otherwise, T min, T max) {
    const std::string text = Text(key, "");
    if (!values_.contains(key)) return otherwise;
    T value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && value >= min && value <= max) return value;
    return Refuse(
        key, fmt::format("is '{}', not a number from {} to {}", Printable(text, 100), min, max));
  }
  Expected<signature::ElementType> Type(std::initializer_list<signature::ElementType> only) {
    const std::string text = Text("type", "FP32");
    const std::optional<signature::ElementType> type = signature::ElementTypeOf(text);
    if (!type)
      return Refuse("type", fmt::format("is '{}', which is not a type", Printable(text, 100)));
    if (only.size() == 0 || std::find(only.begin(), only.end(), *type) != only.end()) return *type;
    std::vector<std::string> names;
    for (const signature::ElementType one : only) names.push_back(signature::ElementTypeName(one));
    return Refuse("type", fmt::format("is {}, not one of {}", text, fmt::join(names, ", ")));
  }
  // Of a row.
  Expected<std::vector<signature::DimensionRange>> Shape(const std::string& otherwise) {
    const std::string text = Text("shape", otherwise);
    const Status refused = Refuse(
        "shape", fmt::format("is '{}': numbers from 1, or -1, with x between them, {} at most, of "
                             "{} elements together at most",
                             Printable(text, 100), kRankMax, kRowElementsMax));
    std::vector<signature::DimensionRange> shape;
    int64_t elements = 1;
    for (size_t from = 0; from <= text.size();) {
      const size_t to = std::min(text.find('x', from), text.size());
      int64_t size = 0;
      const auto read = std::from_chars(text.data() + from, text.data() + to, size);
      if (read.ec != std::errc() || read.ptr != text.data() + to || size < -1 || size == 0 ||
          size > kRowElementsMax || shape.size() == kRankMax) {
        return refused;
      }
      shape.push_back(size == -1 ? signature::DimensionRange{0, -1}
                                 : signature::DimensionRange{size, size});
      elements *= std::max<int64_t>(size, 1);
      if (elements > kRowElementsMax) return refused;
      from = to + 1;
    }
    return shape;
  }
  Status CheckKnown() const {
    for (const auto& [key, value] : values_) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      return Refuse(Printable(key, 100), fmt::format("is not an option of it; its options are {}",
                                                     fmt::join(known_, ", ")));
    }
    return Status::Ok();
  }

 private:
  static Status Refuse(const std::string& key, const std::string& why) {
    return Status::InvalidArgument(fmt::format("option '{}' {}", key, why), key);
  }

  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

// --- Runners ------------------------------------------------------------------------------------

// Bytes of a row of each input.
std::vector<size_t> RowBytes(const signature::TensorSignature& signature) {
  std::vector<size_t> bytes;
  if (!signature.has_fixed_rows()) return bytes;
  for (const signature::TensorSpec& input : signature.inputs) {
    bytes.push_back(*signature::ElementCount(signature::TensorSignature::RowShape(input)) *
                    signature::ElementBytes(input.type));
  }
  return bytes;
}

class IdentityRunner : public signature::TensorRunner {
 public:
  explicit IdentityRunner(const signature::TensorSignature& signature)
      : row_bytes_(RowBytes(signature)), kept_(signature.inputs.size()) {}

  Status RunRows(uint32_t rows, uint32_t, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::span<const std::byte> used(inputs[i], rows * row_bytes_[i]);
      PENSTOCK_RETURN_IF_ERROR(Before(used, i == 0));
      std::memcpy(outputs[i], used.data(), used.size());
    }
    return Status::Ok();
  }

  Status Run(std::span<const signature::TensorData> inputs,
             std::vector<signature::TensorData>* outputs) override {
    outputs->resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(Before(inputs[i].bytes, i == 0));
      kept_[i].assign(inputs[i].bytes.begin(), inputs[i].bytes.end());
      (*outputs)[i].shape = inputs[i].shape;
      (*outputs)[i].bytes = kept_[i];
    }
    return Status::Ok();
  }

 private:
  // For each input of a run.
  virtual Status Before(std::span<const std::byte>, bool /*first*/) { return Status::Ok(); }

  const std::vector<size_t> row_bytes_;
  std::vector<std::vector<std::byte>> kept_;  // outputs of Run
};

class SlowRunner final : public IdentityRunner {
 public:
  SlowRunner(const signature::TensorSignature& signature, double ms)
      : IdentityRunner(signature), ms_(ms) {}

 private:
  Status Before(std::span<const std::byte>, bool first) override {
    if (first) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms_));
    return Status::Ok();
  }

  const double ms_;
};

template <typename T>
bool HasNegative(std::span<const std::byte> bytes) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (value < 0) return true;
  }
  return false;
}

class FailingRunner final : public IdentityRunner {
 public:
  FailingRunner(const signature::TensorSignature& signature, int64_t every)
      : IdentityRunner(signature), type_(signature.inputs[0].type), every_(every) {}

 private:
  Status Before(std::span<const std::byte> bytes, bool first) override {
    if (every_ > 0) {
      if (!first || ++runs_ % every_ != 0) return Status::Ok();
      return Status::Internal(fmt::format("run {} fails, as was asked for", runs_));
    }
    const bool negative = type_ == signature::ElementType::kInt32 ? HasNegative<int32_t>(bytes)
                                                                  : HasNegative<float>(bytes);
    if (!negative) return Status::Ok();
    return {StatusCode::kUnprocessable, "a value is negative"};
  }

  const signature::ElementType type_;
  const int64_t every_;  // 0: where a value is negative
  int64_t runs_ = 0;
};

template <typename T>
class AddRunner final : public signature::TensorRunner {
 public:
  explicit AddRunner(const signature::TensorSignature& signature)
      : row_bytes_(RowBytes(signature)) {}

  Status RunRows(uint32_t rows, uint32_t, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    Compute({inputs[0], rows * row_bytes_[0]}, inputs[1], outputs[0], outputs[1]);
    return Status::Ok();
  }

  Status Run(std::span<const signature::TensorData> inputs,
             std::vector<signature::TensorData>* outputs) override {
    if (inputs[0].shape != inputs[1].shape) {
      return Status::InvalidArgument(
          fmt::format("INPUT0 has shape {} and INPUT1 {}; they must have the same",
                      signature::ShapeText(inputs[0].shape), signature::ShapeText(inputs[1].shape)),
          "INPUT1");
    }
    for (auto& kept : kept_) kept.resize(inputs[0].bytes.size());
    Compute(inputs[0].bytes, inputs[1].bytes.data(), kept_[0].data(), kept_[1].data());
    *outputs = {{inputs[0].shape, kept_[0]}, {inputs[0].shape, kept_[1]}};
    return Status::Ok();
  }

 private:
  static void Compute(std::span<const std::byte> a, const std::byte* b, std::byte* sum,
                      std::byte* difference) {
    for (size_t at = 0; at + sizeof(T) <= a.size(); at += sizeof(T)) {
      T x, y;
      std::memcpy(&x, a.data() + at, sizeof(T));
      std::memcpy(&y, b + at, sizeof(T));
      const T results[] = {x + y, x - y};  // of integers: unsigned, so that they wrap
      std::memcpy(sum + at, &results[0], sizeof(T));
      std::memcpy(difference + at, &results[1], sizeof(T));
    }
  }

  const std::vector<size_t> row_bytes_;
  std::vector<std::byte> kept_[2];  // outputs of Run
};

// --- Models -------------------------------------------------------------------------------------

signature::TensorSpec Spec(const std::string& name, signature::ElementType type,
                           std::vector<signature::DimensionRange> shape, bool batched) {
  if (batched) shape.insert(shape.begin(), {1, -1});
  return {name, type, std::move(shape)};
}

// What all models have: type, shape, batch. `inputs`, and as many outputs.
Expected<signature::TensorSignature> SignatureOf(
    Options* given, std::initializer_list<signature::ElementType> types, const char* shape,
    int64_t inputs, int32_t asked_batch) {
  PENSTOCK_ASSIGN_OR_RETURN(const signature::ElementType type, given->Type(types));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<signature::DimensionRange> row, given->Shape(shape));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t batch,
                            given->Number<int64_t>("batch", 256, 0, kBatchMax));
  PENSTOCK_RETURN_IF_ERROR(given->CheckKnown());
  signature::TensorSignature signature;
  signature.max_batch_size = asked_batch >= 0 ? asked_batch : static_cast<int32_t>(batch);
  const bool batched = signature.max_batch_size > 0;
  for (int64_t i = 0; i < inputs; ++i) {
    signature.inputs.push_back(Spec(fmt::format("INPUT{}", i), type, row, batched));
    signature.outputs.push_back(Spec(fmt::format("OUTPUT{}", i), type, row, batched));
  }
  return signature;
}

template <typename MakeRunner>
void AddRunners(int32_t replicas, TensorEngineParts* parts, MakeRunner make) {
  for (int32_t i = 0; i < replicas; ++i) parts->runners.push_back(make(parts->signature));
}

Status FillIdentity(Options* given, const TensorEngineOptions& options, TensorEngineParts* parts) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t inputs,
                            given->Number<int64_t>("inputs", 1, 1, kInputsMax));
  PENSTOCK_ASSIGN_OR_RETURN(parts->signature,
                            SignatureOf(given, {}, "32", inputs, options.max_batch_size));
  AddRunners(options.replicas, parts, [](const signature::TensorSignature& signature) {
    return std::make_unique<IdentityRunner>(signature);
  });
  return Status::Ok();
}

Status FillAdd(Options* given, const TensorEngineOptions& options, TensorEngineParts* parts) {
  PENSTOCK_ASSIGN_OR_RETURN(
      parts->signature,
      SignatureOf(given, {signature::ElementType::kFp32, signature::ElementType::kInt32}, "16", 2,
                  options.max_batch_size));
  AddRunners(options.replicas, parts, [](const signature::TensorSignature& signature) {
    std::unique_ptr<signature::TensorRunner> runner;
    if (signature.inputs[0].type == signature::ElementType::kInt32) {
      runner = std::make_unique<AddRunner<uint32_t>>(signature);
    } else {
      runner = std::make_unique<AddRunner<float>>(signature);
    }
    return runner;
  });
  return Status::Ok();
}

Status FillSlow(Options* given, const TensorEngineOptions& options, TensorEngineParts* parts) {
  PENSTOCK_ASSIGN_OR_RETURN(const double ms, given->Number<double>("ms", 5, 0, kSleepMsMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t inputs,
                            given->Number<int64_t>("inputs", 1, 1, kInputsMax));
  PENSTOCK_ASSIGN_OR_RETURN(parts->signature,
                            SignatureOf(given, {}, "32", inputs, options.max_batch_size));
  AddRunners(options.replicas, parts, [ms](const signature::TensorSignature& signature) {
    return std::make_unique<SlowRunner>(signature, ms);
  });
  return Status::Ok();
}

Status FillFailing(Options* given, const TensorEngineOptions& options, TensorEngineParts* parts) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t every,
                            given->Number<int64_t>("every", 0, 0, int64_t{1} << 40));
  PENSTOCK_ASSIGN_OR_RETURN(
      parts->signature,
      SignatureOf(given, {signature::ElementType::kFp32, signature::ElementType::kInt32}, "32", 1,
                  options.max_batch_size));
  AddRunners(options.replicas, parts, [every](const signature::TensorSignature& signature) {
    return std::make_unique<FailingRunner>(signature, every);
  });
  return Status::Ok();
}

struct Builtin {
  const char* name;
  Status (*fill)(Options* given, const TensorEngineOptions& options, TensorEngineParts* parts);
};
constexpr Builtin kBuiltins[] = {
    {"identity", FillIdentity},
    {"add", FillAdd},
    {"slow", FillSlow},
    {"failing", FillFailing},
};

}  // namespace

bool IsBuiltinModel(const std::string& reference) { return reference.starts_with(kPrefix); }

std::string BuiltinModelName(const std::string& reference) {
  const std::string name = reference.substr(std::min(kPrefix.size(), reference.size()));
  return name.substr(0, name.find('?'));
}

Expected<TensorEngineParts> MakeBuiltinModel(const std::string& reference,
                                             const TensorEngineOptions& options) {
  const std::string name = BuiltinModelName(reference);
  const auto found = std::find_if(std::begin(kBuiltins), std::end(kBuiltins),
                                  [&](const Builtin& one) { return name == one.name; });
  if (found == std::end(kBuiltins)) {
    std::string names;
    for (const Builtin& one : kBuiltins)
      names += (names.empty() ? "" : ", ") + std::string(one.name);
    return Status::NotFound(
        fmt::format("there is no built-in model '{}'; there are {}", Printable(name, 100), names),
        "model");
  }
  const size_t mark = reference.find('?');
  TensorEngineParts parts;
  parts.platform = "builtin";
  parts.backend = "builtin";
  parts.weight_bytes = kModelBytes;
  auto given =
      Options::Parse(mark == std::string::npos ? std::string_view()
                                               : std::string_view(reference).substr(mark + 1));
  Status filled = given.ok() ? found->fill(&*given, options, &parts) : given.status();
  if (!filled.ok()) return filled.Annotate(fmt::format("built-in model '{}'", name));
  return parts;
}

}  // namespace penstock::engine
