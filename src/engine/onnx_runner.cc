#include "engine/onnx_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/printable.h"
#include "log/exception_status.h"
#include "models/encoder_program.h"
#include "models/load_weights.h"
#include "numbers/dtype.h"
#include "openvino/runtime.h"
#include "os/memory.h"

namespace penstock::engine {
namespace {

// Activations of a token while a layer runs, in hidden states: about those of a feed-forward.
constexpr uint64_t kStatesOfAToken = 12;

bool TakesIds(const signature::TensorSpec& spec) {
  const bool integers =
      spec.type == signature::ElementType::kInt64 || spec.type == signature::ElementType::kInt32;
  return integers && spec.shape && spec.shape->size() == 2 && !spec.shape->at(0).fixed() &&
         !spec.shape->at(1).fixed();
}

std::string Names(const std::vector<signature::TensorSpec>& specs) {
  std::string names;
  for (const signature::TensorSpec& spec : specs) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", spec.name,
                         signature::ShapeText(spec.shape));
  }
  return Printable(names, 500);
}

bool IsFloat(signature::ElementType type) {
  return type == signature::ElementType::kFp32 || type == signature::ElementType::kFp16;
}

// Numbers of an output, [rows, width], from row `first` on.
void CopyRows(const openvino::OutputView& view, size_t first, size_t rows, size_t width,
              float* out) {
  const size_t count = rows * width;
  if (view.type == signature::ElementType::kFp32) {
    std::memcpy(out, view.bytes.data() + first * width * sizeof(float), count * sizeof(float));
    return;
  }
  const std::byte* from = view.bytes.data() + first * width * sizeof(uint16_t);
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, from + i * sizeof(half), sizeof(half));
    out[i] = numbers::HalfToFloat(half);
  }
}

// Tokens that a sequence of this length is padded to.
size_t PaddedLength(size_t length, size_t longest) {
  const size_t step = length > 256 ? 4 * OnnxRunner::kStep : OnnxRunner::kStep;
  return std::min((length + step - 1) / step * step, longest);
}

}  // namespace

uint64_t OnnxBytesFor(size_t tokens, int32_t hidden) {
  const auto width = static_cast<uint64_t>(std::max(hidden, 1));
  return tokens * (kStatesOfAToken * width * sizeof(float) + 4 * sizeof(int64_t));
}

// ---- OnnxEncoder

Expected<std::unique_ptr<OnnxEncoder>> OnnxEncoder::Load(const families::ModelFolder& folder,
                                                         program::Backend* backend) {
  if (!backend->is_host()) {
    return Status::Unsupported(
        "ONNX models run on the CPU: name the models that go to the GPU (--device NAME=cuda)",
        "device");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const openvino::Runtime* const runtime, openvino::Runtime::Shared());
  PENSTOCK_ASSIGN_OR_RETURN(const auto file, openvino::TensorModel::Load(runtime, folder.onnx));
  std::unique_ptr<OnnxEncoder> made(new OnnxEncoder());
  made->backend_ = backend;
  made->backend_name_ = openvino::BackendName(*runtime, backend->threads());
  made->vocabulary_ = folder.encoder.vocab_size;
  made->types_ = std::max(folder.encoder.type_vocab_size, 1);
  made->pad_ = std::max(folder.encoder.pad_token_id, 0);
  made->max_tokens_ = folder.max_tokens;
  made->most_ = std::max(OnnxRunner::kGroupTokens, static_cast<size_t>(folder.max_tokens));
  made->file_bytes_ = file->files().bytes;
  if (const Status found = made->FindInputs(*file); !found.ok()) {
    return found.Annotate(folder.onnx);
  }
  if (const Status found = made->FindOutput(*file, folder); !found.ok()) {
    return found.Annotate(folder.onnx);
  }
  openvino::CompileOptions options;
  options.threads = backend->threads();
  PENSTOCK_ASSIGN_OR_RETURN(made->compiled_, file->Compile(options));
  if (made->logits_) return made;
  made->head_.backend = backend;
  made->head_.hidden = made->hidden_;
  PENSTOCK_RETURN_IF_ERROR(models::LoadEmbeddingHead(folder, &made->head_));
  made->head_program_ =
      models::HeadProgram(made->head_, program::EncoderOutput::kPooled, made->max_tokens_);
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(made->head_program_));
  return made;
}

Status OnnxEncoder::FindInputs(const openvino::TensorModel& model) {
  const std::vector<signature::TensorSpec>& inputs = model.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].name;
    std::optional<size_t>* const place = name == "input_ids"        ? &ids_
                                         : name == "attention_mask" ? &mask_
                                         : name == "token_type_ids" ? &type_ids_
                                         : name == "position_ids"   ? &positions_
                                                                    : nullptr;
    if (place == nullptr || !TakesIds(inputs[i])) {
      return Status::Unsupported(
          fmt::format("an encoder takes input_ids, attention_mask, token_type_ids and "
                      "position_ids, integers of [-1,-1]; this one takes {}",
                      Names(inputs)),
          "onnx");
    }
    *place = i;
  }
  if (ids_ && mask_) return Status::Ok();
  return Status::Unsupported(
      fmt::format("the model has no input_ids or no attention_mask; it takes {}", Names(inputs)),
      "onnx");
}

Status OnnxEncoder::FindOutput(const openvino::TensorModel& model,
                               const families::ModelFolder& folder) {
  const std::vector<signature::TensorSpec>& outputs = model.outputs();
  logits_ = folder.task != families::ModelTask::kEmbedding;
  const auto fits = [&](const signature::TensorSpec& spec) {
    return IsFloat(spec.type) && (!spec.shape || spec.shape->size() == (logits_ ? 2 : 3));
  };
  const auto named = [&](const signature::TensorSpec& spec) {
    return fits(spec) &&
           (logits_ ? spec.name == "logits"
                    : spec.name == "last_hidden_state" || spec.name == "token_embeddings");
  };
  auto found = std::find_if(outputs.begin(), outputs.end(), named);
  if (found == outputs.end()) found = std::find_if(outputs.begin(), outputs.end(), fits);
  if (found == outputs.end()) {
    return Status::Unsupported(
        fmt::format("a model for {} is to give {}; this one gives {}",
                    families::ModelTaskName(folder.task),
                    logits_ ? "logits, [-1, labels]" : "last_hidden_state, [-1,-1, hidden size]",
                    Names(outputs)),
        "onnx");
  }
  output_ = static_cast<size_t>(found - outputs.begin());
  const int32_t told = logits_ ? folder.encoder.num_labels : folder.encoder.hidden_size;
  const bool known = found->shape && found->shape->back().fixed();
  const int64_t width = known ? found->shape->back().min : told;
  if (width < 1 || (told > 0 && width != told) || width > (1 << 20)) {
    return Status::Unsupported(
        fmt::format("output '{}' is {}, config.json says {} {}", Printable(found->name),
                    signature::ShapeText(found->shape), told, logits_ ? "labels" : "hidden_size"),
        "onnx");
  }
  (logits_ ? labels_ : hidden_) = static_cast<int32_t>(width);
  if (logits_) hidden_ = folder.encoder.hidden_size;
  return Status::Ok();
}

int32_t OnnxEncoder::OutputWidth(program::EncoderOutput output) const {
  switch (output) {
    case program::EncoderOutput::kLogits:
      return labels_;
    case program::EncoderOutput::kTokens:
      return logits_ ? 0 : hidden_;
    case program::EncoderOutput::kPooled:
      return logits_ ? 0 : head_program_.values[head_program_.result].width;
  }
  return 0;
}

// ---- OnnxRunner

struct OnnxRunner::Memory {
  // Of an input: as it is wanted, 32 or 64 bits.
  struct Ids {
    std::vector<int64_t> wide;
    std::vector<int32_t> narrow;

    std::span<const std::byte> bytes() const {
      return wide.empty() ? std::as_bytes(std::span(narrow)) : std::as_bytes(std::span(wide));
    }
  };

  std::unique_ptr<openvino::InferRequest> request;
  std::unique_ptr<program::ProgramRun> head;
  std::vector<Ids> inputs;
  std::vector<size_t> order;
  std::vector<float> states;  // of a group's tokens, without padding
  std::vector<int32_t> zeros, offsets, skip;
  std::vector<float*> sinks;
};

class OnnxRunner::BatchRun {
 public:
  BatchRun(const OnnxEncoder& model, Memory* memory, const program::PackedBatch& batch,
           program::EncoderOutput output, std::span<float* const> sinks)
      : model_(model), memory_(*memory), batch_(batch), output_(output), sinks_(sinks) {}

  Status Run(program::BatchPause* pause) {
    PENSTOCK_RETURN_IF_ERROR(Check());
    std::vector<size_t>& order = memory_.order;
    order.resize(batch_.sequences());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return batch_.length(a) > batch_.length(b); });
    for (size_t first = 0; first < order.size();) {
      if (pause != nullptr) {
        if (first > 0) (void)pause->Pause();
        const auto unwanted = [&](size_t sequence) { return !pause->Wanted(sequence); };
        order.erase(
            std::remove_if(order.begin() + static_cast<ptrdiff_t>(first), order.end(), unwanted),
            order.end());
        if (first == order.size()) break;
      }
      const size_t padded =
          PaddedLength(Length(order[first]), static_cast<size_t>(model_.max_tokens_));
      const auto group = std::span(order).subspan(first, GroupSize(first, padded));
      PENSTOCK_RETURN_IF_ERROR(RunGroup(group, padded));
      first += group.size();
    }
    return Status::Ok();
  }

 private:
  size_t Length(size_t sequence) const { return static_cast<size_t>(batch_.length(sequence)); }

  Status Check() const {
    for (size_t s = 0; s < batch_.sequences(); ++s) {
      if (batch_.length(s) >= 1 && batch_.length(s) <= model_.max_tokens_) continue;
      return Status::InvalidArgument(fmt::format("a sequence of {} tokens; the model takes 1 to {}",
                                                 batch_.length(s), model_.max_tokens_),
                                     "inputs");
    }
    for (const int32_t id : batch_.ids) {
      if (id >= 0 && id < model_.vocabulary_) continue;
      return Status::InvalidArgument(
          fmt::format("token id {} is outside the vocabulary of {}", id, model_.vocabulary_),
          "inputs");
    }
    if (!model_.uses_type_ids()) return Status::Ok();
    for (const int32_t type : batch_.type_ids) {
      if (type >= 0 && type < model_.types_) continue;
      return Status::InvalidArgument(
          fmt::format("type id {} is outside the model's {}", type, model_.types_), "inputs");
    }
    return Status::Ok();
  }

  // A power of two of sequences, from `first` of the order on.
  size_t GroupSize(size_t first, size_t padded) const {
    const std::vector<size_t>& order = memory_.order;
    const size_t most = std::clamp<size_t>(kGroupTokens / padded, 1, kGroupRows);
    size_t rows = 1, tokens = Length(order[first]);
    while (rows < most && first + rows < order.size()) {
      const size_t length = Length(order[first + rows]);
      const bool close = padded - length < kStep;
      if (!close && 4 * (tokens + length) < 3 * (rows + 1) * padded) break;
      tokens += length;
      ++rows;
    }
    return std::bit_floor(rows);
  }

  // `value(sequence, place, length)` for each place of each row.
  template <typename T, typename Value>
  void Fill(std::span<const size_t> group, size_t padded, std::vector<T>* out, Value value) const {
    out->resize(group.size() * padded);
    for (size_t row = 0; row < group.size(); ++row) {
      const size_t length = Length(group[row]);
      for (size_t place = 0; place < padded; ++place) {
        (*out)[row * padded + place] = static_cast<T>(value(group[row], place, length));
      }
    }
  }

  template <typename Value>
  Status Bind(std::optional<size_t> input, std::span<const size_t> group, size_t padded,
              Value value) {
    if (!input) return Status::Ok();
    Memory::Ids& ids = memory_.inputs[*input];
    if (model_.compiled_->inputs()[*input].type == signature::ElementType::kInt64) {
      Fill(group, padded, &ids.wide, value);
    } else {
      Fill(group, padded, &ids.narrow, value);
    }
    const int64_t shape[] = {static_cast<int64_t>(group.size()), static_cast<int64_t>(padded)};
    return memory_.request->BindInput(*input, shape, ids.bytes());
  }

  Status RunGroup(std::span<const size_t> group, size_t padded) {
    const auto begin = [&](size_t sequence) {
      return static_cast<size_t>(batch_.offsets[sequence]);
    };
    PENSTOCK_RETURN_IF_ERROR(
        Bind(model_.ids_, group, padded, [&](size_t sequence, size_t place, size_t length) {
          return place < length ? batch_.ids[begin(sequence) + place] : model_.pad_;
        }));
    PENSTOCK_RETURN_IF_ERROR(
        Bind(model_.mask_, group, padded,
             [](size_t, size_t place, size_t length) { return place < length ? 1 : 0; }));
    PENSTOCK_RETURN_IF_ERROR(
        Bind(model_.type_ids_, group, padded, [&](size_t sequence, size_t place, size_t length) {
          const bool none = batch_.type_ids.empty() || place >= length;
          return none ? 0 : batch_.type_ids[begin(sequence) + place];
        }));
    PENSTOCK_RETURN_IF_ERROR(
        Bind(model_.positions_, group, padded, [](size_t, size_t place, size_t) { return place; }));
    PENSTOCK_RETURN_IF_ERROR(memory_.request->Run());
    PENSTOCK_ASSIGN_OR_RETURN(const openvino::OutputView view,
                              memory_.request->Output(model_.output_));
    return Deliver(group, padded, view);
  }

  Status Deliver(std::span<const size_t> group, size_t padded, const openvino::OutputView& view) {
    const auto rows = static_cast<int64_t>(group.size());
    const int32_t width = model_.logits_ ? model_.labels_ : model_.hidden_;
    std::vector<int64_t> shape = {rows};
    if (!model_.logits_) shape.push_back(static_cast<int64_t>(padded));
    shape.push_back(width);
    if (view.shape != shape) {
      return Status::Internal(fmt::format("the model gave {} where {} was to come",
                                          signature::ShapeText(view.shape),
                                          signature::ShapeText(shape)));
    }
    const auto size = static_cast<size_t>(width);
    if (output_ == program::EncoderOutput::kPooled) return Pool(group, padded, view);
    for (size_t row = 0; row < group.size(); ++row) {
      const bool tokens = output_ == program::EncoderOutput::kTokens;
      CopyRows(view, tokens ? row * padded : row, tokens ? Length(group[row]) : 1, size,
               sinks_[group[row]]);
    }
    return Status::Ok();
  }

  Status Pool(std::span<const size_t> group, size_t padded, const openvino::OutputView& view) {
    const auto width = static_cast<size_t>(model_.hidden_);
    memory_.offsets.assign(1, 0);
    memory_.sinks.clear();
    memory_.skip.clear();
    memory_.states.resize(group.size() * padded * width);
    for (size_t row = 0; row < group.size(); ++row) {
      const auto tokens = static_cast<size_t>(memory_.offsets.back());
      const size_t length = Length(group[row]);
      CopyRows(view, row * padded, length, width, memory_.states.data() + tokens * width);
      memory_.offsets.push_back(static_cast<int32_t>(tokens + length));
      memory_.sinks.push_back(sinks_[group[row]]);
      if (!batch_.pool_skip.empty()) memory_.skip.push_back(batch_.pool_skip[group[row]]);
    }
    const auto tokens = static_cast<size_t>(memory_.offsets.back());
    memory_.zeros.resize(std::max(memory_.zeros.size(), tokens), 0);
    program::PackedBatch pooled;
    pooled.ids = std::span(memory_.zeros).first(tokens);
    pooled.offsets = memory_.offsets;
    pooled.pool_skip = memory_.skip;
    pooled.input = std::span(memory_.states).first(tokens * width);
    return memory_.head->Run(0, pooled, memory_.sinks);
  }

  const OnnxEncoder& model_;
  Memory& memory_;
  const program::PackedBatch& batch_;
  const program::EncoderOutput output_;
  const std::span<float* const> sinks_;
};

OnnxRunner::OnnxRunner(std::shared_ptr<const OnnxEncoder> model) : model_(std::move(model)) {}

OnnxRunner::~OnnxRunner() = default;

Status OnnxRunner::Run(const program::PackedBatch& batch, program::EncoderOutput output,
                       std::span<float* const> sinks) {
  if (OutputWidth(output) == 0) {
    return Status::InvalidArgument("this model does not give that output", "model");
  }
  const std::lock_guard lock(mutex_);
  try {
    if (memory_ == nullptr) {
      auto memory = std::make_unique<Memory>();
      PENSTOCK_ASSIGN_OR_RETURN(memory->request, model_->compiled_->NewRequest());
      memory->inputs.resize(model_->compiled_->inputs().size());
      if (!model_->logits_) {
        PENSTOCK_ASSIGN_OR_RETURN(memory->head, model_->backend_->Prepare(model_->head_program_));
      }
      memory_ = std::move(memory);
    }
    held_.store(
        std::max(held_.load(std::memory_order_relaxed), model_->BytesFor(2 * batch.tokens())),
        std::memory_order_relaxed);
    return BatchRun(*model_, memory_.get(), batch, output, sinks).Run(pause());
  } catch (...) {
    return ExceptionStatus();
  }
}

uint64_t OnnxRunner::BytesFor(size_t tokens, size_t /*sequences*/) const {
  return model_->BytesFor(2 * tokens);  // a part of them padding
}

uint64_t OnnxRunner::ReleaseMemory() {
  uint64_t released = 0;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || memory_ == nullptr) return 0;
    memory_.reset();
    released = held_.exchange(0, std::memory_order_relaxed);
  }
  TrimHeap();  // takes milliseconds, in which a batch may run
  return released;
}

}  // namespace penstock::engine
