// Embeddings as lines of JSON (NDJSON), sent while later rows are computed; for routes of any API.
//
//   {"index":0,"embedding":[x, ...]}        one an input, in the order of the inputs; base64 where
//   ...                                     the request asks for it
//   {"model":"m","usage":{...},"truncated":{...}}   last of all; or, where a part failed, the error
//                                           in the route's error body
#pragma once

#include "api/types.h"
#include "dialects/shared/quantize.h"
#include "frontend/wire_names.h"
#include "serving/route.h"

namespace penstock::dialects {

// Whether the request's Accept header asks for lines.
bool WantsLines(const http::HttpRequest& request);

// Answers `call`. A request that is refused, or whose first rows fail, gets an answer with the
// status of the error, as without streaming.
void AnswerInLines(const serving::RouteCall& call, api::EmbedRequest request,
                   const EmbeddingFormat& format, const frontend::FieldNames& native_to_wire);

// One line, with its end.
void AppendEmbeddingLine(size_t index, std::span<const float> row, EmbeddingWriter* writer,
                         std::string* out);
void AppendUsageLine(const api::EmbedEnd& end, const EmbeddingWriter& writer, std::string* out);

}  // namespace penstock::dialects
