#include "models/decoder_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "models/activations.h"
#include "models/rotary.h"

namespace penstock::models {
namespace {

class Loader {
 public:
  Loader(const families::DecoderFiles& files, program::Backend* backend,
         const DecoderOptions& options, DecoderWeights* out)
      : files_(files), config_(files.config), backend_(backend), options_(options), out_(out) {}

  Status Load() {
    PENSTOCK_RETURN_IF_ERROR(ChooseContext());
    const families::DecoderTensors& tensors = files_.tensors;
    PENSTOCK_ASSIGN_OR_RETURN(out_->output_norm, NormOf(tensors.output_norm));
    out_->layers.resize(tensors.layers.size());
    for (size_t i = 0; i < tensors.layers.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(LoadNorms(tensors.layers[i], config_.layers[i], &out_->layers[i]));
    }
    // Matrices are packed in a row, without other work between, so that they share turns.
    PENSTOCK_ASSIGN_OR_RETURN(out_->embedding, Matrix(tensors.embedding, nullptr));
    for (size_t i = 0; i < tensors.layers.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(LoadMatrices(tensors.layers[i], &out_->layers[i]));
    }
    if (!tensors.tied && files_.use == families::DecoderUse::kGenerate) {
      PENSTOCK_ASSIGN_OR_RETURN(out_->untied_output, Linear(tensors.output));
    }
    turn_.GiveBack();
    return files_.store == nullptr ? Status::Ok() : files_.store->Check();
  }

 private:
  Status ChooseContext() {
    if (options_.context < 0 || options_.context > config_.context) {
      return Status::InvalidArgument(fmt::format("a context of {} tokens, the model has {}",
                                                 options_.context, config_.context),
                                     "context");
    }
    out_->context = options_.context == 0 ? config_.context : options_.context;
    out_->rope_switch = RopeSwitchOf(config_, out_->context);
    return Status::Ok();
  }

  Status LoadNorms(const families::DecoderLayerTensors& from,
                   const families::DecoderLayerConfig& config, DecoderLayer* to) {
    to->window = config.window >= out_->context ? 0 : config.window;
    PENSTOCK_ASSIGN_OR_RETURN(to->attention_norm, NormOf(from.attention_norm));
    PENSTOCK_ASSIGN_OR_RETURN(to->q_norm, NormOf(from.q_norm));
    PENSTOCK_ASSIGN_OR_RETURN(to->k_norm, NormOf(from.k_norm));
    if (config.rope) {
      const bool two = config.rope_scaled && out_->rope_switch > 0;
      std::tie(to->rope_cos, to->rope_sin) =
          Rotary(config, two ? out_->rope_switch : out_->context, false);
      if (two) std::tie(to->long_rope_cos, to->long_rope_sin) = Rotary(config, out_->context, true);
    }
    PENSTOCK_ASSIGN_OR_RETURN(to->post_attention_norm, NormOf(from.post_attention_norm));
    PENSTOCK_ASSIGN_OR_RETURN(to->ff_norm, NormOf(from.ff_norm));
    PENSTOCK_ASSIGN_OR_RETURN(to->post_ff_norm, NormOf(from.post_ff_norm));
    return Status::Ok();
  }

  Status LoadMatrices(const families::DecoderLayerTensors& from, DecoderLayer* to) {
    PENSTOCK_ASSIGN_OR_RETURN(to->q, Linear(from.q));
    PENSTOCK_ASSIGN_OR_RETURN(to->k, Linear(from.k));
    PENSTOCK_ASSIGN_OR_RETURN(to->v, Linear(from.v));
    PENSTOCK_ASSIGN_OR_RETURN(to->attention_out, Linear(from.attention_out));
    PENSTOCK_ASSIGN_OR_RETURN(to->gate, Linear(from.gate));
    PENSTOCK_ASSIGN_OR_RETURN(to->up, Linear(from.up));
    PENSTOCK_ASSIGN_OR_RETURN(to->down, Linear(from.down));
    return Status::Ok();
  }

  const program::Table* Keep(int64_t rows, int32_t width, const program::Backend::FillRows& fill) {
    out_->tables.push_back(backend_->Keep(rows, width, fill));
    const program::Table* table = out_->tables.back().get();
    out_->bytes += table->bytes();
    return table;
  }

  Expected<program::Norm> NormOf(const files::TensorRecord& weight) {
    std::vector<float> gamma(static_cast<size_t>(weight.elements()));
    PENSTOCK_RETURN_IF_ERROR(weight.CopyToF32(gamma));
    if (config_.unit_offset_norms) {
      for (float& x : gamma) x += 1;
    }
    out_->parameters += gamma.size();
    const auto fill = [&gamma](int64_t, std::span<float> rows) {
      std::copy(gamma.begin(), gamma.end(), rows.begin());
    };
    return program::Norm{.gamma = Keep(1, static_cast<int32_t>(gamma.size()), fill),
                         .epsilon = config_.rms_epsilon,
                         .kind = program::NormKind::kRms};
  }
  Expected<program::Norm> NormOf(const std::optional<files::TensorRecord>& weight) {
    if (!weight) return program::Norm();
    return NormOf(*weight);
  }

  // Cosines and sines of so many positions, the same tables for layers that rotate alike.
  std::pair<const program::Table*, const program::Table*> Rotary(
      const families::DecoderLayerConfig& layer, int32_t positions, bool long_factors) {
    auto& tables = rotary_[{layer.rope_theta, layer.rope_scaled, long_factors}];
    if (tables.first != nullptr) return tables;
    const RotaryAngles angles = RotaryAnglesOf(config_, layer, long_factors);
    const size_t pairs = angles.frequencies.size();
    const auto keep = [&](double (*function)(double)) {
      return Keep(positions, config_.rope_size / 2, [&](int64_t first, std::span<float> rows) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const double position = static_cast<double>(first) + static_cast<double>(i / pairs);
          rows[i] = static_cast<float>(function(position * angles.frequencies[i % pairs]) *
                                       angles.factor);
        }
      });
    };
    tables = {keep([](double x) { return std::cos(x); }),
              keep([](double x) { return std::sin(x); })};
    return tables;
  }

  numbers::DType TypeOf(numbers::DType stored) const {
    return options_.dtype ? *options_.dtype : backend_->StepDType(stored);
  }

  Expected<std::unique_ptr<program::PackedLinear>> Linear(const families::DecoderLinear& linear) {
    return Matrix(linear.weight, linear.bias ? &*linear.bias : nullptr);
  }
  Expected<std::unique_ptr<program::PackedLinear>> Matrix(const files::TensorRecord& weight,
                                                          const files::TensorRecord* bias) {
    program::LinearRows rows;
    rows.weight = {weight.dtype, weight.shape[0], weight.shape[1], weight.data.data()};
    if (bias != nullptr) rows.bias = {bias->dtype, 1, bias->elements(), bias->data.data()};
    program::PackOptions options;
    options.dtype = TypeOf(weight.dtype);
    options.as_stored = true;
    options.mapped_file = files_.store != nullptr;
    options.turn = &turn_;
    auto packed = backend_->Pack({&rows, 1}, options);
    if (!packed.ok()) {
      return Status(packed.status().code(), weight.name + ": " + packed.status().message(),
                    packed.status().field());
    }
    out_->parameters += static_cast<uint64_t>(weight.elements());
    if (bias != nullptr) out_->parameters += static_cast<uint64_t>(bias->elements());
    out_->bytes += (*packed)->bytes();
    return packed;
  }

  const families::DecoderFiles& files_;
  const families::DecoderConfig& config_;
  program::Backend* const backend_;
  const DecoderOptions& options_;
  DecoderWeights* const out_;
  gate::LoadTurn turn_{&backend_->gate()};
  std::map<std::tuple<float, bool, bool>, std::pair<const program::Table*, const program::Table*>>
      rotary_;
};

}  // namespace

Expected<std::unique_ptr<DecoderWeights>> LoadDecoderWeights(const families::DecoderFiles& files,
                                                             program::Backend* backend,
                                                             const DecoderOptions& options) {
  auto weights = std::make_unique<DecoderWeights>();
  PENSTOCK_RETURN_IF_ERROR(Loader(files, backend, options, weights.get()).Load());
  return weights;
}

}  // namespace penstock::models
