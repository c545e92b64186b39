// RerankStream of text-embeddings-inference: the client sends query and text pair by pair; when it
// has sent its last one, the answer ranks them all. Each pair may have a query of its own.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>

#include "grpc/stream_call.h"
#include "grpc/tei_convert.h"

namespace penstock {

struct TeiRerankItem : StreamRequest {
  tei::v1::RerankStreamRequest request;
  tei::v1::Rank rank;
  TeiWork work;
};

class TeiRerankStream final
    : public StreamReactor<grpc::ServerReadReactor<tei::v1::RerankStreamRequest>, TeiRerankItem> {
  using Base = StreamReactor<grpc::ServerReadReactor<tei::v1::RerankStreamRequest>, TeiRerankItem>;

 public:
  // `model` is an error where the call names none that is valid; `response` belongs to the call.
  static grpc::ServerReadReactor<tei::v1::RerankStreamRequest>* Start(
      GrpcFrontEnd* front_end, int32_t method, grpc::CallbackServerContext* context,
      Expected<std::string> model, tei::v1::RerankResponse* response);

  void OnReadDone(bool ok) override;

 private:
  TeiRerankStream(GrpcFrontEnd* front_end, grpc::CallbackServerContext* context,
                  Expected<std::string> model, tei::v1::RerankResponse* response)
      : Base(front_end, context), model_(std::move(model)), response_(response) {}

  void Read(StreamRequest* request) override;
  void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) override;
  Expected<Written> Write(StreamRequest* request) override;
  void Close(const Status& status) override;
  Status FillAnswer();

  const Expected<std::string> model_;
  tei::v1::RerankResponse* const response_;
  TeiRerankItem* read_ = nullptr;  // the message that is or was read last
  uint32_t count_ = 0;             // messages read
  // Of the first message, for all.
  bool raw_scores_ = false;
  bool return_text_ = false;
  // Written in order, by one thread at a time.
  int64_t answer_bytes_ = 0;
  TeiWork work_;  // sums
};

}  // namespace penstock
