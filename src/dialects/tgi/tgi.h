// Parses and prints the API of text-generation-inference: POST /generate and /generate_stream. Pure
// functions.
// Source: its OpenAPI description (docs/openapi.json of huggingface/text-generation-inference).
//
// Every request may also name a "model"; TGI serves one only. Without sampling fields and do_sample
// the text is greedy, as TGI's is.
#pragma once

#include <memory>
#include <string>

#include "api/generate_types.h"
#include "base/status.h"
#include "dialects/shared/text_printer.h"
#include "json/json.h"
#include "serving/route.h"

namespace penstock::dialects {

struct TgiCall {
  api::TextRequest request;
  bool details = false;
  bool stream = false;  // of POST / alone
};

// {inputs, parameters: {max_new_tokens, temperature, top_k, top_p, repetition_penalty,
// frequency_penalty, seed, stop, do_sample, return_full_text, details, top_n_tokens}}. `streams`:
// of /generate_stream.
Expected<TgiCall> ParseTgiCall(const JsonObject& object, bool streams);

// Whether a request to POST / has fields that a generator alone reads: "stream", or parameters such
// as max_new_tokens.
bool AsksTgi(const JsonObject& object);

// Whole: {"generated_text", "details"?}. Streamed: an event for each token, {"index", "token",
// "generated_text": null, "details": null}, and one with generated_text and details, whose token is
// empty, since which one is the last is known behind it only.
std::unique_ptr<TextPrinter> NewTgiPrinter(const TgiCall& call);

// Answers a request of text-generation-inference, which POST / takes too.
void AnswerTgi(const serving::RouteCall& call, const JsonObject& object, bool streams);

}  // namespace penstock::dialects
