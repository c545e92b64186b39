// The inputs of one request as the model takes them: ids, cut to its limit, special tokens around.
//
// A RequestTokenizer is made for a request and works on its items in any order, in any number of
// threads. No more of a text is read than the limit needs (text/limited_text.h). Text that
// items share is tokenized once: the query of a rerank request, and the prompt, up to the last word
// of it where a cut is exact (Tokenizer::CutBefore); a prompt without such a place is tokenized
// with its text.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "encode/encode_pipeline.h"
#include "encode/token_cache.h"
#include "text/limited_text.h"

namespace penstock::encode {

// The tokens of a run of items. `lengths` and `pool_skip` as EncodeJob.
struct TokenizedItems {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<int32_t> lengths;
  std::vector<int32_t> pool_skip;
  Truncation truncation;
};

class RequestTokenizer {
 public:
  // Plan and cache must outlive it.
  RequestTokenizer(const EncodePlan* plan, TokenCache* cache);

  // Buffers of one thread, used again from item to item.
  struct Scratch {
    text::LimitedTokens first, second;
    text::Encoding encoding;
  };
  // Appends item `i` to *out. An error names the item's field.
  Status Add(size_t i, Scratch* scratch, TokenizedItems* out);

 private:
  // The part of one text or pair that was cut off.
  struct Cut {
    size_t tokens = 0;
    size_t unread_bytes = 0;
  };

  Status AddIds(const EncodeItem& item, TokenizedItems* out, Cut* cut) const;
  Status AddText(const EncodeItem& item, Scratch* scratch, TokenizedItems* out, Cut* cut);
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids);
  // limit 0: all tokens.
  Status TextTokens(std::string_view text, size_t limit, text::LimitedTokens* out);
  Status PromptedTokens(std::string_view text, size_t limit, text::LimitedTokens* out);
  Status FirstTokens(const EncodeItem& item, size_t limit, text::LimitedTokens* out);
  Status SecondTokens(const EncodeItem& item, size_t limit, text::LimitedTokens* out);
  Status CountPromptTokens();
  bool SharesFirst(const EncodeItem& item) const;

  const EncodePlan& plan_;
  const engine::EncoderEngine& engine_;
  TokenCache* const cache_;
  const StopCondition stop_;
  const std::string prompt_;  // as the tokenizer gets it

  // Made by the first item that needs them.
  std::once_flag prompt_once_;
  Status prompt_status_;
  size_t prompt_tokens_ = 0;  // of the prompt alone, where pooling leaves it out
  std::once_flag head_once_;
  Status head_status_;
  size_t head_bytes_ = 0;  // of prompt_, tokenized by themselves
  std::vector<int32_t> head_ids_;
  std::once_flag first_once_;
  Status first_status_;
  text::LimitedTokens first_;  // of items that share it
};

}  // namespace penstock::encode
