// SuffixTokenizer: a tokenizer that puts further tokens behind its template's: the end token that
// an embedding model was trained with, or what follows the document in a reranker's prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace penstock::engine {

// Only with EncodeOptions::add_special_tokens, and within its max_tokens. Pairs take it as single
// texts do. own_template false: the tokenizer's own template is left out.
class SuffixTokenizer final : public text::Tokenizer {
 public:
  SuffixTokenizer(std::unique_ptr<text::Tokenizer> inner, std::vector<int32_t> suffix,
                  bool own_template)
      : inner_(std::move(inner)), suffix_(std::move(suffix)), own_template_(own_template) {}

  Status Encode(std::string_view text, const text::EncodeOptions& options,
                text::Encoding* out) const override;
  Status EncodePair(std::string_view first, std::string_view second,
                    const text::EncodeOptions& options, text::Encoding* out) const override;
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const override {
    return inner_->EncodeText(text, ids);
  }
  Status EncodeTextUntil(std::string_view text, const StopCondition& stop,
                         std::vector<int32_t>* ids) const override {
    return inner_->EncodeTextUntil(text, stop, ids);
  }
  Status Combine(std::span<const int32_t> first, const std::span<const int32_t>* second,
                 const text::EncodeOptions& options, text::Encoding* out) const override;
  size_t CutBefore(std::string_view text, size_t low, size_t high, bool both) const override {
    return inner_->CutBefore(text, low, high, both);
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    return inner_->Decode(ids, skip_special_tokens);
  }
  std::unique_ptr<text::StreamDecoder> NewStreamDecoder(bool skip_special_tokens,
                                                        std::vector<int32_t> shown) const override {
    return inner_->NewStreamDecoder(skip_special_tokens, std::move(shown));
  }
  int32_t vocab_size() const override { return inner_->vocab_size(); }
  std::string_view IdToToken(int32_t id) const override { return inner_->IdToToken(id); }
  int32_t TokenToId(std::string_view token) const override { return inner_->TokenToId(token); }
  bool IsSpecial(int32_t id) const override { return inner_->IsSpecial(id); }
  size_t special_tokens_single() const override {
    return (own_template_ ? inner_->special_tokens_single() : 0) + suffix_.size();
  }
  size_t special_tokens_pair() const override {
    return (own_template_ ? inner_->special_tokens_pair() : 0) + suffix_.size();
  }
  std::string_view model_type() const override { return inner_->model_type(); }

 private:
  // With `inner_`'s share of the limit in place of the whole one.
  template <typename Run>
  Status WithSuffix(const text::EncodeOptions& options, text::Encoding* out, const Run& run) const;

  const std::unique_ptr<text::Tokenizer> inner_;
  const std::vector<int32_t> suffix_;
  const bool own_template_;
};

}  // namespace penstock::engine
