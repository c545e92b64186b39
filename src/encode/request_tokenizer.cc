#include "encode/request_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "unicode/lower_case.h"

namespace penstock::encode {

RequestTokenizer::RequestTokenizer(const EncodePlan* plan, TokenCache* cache)
    : plan_(*plan),
      engine_(*plan->engine),
      cache_(cache),
      stop_{plan->context.cancel.get(), plan->context.deadline},
      prompt_(PreparedText(engine_, plan->prompt, "")) {}

Status RequestTokenizer::Add(size_t i, Scratch* scratch, TokenizedItems* out) {
  const EncodeItem& item = plan_.items[i];
  const bool skips_prompt = !plan_.prompt.empty() && !engine_.folder().include_prompt;
  if (skips_prompt) {
    std::call_once(prompt_once_, [this] { prompt_status_ = CountPromptTokens(); });
    PENSTOCK_RETURN_IF_ERROR(prompt_status_);
  }
  Cut cut;
  const size_t before = out->ids.size();
  PENSTOCK_RETURN_IF_ERROR(item.is_ids ? AddIds(item, out, &cut)
                                       : AddText(item, scratch, out, &cut));
  const size_t length = out->ids.size() - before;
  if (length == 0) {
    return Status::InvalidArgument(
        item.field + " has no tokens; an empty text needs a model that adds special tokens",
        item.field);
  }
  const auto max_tokens = static_cast<size_t>(engine_.info().max_tokens);
  if (length > max_tokens) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("{} has {} tokens; the model takes {}, and truncation is off", item.field,
                        length, max_tokens),
            item.field};
  }
  out->lengths.push_back(static_cast<int32_t>(length));
  if (skips_prompt && prompt_tokens_ > 0) {
    // A cut on the left removes the prompt first; one token is always left to pool.
    size_t skip = item.is_ids ? 0 : prompt_tokens_;
    if (plan_.side == text::TruncationSide::kLeft) skip -= std::min(skip, cut.tokens);
    out->pool_skip.push_back(static_cast<int32_t>(std::min(skip, length - 1)));
  }
  out->truncation.inputs += cut.tokens > 0;
  out->truncation.tokens += static_cast<int64_t>(cut.tokens);
  out->truncation.unread_bytes += static_cast<int64_t>(cut.unread_bytes);
  return Status::Ok();
}

// As sentence-transformers counts: the prompt tokenized alone, less the special token at its end.
Status RequestTokenizer::CountPromptTokens() {
  std::vector<int32_t> ids;
  PENSTOCK_RETURN_IF_ERROR(EncodeText(prompt_, &ids));
  text::EncodeOptions options;
  options.add_special_tokens = plan_.add_special_tokens;
  text::Encoding encoding;
  PENSTOCK_RETURN_IF_ERROR(engine_.tokenizer().Combine(ids, nullptr, options, &encoding));
  prompt_tokens_ = encoding.ids.size();
  if (!encoding.ids.empty() && encoding.special_mask.back() != 0) --prompt_tokens_;
  return Status::Ok();
}

Status RequestTokenizer::AddIds(const EncodeItem& item, TokenizedItems* out, Cut* cut) const {
  const int32_t vocab_size = engine_.folder().encoder.vocab_size;
  for (size_t i = 0; i < item.ids.size(); ++i) {
    if (item.ids[i] >= 0 && item.ids[i] < vocab_size) continue;
    return Status::InvalidArgument(
        fmt::format("{}[{}]: {} is not a token id; the vocabulary has {}, so they are 0 to {}",
                    item.field, i, item.ids[i], vocab_size, vocab_size - 1),
        item.field);
  }
  auto ids = item.ids;
  const size_t max_tokens = engine_.info().max_tokens;
  if (ids.size() > max_tokens && plan_.truncate) {
    cut->tokens = ids.size() - max_tokens;
    ids = plan_.side == text::TruncationSide::kRight ? ids.first(max_tokens) : ids.last(max_tokens);
  }
  out->ids.insert(out->ids.end(), ids.begin(), ids.end());
  out->type_ids.resize(out->ids.size(), 0);
  return Status::Ok();
}

Status RequestTokenizer::AddText(const EncodeItem& item, Scratch* scratch, TokenizedItems* out,
                                 Cut* cut) {
  const text::Tokenizer& tokenizer = engine_.tokenizer();
  text::EncodeOptions options;
  options.add_special_tokens = plan_.add_special_tokens;
  options.max_tokens = plan_.truncate ? engine_.info().max_tokens : 0;
  options.side = plan_.side;
  const size_t added = !plan_.add_special_tokens ? 0
                       : item.second             ? tokenizer.special_tokens_pair()
                                                 : tokenizer.special_tokens_single();
  const size_t limit = options.max_tokens > added ? options.max_tokens - added : 0;
  auto& [first, second, encoding] = *scratch;
  const Status status = [&, &first = first, &second = second, &encoding = encoding]() -> Status {
    PENSTOCK_RETURN_IF_ERROR(FirstTokens(item, limit, &first));
    if (!item.second) return tokenizer.Combine(first.ids, nullptr, options, &encoding);
    PENSTOCK_RETURN_IF_ERROR(SecondTokens(item, limit, &second));
    if (!text::PairCanBeCut(first, second, limit)) {
      PENSTOCK_RETURN_IF_ERROR(FirstTokens(item, 0, &first));
      PENSTOCK_RETURN_IF_ERROR(SecondTokens(item, 0, &second));
    }
    const std::span<const int32_t> second_ids = second.ids;
    return tokenizer.Combine(first.ids, &second_ids, options, &encoding);
  }();
  if (!status.ok()) return {status.code(), item.field + ": " + status.message(), item.field};
  out->ids.insert(out->ids.end(), encoding.ids.begin(), encoding.ids.end());
  out->type_ids.insert(out->type_ids.end(), encoding.type_ids.begin(), encoding.type_ids.end());
  cut->tokens = encoding.truncated_tokens;
  cut->unread_bytes = first.unread_bytes + (item.second ? second.unread_bytes : 0);
  return Status::Ok();
}

Status RequestTokenizer::EncodeText(std::string_view text, std::vector<int32_t>* ids) {
  return cache_->EncodeText(engine_, text, plan_.context.cache_salt, stop_, ids);
}

Status RequestTokenizer::TextTokens(std::string_view text, size_t limit, text::LimitedTokens* out) {
  if (limit == 0) {
    out->unread_bytes = 0;
    return EncodeText(text, &out->ids);
  }
  const auto encode = [this](std::string_view part, std::vector<int32_t>* ids) {
    return EncodeText(part, ids);
  };
  return text::EncodeLimited(engine_.tokenizer(), text, limit, plan_.side, encode, out);
}

Status RequestTokenizer::FirstTokens(const EncodeItem& item, size_t limit,
                                     text::LimitedTokens* out) {
  if (!plan_.prompt.empty()) return PromptedTokens(item.first, limit, out);
  // limit 0: a pair is done over, in full.
  if (SharesFirst(item) && limit > 0) {
    std::call_once(first_once_, [&] {
      const std::string_view text = plan_.items[0].first;
      first_status_ = engine_.folder().do_lower_case
                          ? TextTokens(unicode::LowerCase(text), limit, &first_)
                          : TextTokens(text, limit, &first_);
    });
    *out = first_;
    return first_status_;
  }
  if (!engine_.folder().do_lower_case) return TextTokens(item.first, limit, out);
  return TextTokens(unicode::LowerCase(item.first), limit, out);
}

Status RequestTokenizer::SecondTokens(const EncodeItem& item, size_t limit,
                                      text::LimitedTokens* out) {
  if (!engine_.folder().do_lower_case) return TextTokens(*item.second, limit, out);
  return TextTokens(unicode::LowerCase(*item.second), limit, out);
}

// Whether the pair belongs to a rerank request: all its pairs have the view of one query.
bool RequestTokenizer::SharesFirst(const EncodeItem& item) const {
  const EncodeItem& other = plan_.items[0];
  return item.second && other.second && plan_.items.size() > 1 &&
         item.first.data() == other.first.data() && item.first.size() == other.first.size();
}

Status RequestTokenizer::PromptedTokens(std::string_view text, size_t limit,
                                        text::LimitedTokens* out) {
  const std::string whole = PreparedText(engine_, plan_.prompt, text);
  if (plan_.side == text::TruncationSide::kLeft) {
    // How much of the prompt was cut off must be known to leave the rest of it out of the pooling.
    return TextTokens(whole, prompt_tokens_ > 0 ? 0 : limit, out);
  }
  const size_t at = engine_.tokenizer().CutBefore(whole, 0, prompt_.size(), true);
  // (Lower-casing ill-formed bytes where prompt and text meet could change the prompt.)
  if (at == text::Tokenizer::kNoCut || whole.compare(0, at, prompt_, 0, at) != 0) {
    return TextTokens(whole, limit, out);
  }
  // Nearly all texts have the same cut: a space at the prompt's end, before a word.
  std::call_once(head_once_, [&] {
    head_bytes_ = at;
    head_status_ = EncodeText(std::string_view(prompt_).substr(0, at), &head_ids_);
  });
  PENSTOCK_RETURN_IF_ERROR(head_status_);
  if (at != head_bytes_) return TextTokens(whole, limit, out);
  const size_t head = head_ids_.size();
  PENSTOCK_RETURN_IF_ERROR(TextTokens(std::string_view(whole).substr(at),
                                      limit == 0 ? 0 : limit - std::min(head, limit - 1), out));
  out->ids.insert(out->ids.begin(), head_ids_.begin(), head_ids_.end());
  return Status::Ok();
}

}  // namespace penstock::encode
