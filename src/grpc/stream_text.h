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

#include <grpc/inference.pb.h>

#include <functional>
#include <memory>
#include <string>

#include "api/generate_types.h"
#include "grpc/infer_request.h"
#include "grpc/ordered_call.h"
#include "threads/request_context.h"

namespace penstock::api {
class GenerateFeed;
class Service;
}  // namespace penstock::api

namespace penstock::grpc {

// Whether a request is for a model that generates text.
bool AsksForText(const inference::ModelInferRequest& request, const api::Service& service);

// What it asks for. kInvalidArgument and kUnsupported name the input or the parameter.
Expected<api::TextRequest> TextRequestOf(const InferRequest& from);

// The message that says that the request `id` failed.
RpcMessage StreamError(const Status& status, const std::string& id);

// The answer whose messages are made of the feed's events as they are asked for. One thread at a
// time.
class TextAnswer {
 public:
  explicit TextAnswer(const inference::ModelInferRequest& head);

  // `wake`: there may be a next message. It is held until the text has ended or this has gone; any
  // thread calls it, and it does not wait.
  void Run(api::Service* service, api::TextRequest request, RequestContext&& context,
           std::function<void()> wake);
  CallRequest::Step Next(RpcMessage* message);

 private:
  CallRequest::Step End(const Status& status, RpcMessage* message);
  RpcMessage Message(const std::string& text, bool last) const;

  const std::string id_;
  bool wants_final_ = false;
  bool streams_ = false;
  std::shared_ptr<api::GenerateFeed> feed_;
  std::string model_;
  std::string text_;
};

}  // namespace penstock::grpc
