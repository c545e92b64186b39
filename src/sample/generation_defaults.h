// The generation_config.json of a model folder: what its makers recommend for sampling, and the
// tokens that end its text. Fields are those of transformers' GenerationConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sample/sampling_options.h"

namespace penstock::sample {

inline constexpr size_t kGenerationConfigBytesMax = 1 << 20;
inline constexpr size_t kEosTokensMax = 64;

// The settings that the file gives. A setting that the file lacks is absent here: no default takes
// its place (transformers would add top_k 50 to do_sample).
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<int32_t> max_new_tokens;
  std::vector<int32_t> eos_token_ids;     // a number or a list in the file; each id once, ascending
  std::vector<std::string> stop_strings;  // as SamplingOptions::stop; a string or a list
  std::optional<int32_t> bos_token_id, pad_token_id;

  // Reads a file's text. Unknown fields are passed over, and max_length, for which the context
  // stands. Errors name the field: kInvalidArgument for a wrong type or a value outside the
  // range (those of SamplingOptions; token ids below `vocabulary`, at most kEosTokensMax ends);
  // kPayloadTooLarge for more than kGenerationConfigBytesMax bytes; kUnsupported for a setting that
  // changes what is generated and that Penstock does not implement, such as num_beams above 1.
  static Expected<GenerationDefaults> FromJson(std::string_view text, int32_t vocabulary);
  // As FromJson; kNotFound where there is no such file.
  static Expected<GenerationDefaults> FromFile(const std::string& path, int32_t vocabulary);

  // Sets the fields that the file has. do_sample false: temperature 0, which is greedy, whatever
  // temperature it names.
  void ApplyTo(SamplingOptions* options) const;
};

}  // namespace penstock::sample
