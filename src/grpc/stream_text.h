// Text from a model over ModelStreamInfer, as Triton's backends of language models have it:
//
//   inputs      text_input BYTES [1]; stream BOOL [1], optional: true = an answer for each piece
//               of the text as it comes, false (the default) = one answer with all of it
//   parameters  max_tokens, min_tokens, top_k, seed (integers), temperature, top_p, min_p,
//               repetition_penalty, presence_penalty, frequency_penalty (numbers), stop (a text),
//               ignore_eos (a truth)
//   outputs     text_output BYTES [1]: the new text alone
//
// The last answer has the parameter triton_final_response = true; of a stream it is empty, and sent
// where triton_enable_empty_final_response asks for it.
#pragma once

#include <memory>

#include "common/request_context.h"
#include "grpc/infer_request.h"
#include "grpc/stream_infer.h"

namespace penstock {

class Service;

// Whether a request is for a model that generates text.
bool AsksForText(const inference::ModelInferRequest& request, const Service& service);

std::shared_ptr<StreamAnswer> StartText(std::shared_ptr<MessageStream> stream, Service* service,
                                        const InferRequest& request, RequestContext&& context);

}  // namespace penstock
