// ModelStreamInfer: requests one after another on one call, answered in their order. A tensor model
// answers a request once; a model that generates text answers as the text comes (stream_text.h). An
// error is the answer to its own request (error_message), as in Triton, and the stream goes on.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "grpc/grpc_front_end.h"
#include "grpc/message_stream.h"

namespace penstock {

void StartStreamInfer(GrpcFrontEnd* front_end, int32_t method, const std::shared_ptr<Rpc>& rpc);

// The message that says that the request `id` failed.
RpcMessage StreamError(const Status& status, const std::string& id);
// The whole answer to such a request.
std::shared_ptr<StreamAnswer> StreamRefusal(const Status& status, const std::string& id);

}  // namespace penstock
