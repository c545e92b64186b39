// POST /v2/models/{model}/infer: from the body to Service::Infer and from its results to the
// answer.
#pragma once

#include <string>

#include "http/message.h"
#include "serving/route.h"

namespace penstock::dialects {

// For Route::json_bytes: the JSON of a request for inference.
size_t KserveInferJsonBytes(const http::HttpRequest& request, size_t body_bytes);

// Runs the request of `call`, whose body it takes, and answers it. `version` may be "".
void AnswerKserveInfer(const serving::RouteCall& call, std::string model, std::string version);

}  // namespace penstock::dialects
