// Answers a request for text, whole or as server-sent events.
//
// Events: one for each token whose text is certain, as soon as it is; the head is sent when the
// request was taken, so a refusal has its status. While nothing comes (a long prompt), a comment is
// sent every ServerOptions::stream_ping. An error after the head is an event, and the last. A
// printer may write lines of JSON instead, which have no comments.
#pragma once

#include <memory>

#include "api/generate_types.h"
#include "dialects/shared/text_printer.h"
#include "frontend/wire_names.h"
#include "serving/route.h"

namespace penstock::dialects {

// `names`: native to wire, as for Answer (answer.h).
void AnswerWithText(const serving::RouteCall& call, api::TextRequest request,
                    std::unique_ptr<TextPrinter> printer, frontend::FieldNames names);

}  // namespace penstock::dialects
