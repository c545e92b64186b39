// RerankStream of text-embeddings-inference: the client sends query and text pair by pair; when it
// has sent its last one, the answer ranks them all. Each pair may have a query of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "grpc/stream_call.h"
#include "grpc/tei_convert.h"

namespace penstock {

struct TeiRerankItem : ReadRequest {
  tei::v1::RerankStreamRequest request;
  tei::v1::Rank rank;
  TeiWork work;
};

class TeiRerankStream final : public StreamReactor<TeiRerankItem> {
 public:
  // `model` is an error where the call names none that is valid.
  static void Start(GrpcFrontEnd* front_end, int32_t method, const std::shared_ptr<Rpc>& rpc,
                    Expected<std::string> model);

 private:
  TeiRerankStream(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc, Expected<std::string> model)
      : StreamReactor(front_end, std::move(rpc)), model_(std::move(model)) {}

  void OnParsed(TeiRerankItem* item) override;
  void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) override;
  Expected<Written> Write(StreamRequest* request) override;
  void Close(const Status& status) override;
  Status FillAnswer(std::optional<RpcMessage>* message);

  const Expected<std::string> model_;
  uint32_t count_ = 0;  // messages read
  // Of the first message, for all.
  bool raw_scores_ = false;
  bool return_text_ = false;
  // Written in order, by one thread at a time.
  tei::v1::RerankResponse response_;
  int64_t answer_bytes_ = 0;
  TeiWork work_;  // sums
};

}  // namespace penstock
