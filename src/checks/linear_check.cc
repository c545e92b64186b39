#include "checks/linear_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "families/decoder_files.h"
#include "families/gguf_encoder.h"
#include "families/list.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/weight_reader.h"
#include "program/backend.h"
#include "program/view.h"

namespace penstock::checks {
namespace {

// Rows of x: an odd number, so that kernels have a rest.
constexpr int32_t kRows = 3;
// Columns of the result that are worked out plainly, about.
constexpr int64_t kColumns = 256;

// The first linear layer that is added to its layer's input: that after attention.
const program::PackedLinear* FirstAdded(const program::Program& program) {
  for (const program::Op& op : program.ops) {
    const program::LinearOp* linear = std::get_if<program::LinearOp>(&op);
    if (linear != nullptr && linear->residual.value != program::kNoValue) return linear->weight;
  }
  return nullptr;
}

std::vector<float> RowOf(const program::TensorView& view, int64_t row) {
  std::vector<float> values(static_cast<size_t>(view.columns));
  view.CopyToF32(row, 1, values.data());
  return values;
}

// The largest difference of y = x W^T + bias from plain arithmetic, of the largest number. `x` and
// `y`: rows.
double Difference(const std::vector<std::vector<float>>& x, const program::LinearRows& layer,
                  const std::vector<std::span<const float>>& y) {
  const int64_t outputs = layer.weight.rows;
  // Odd, so that every place in a panel has its turn.
  const int64_t stride = (outputs / kColumns) | 1;
  const std::vector<float> bias =
      layer.bias.data == nullptr ? std::vector<float>() : RowOf(layer.bias, 0);
  double largest = 0, error = 0;
  for (int64_t column = 0; column < outputs; column += stride) {
    const std::vector<float> weights = RowOf(layer.weight, column);
    const auto at = static_cast<size_t>(column);
    for (size_t row = 0; row < x.size(); ++row) {
      const double plain = std::inner_product(weights.begin(), weights.end(), x[row].begin(),
                                              bias.empty() ? 0.0 : double{bias[at]});
      const double got = y[row][at];
      if (!std::isfinite(plain)) continue;  // the weights are not; no kernel's fault
      if (!std::isfinite(got)) return std::numeric_limits<double>::infinity();
      largest = std::max({largest, std::abs(plain), std::abs(got)});
      error = std::max(error, std::abs(plain - got));
    }
  }
  return largest == 0 ? 0 : error / largest;
}

}  // namespace

double KernelTolerance(numbers::DType dtype) {
  if (dtype == numbers::DType::kBf16) return 3e-2;
  if (dtype == numbers::DType::kF16) return 1e-2;
  return dtype == numbers::DType::kI8 ? 1e-1 : 1e-3;
}

double CosineTolerance(numbers::DType dtype) {
  if (dtype == numbers::DType::kBf16) return 2e-3;
  if (dtype == numbers::DType::kF16) return 5e-4;
  return dtype == numbers::DType::kI8 ? 1e-2 : 1e-4;
}

Expected<program::KernelDifference> CheckEncoderLinear(const models::EncoderModel& model,
                                                       program::Backend* backend) {
  const families::ModelFolder& folder = model.folder();
  const families::EncoderFamily* const family =
      families::EncoderOfModelType(folder.encoder.model_type);
  const program::PackedLinear* const attention_out =
      FirstAdded(*model.program(program::EncoderOutput::kTokens));
  if (family == nullptr || attention_out == nullptr)
    return program::KernelDifference();  // no layers
  const families::EncoderArchitecture& names = family->architecture;
  const program::PackedLinear& linear = *attention_out;
  program::KernelDifference check;
  check.of = std::string(names.layer) + "0." + std::string(names.attention_out);
  check.error_max = KernelTolerance(linear.dtype());

  PENSTOCK_ASSIGN_OR_RETURN(const auto store, families::OpenEncoderTensors(folder.path));
  models::EncoderWeights counts;
  models::WeightReader reader(*store, names.prefix, &counts);
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<program::LinearRows> stored,
                            reader.Linears({check.of}, linear.out(), linear.in()));

  program::Program program;
  program.max_length = kRows;
  const program::ValueId input = program.AddValue(program::Rows::kTokens, linear.in());
  program.result = program.AddValue(program::Rows::kTokens, linear.out());
  program.ops = {program::InputOp{input},
                 program::LinearOp{.x = input, .weight = &linear, .y = program.result}};
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(program));

  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto in = static_cast<size_t>(linear.in()), out = static_cast<size_t>(linear.out());
  std::vector<float> x(kRows * in), y(kRows * out);
  std::generate(x.begin(), x.end(), [&] { return uniform(random); });
  const std::vector<int32_t> ids(kRows), offsets = {0, kRows};
  float* const sink = y.data();
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, backend->Prepare(program));
  PENSTOCK_RETURN_IF_ERROR(run->Run(0, {ids, {}, offsets, {}, x}, {&sink, 1}));

  std::vector<std::vector<float>> inputs;
  std::vector<std::span<const float>> results;
  for (size_t row = 0; row < kRows; ++row) {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(row * in);
    inputs.emplace_back(begin, begin + static_cast<ptrdiff_t>(in));
    results.push_back(std::span(y).subspan(row * out, out));
  }
  check.error = Difference(inputs, stored[0], results);
  return check;
}

Expected<program::KernelDifference> CheckDecoderLinear(const models::DecoderModel& model,
                                                       const families::DecoderFiles& files,
                                                       numbers::DType cache_type,
                                                       program::Backend* backend) {
  const auto* const embed = program::FirstOp<program::EmbedOp>(model.program());
  const auto* const attention = program::FirstOp<program::AttentionOp>(model.program());
  const auto* const feed = program::FirstOp<program::FeedForwardOp>(model.program());
  if (embed == nullptr || attention == nullptr || feed == nullptr)
    return program::KernelDifference();
  const files::TensorRecord& words = files.tensors.embedding;
  const families::DecoderLinear& gate = files.tensors.layers[0].gate;
  program::KernelDifference check;
  check.of = gate.weight.name;
  check.error_max = KernelTolerance(feed->in->dtype());

  // The gate stands where logits do. Its attention is there because steps need a cache.
  program::Program program;
  program.max_length = model.program().max_length;
  program.rope_switch = model.program().rope_switch;
  const program::ValueId x = program.AddValue(program::Rows::kTokens, feed->in->in());
  const program::AttentionShape& shape = attention->shape;
  const program::ValueId attended =
      program.AddValue(program::Rows::kTokens, shape.heads * shape.head_size);
  program.result = program.AddValue(program::Rows::kSequences, feed->in->out());
  program::AttentionOp attend = *attention;
  attend.x = x;
  attend.y = attended;
  program.ops = {program::EmbedOp{.matrix = embed->matrix, .y = x}, attend,
                 program::PicksOp{.x = x, .weight = feed->in, .y = program.result}};
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(program));

  program::PrepareOptions options;
  options.cache_type = cache_type;
  options.rows = options.picks = std::min(kRows, program.max_length);
  options.blocks = {1};
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, backend->Prepare(program, options));
  const int32_t vocabulary = static_cast<int32_t>(embed->vocabulary());
  std::vector<int32_t> ids, rows;
  for (int32_t row = 0; row < options.rows; ++row) {
    ids.push_back((100 + 37 * row) % vocabulary);
    rows.push_back(row);
  }
  const BlockTable table = {0};
  const bool long_rope = run->LongRope(ids.size());
  const program::SingleSequence sequence(options.rows, 0, table, long_rope);
  PENSTOCK_RETURN_IF_ERROR(run->Run(sequence.Batch(ids, rows)));

  const program::TensorView stored = {words.dtype, words.shape[0], words.shape[1],
                                      words.data.data()};
  program::LinearRows layer;
  layer.weight = {gate.weight.dtype, gate.weight.shape[0], gate.weight.shape[1],
                  gate.weight.data.data()};
  if (gate.bias) {
    layer.bias = {gate.bias->dtype, 1, gate.bias->elements(), gate.bias->data.data()};
  }
  std::vector<std::vector<float>> inputs;
  std::vector<std::span<const float>> results;
  for (size_t row = 0; row < ids.size(); ++row) {
    inputs.push_back(RowOf(stored, ids[row]));
    PENSTOCK_ASSIGN_OR_RETURN(results.emplace_back(), run->Row(row));
  }
  check.error = Difference(inputs, layer, results);
  return check;
}

}  // namespace penstock::checks
