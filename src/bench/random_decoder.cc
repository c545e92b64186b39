#include "bench/random_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "numbers/random_blocks.h"

namespace penstock::bench {
namespace {

struct Shape {
  const char* name;
  const char* architecture;
  int32_t layers, hidden, heads, kv_heads, head_size, inner, vocabulary, context;
  bool tied, biases, head_norms;
};

// "tiny" is for simulations, in which nothing is computed by it; the others are
// from the configurations of TinyLlama-1.1B, Qwen2.5-0.5B, Qwen3-0.6B, SmolLM2-135M, Llama-3.2-1B.
constexpr Shape kShapes[] = {
    {"llama-1b", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 16384, false, false, false},
    {"qwen2-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, true, true, false},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, true, false, true},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, true, false, false},
    {"llama3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, false, false},
    {"tiny", "llama", 1, 32, 2, 1, 16, 32, 32, 2048, true, false, false},
};

// The type of most matrices, and of those that mixes keep in a larger one: the output, and v and
// down of half of the layers.
struct Mix {
  const char* name;
  numbers::DType most, more;
};
constexpr Mix kMixes[] = {
    {"q8_0", numbers::DType::kQ8_0, numbers::DType::kQ8_0},
    {"q4_0", numbers::DType::kQ4_0, numbers::DType::kQ4_0},
    {"q4_1", numbers::DType::kQ4_1, numbers::DType::kQ4_1},
    {"q5_0", numbers::DType::kQ5_0, numbers::DType::kQ5_0},
    {"q4_k_m", numbers::DType::kQ4K, numbers::DType::kQ6K},
    {"q5_k_m", numbers::DType::kQ5K, numbers::DType::kQ6K},
    {"q6_k", numbers::DType::kQ6K, numbers::DType::kQ6K},
    {"bf16", numbers::DType::kBf16, numbers::DType::kBf16},
    {"f32", numbers::DType::kF32, numbers::DType::kF32},
};

numbers::DType Fitting(numbers::DType type, int64_t columns) {
  if (columns % static_cast<int64_t>(numbers::BlockOf(type).elements) == 0) return type;
  if (type == numbers::DType::kQ4K) return numbers::DType::kQ5_0;
  return type == numbers::DType::kQ5K ? numbers::DType::kQ5_1 : numbers::DType::kQ8_0;
}

class Builder {
 public:
  explicit Builder(RandomDecoder* out) : out_(out) {}

  files::TensorRecord Matrix(numbers::DType type, int64_t rows, int64_t columns) {
    type = Fitting(type, columns);
    const size_t row_bytes = numbers::StoredBytes(type, static_cast<size_t>(columns));
    // A few rows, again and again.
    const size_t few = std::min<size_t>(static_cast<size_t>(rows), 64);
    const std::vector<std::byte> pattern = numbers::RandomWeights(
        type, few, static_cast<size_t>(columns), static_cast<uint32_t>(out_->memory.size()) + 1);
    std::vector<std::byte>& bytes =
        out_->memory.emplace_back(row_bytes * static_cast<size_t>(rows));
    for (size_t at = 0; at < bytes.size(); at += pattern.size()) {
      std::memcpy(bytes.data() + at, pattern.data(), std::min(pattern.size(), bytes.size() - at));
    }
    return {"", type, {rows, columns}, bytes};
  }
  files::TensorRecord Vector(int64_t width, float value) {
    std::vector<std::byte>& bytes =
        out_->memory.emplace_back(static_cast<size_t>(width) * sizeof(float));
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      std::memcpy(bytes.data() + i, &value, sizeof(value));
    }
    return {"", numbers::DType::kF32, {width}, bytes};
  }

 private:
  RandomDecoder* const out_;
};

families::DecoderConfig ConfigOf(const Shape& shape) {
  families::DecoderConfig config;
  config.architecture = shape.architecture;
  config.vocab_size = shape.vocabulary;
  config.hidden_size = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_size = config.rope_size = shape.head_size;
  config.intermediate_size = shape.inner;
  config.context = shape.context;
  config.rms_epsilon = 1e-5f;
  config.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
  config.layers.resize(static_cast<size_t>(shape.layers), {.rope_theta = 10000});
  return config;
}

families::DecoderLayerTensors LayerOf(const Shape& shape, const Mix& mix, bool larger,
                                      Builder* builder) {
  const int64_t width = int64_t{shape.heads} * shape.head_size;
  const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_size;
  const numbers::DType some = larger ? mix.more : mix.most;
  const auto biased = [&](files::TensorRecord weight) {
    families::DecoderLinear linear = {std::move(weight), {}};
    if (shape.biases) linear.bias = builder->Vector(linear.weight.shape[0], 0.01f);
    return linear;
  };
  families::DecoderLayerTensors layer;
  layer.attention_norm = builder->Vector(shape.hidden, 1);
  layer.q = biased(builder->Matrix(mix.most, width, shape.hidden));
  layer.k = biased(builder->Matrix(mix.most, kv_width, shape.hidden));
  layer.v = biased(builder->Matrix(some, kv_width, shape.hidden));
  if (shape.head_norms) {
    layer.q_norm = builder->Vector(shape.head_size, 1);
    layer.k_norm = builder->Vector(shape.head_size, 1);
  }
  layer.attention_out = {builder->Matrix(mix.most, shape.hidden, width), {}};
  layer.ff_norm = builder->Vector(shape.hidden, 1);
  layer.gate = {builder->Matrix(mix.most, shape.inner, shape.hidden), {}};
  layer.up = {builder->Matrix(mix.most, shape.inner, shape.hidden), {}};
  layer.down = {builder->Matrix(some, shape.hidden, shape.inner), {}};
  return layer;
}

template <typename T, size_t kCount>
const T* FindNamed(const T (&all)[kCount], const std::string& name) {
  for (const T& one : all) {
    if (name == one.name) return &one;
  }
  return nullptr;
}
template <typename T, size_t kCount>
std::vector<std::string> NamesOf(const T (&all)[kCount]) {
  std::vector<std::string> names;
  for (const T& one : all) names.emplace_back(one.name);
  return names;
}

}  // namespace

std::vector<std::string> DecoderShapes() { return NamesOf(kShapes); }
std::vector<std::string> DecoderMixes() { return NamesOf(kMixes); }

Expected<std::unique_ptr<RandomDecoder>> RandomDecoder::Make(const std::string& shape_name,
                                                             const std::string& mix_name) {
  const Shape* shape = FindNamed(kShapes, shape_name);
  const Mix* mix = FindNamed(kMixes, mix_name);
  if (shape == nullptr || mix == nullptr) {
    return Status::InvalidArgument(fmt::format("no shape '{}' of type '{}'", shape_name, mix_name),
                                   shape == nullptr ? "shape" : "type");
  }
  auto random = std::make_unique<RandomDecoder>();
  Builder builder(random.get());
  families::DecoderTensors& tensors = random->files.tensors;
  random->files.config = ConfigOf(*shape);
  tensors.embedding =
      builder.Matrix(shape->tied ? mix->more : mix->most, shape->vocabulary, shape->hidden);
  tensors.output_norm = builder.Vector(shape->hidden, 1);
  tensors.tied = shape->tied;
  tensors.output = {
      shape->tied ? tensors.embedding : builder.Matrix(mix->more, shape->vocabulary, shape->hidden),
      {}};
  for (int32_t i = 0; i < shape->layers; ++i) {
    tensors.layers.push_back(LayerOf(*shape, *mix, i % 2 == 1, &builder));
  }
  return random;
}

}  // namespace penstock::bench
