#include "routes/text_printer.h"

#include "http/stream_formats.h"

namespace penstock::routes {

void TextPrinter::Error(const Status& status, const std::string& body, std::string* out) {
  (void)status;
  http::AppendEvent("", body, out);
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

}  // namespace penstock::routes
