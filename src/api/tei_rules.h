// What the HTTP and the gRPC API of text-embeddings-inference (TEI) have in common besides their
// wire formats: defaults, shapes and refusals. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"

namespace penstock::api {

// Whether embeddings are normalized if a request does not say, whatever the model folder says.
inline constexpr bool kTeiNormalize = true;

// The input of a prediction: one text, or two that are classified together. kInvalidArgument names
// `field` for any other number.
Expected<ClassifyInput> TeiPredictInput(std::vector<std::string> texts, const std::string& field);

// Why sparse embeddings are refused; no model that Penstock serves has the head for them.
Status TeiNoSparse();

// Where a token stands in its text; none for one that the model's template added.
std::optional<text::TokenOffset> TeiPlace(const TokenizeResponse::Token& token);

}  // namespace penstock::api
