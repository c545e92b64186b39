#include "dialects/shared/text_printer.h"

#include <algorithm>
#include <iterator>

#include "http/stream_formats.h"

namespace penstock::dialects {

void TextPrinter::Error(const Status& status, const std::string& body, std::string* out) {
  (void)status;
  http::AppendEvent("", body, out);
}

void ContentTokens::Add(const api::GeneratedPart& part, std::vector<api::TokenInfo>* out) {
  if (!part.token) return;
  waiting_.push_back(*part.token);
  if (part.deltas.empty()) return;
  const bool of_content =
      std::any_of(part.deltas.begin(), part.deltas.end(), [](const auto& delta) {
        return delta.kind == reply::ReplyDelta::Kind::kContent && !delta.text.empty();
      });
  if (of_content) std::move(waiting_.begin(), waiting_.end(), std::back_inserter(*out));
  waiting_.clear();
}

GeneratedChoice* GeneratedAnswer::At(int32_t choice) {
  const auto index = static_cast<size_t>(choice);
  if (choices.size() <= index) choices.resize(index + 1);
  return &choices[index];
}

void GeneratedAnswer::Add(const std::vector<reply::ReplyDelta>& deltas,
                          GeneratedChoice* choice) const {
  for (const reply::ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case reply::ReplyDelta::Kind::kContent:
        choice->content += delta.text;
        break;
      case reply::ReplyDelta::Kind::kReasoning:
        choice->reasoning += delta.text;
        break;
      case reply::ReplyDelta::Kind::kCallBegin:
        choice->calls.push_back({delta.id, delta.name, ""});
        break;
      case reply::ReplyDelta::Kind::kCallArguments:
        if (!choice->calls.empty()) choice->calls.back().arguments += delta.text;
        break;
      case reply::ReplyDelta::Kind::kCallEnd:
      case reply::ReplyDelta::Kind::kMarkup:
        break;
    }
  }
}

}  // namespace penstock::dialects
