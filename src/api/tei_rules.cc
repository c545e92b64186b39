#include "api/tei_rules.h"

#include <fmt/format.h>

namespace penstock::api {

Expected<ClassifyInput> TeiPredictInput(std::vector<std::string> texts, const std::string& field) {
  if (texts.empty() || texts.size() > 2) {
    return Status::InvalidArgument(
        fmt::format("'{}' must be one string or a pair of strings", field), field);
  }
  ClassifyInput input;
  input.first = std::move(texts[0]);
  if (texts.size() == 2) input.second = std::move(texts[1]);
  return input;
}

Status TeiNoSparse() {
  return Status::Unsupported(
      "no model that is served here gives sparse (SPLADE) embeddings; ask for dense ones (embed)");
}

std::optional<text::TokenOffset> TeiPlace(const TokenizeResponse::Token& token) {
  // A special token that stands in the text has a place in it.
  if (token.special && token.offset == text::TokenOffset{}) return std::nullopt;
  return token.offset;
}

}  // namespace penstock::api
