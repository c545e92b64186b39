#include "engine/suffix_tokenizer.h"

#include <string>

namespace penstock::engine {

template <typename Run>
Status SuffixTokenizer::WithSuffix(const text::EncodeOptions& options, text::Encoding* out,
                                   const Run& run) const {
  if (!options.add_special_tokens) return run(options);
  text::EncodeOptions shorter = options;
  shorter.add_special_tokens = own_template_;
  if (options.max_tokens > 0) {
    if (options.max_tokens <= suffix_.size()) {
      return Status::InvalidArgument("the limit of " + std::to_string(options.max_tokens) +
                                         " tokens is smaller than the model's own template",
                                     "max_tokens");
    }
    shorter.max_tokens -= suffix_.size();
  }
  PENSTOCK_RETURN_IF_ERROR(run(shorter));
  for (const int32_t id : suffix_) {
    out->ids.push_back(id);
    out->type_ids.push_back(0);
    out->special_mask.push_back(1);
    out->sequence_ids.push_back(-1);
    if (options.with_offsets) out->offsets.emplace_back();
  }
  return Status::Ok();
}

Status SuffixTokenizer::Encode(std::string_view text, const text::EncodeOptions& options,
                               text::Encoding* out) const {
  return WithSuffix(options, out, [&](const text::EncodeOptions& shorter) {
    return inner_->Encode(text, shorter, out);
  });
}

Status SuffixTokenizer::EncodePair(std::string_view first, std::string_view second,
                                   const text::EncodeOptions& options, text::Encoding* out) const {
  return WithSuffix(options, out, [&](const text::EncodeOptions& shorter) {
    return inner_->EncodePair(first, second, shorter, out);
  });
}

Status SuffixTokenizer::Combine(std::span<const int32_t> first,
                                const std::span<const int32_t>* second,
                                const text::EncodeOptions& options, text::Encoding* out) const {
  return WithSuffix(options, out, [&](const text::EncodeOptions& shorter) {
    return inner_->Combine(first, second, shorter, out);
  });
}

}  // namespace penstock::engine
