// ModelStreamInfer: requests one after another on one call, answered in their order. A tensor model
// answers a request once; a model that generates text answers as the text comes (stream_text.h). An
// error is the answer to its own request (error_message), as in Triton, and the stream goes on.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>

#include "common/status.h"
#include "grpc/grpc_front_end.h"
#include "grpc/message_stream.h"

namespace penstock {

using InferStream = MessageStream<grpc::ByteBuffer, grpc::ByteBuffer>;
using InferAnswer = StreamAnswer<grpc::ByteBuffer>;

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamInfer(
    GrpcFrontEnd* front_end, int32_t method, grpc::CallbackServerContext* context);

// The message that says that the request `id` failed.
grpc::ByteBuffer StreamError(const Status& status, const std::string& id);
// The whole answer to such a request.
std::shared_ptr<InferAnswer> StreamRefusal(const Status& status, const std::string& id);

}  // namespace penstock
