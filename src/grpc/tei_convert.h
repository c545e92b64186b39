// Between the messages of tei.proto and the native types of api/types.h. Pure functions.
//
// The API is that of text-embeddings-inference (TEI) over gRPC. What its HTTP form has in common
// with it is in api/tei_rules.h. The Service checks counts and lengths; here is checked only what
// the native types cannot hold. Errors name the message's field.
#pragma once

#include <grpc/tei.pb.h>

#include <cstdint>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "metrics/stages.h"

namespace penstock::grpc {

// Requests, but for their model, which a message does not name. As in TEI, and other than over
// HTTP, where a field can be left out: `truncate` and `raw_scores` are false unless they are set.
Expected<api::EmbedRequest> FromTei(const tei::v1::EmbedRequest& message);
Expected<api::EmbedRequest> FromTei(const tei::v1::EmbedAllRequest& message);
Expected<api::ClassifyRequest> FromTei(const tei::v1::PredictRequest& message);
Expected<api::ClassifyRequest> FromTei(const tei::v1::PredictPairRequest& message);
Expected<api::RerankRequest> FromTei(const tei::v1::RerankRequest& message);
Expected<api::RerankRequest> FromTei(
    const tei::v1::RerankStreamRequest& message);  // of one document
Expected<api::TokenizeRequest> FromTei(const tei::v1::EncodeRequest& message);
Expected<api::DecodeRequest> FromTei(const tei::v1::DecodeRequest& message);

// Answers, but for their metadata, to the one input of the request that FromTei made.
void ToTei(const api::EmbedResponse& response, tei::v1::EmbedResponse* message);
void ToTei(const api::EmbedAllResponse& response, tei::v1::EmbedAllResponse* message);
void ToTei(const api::ClassifyResponse& response, tei::v1::PredictResponse* message);
void ToTei(const api::TokenizeResponse& response, tei::v1::EncodeResponse* message);
void ToTei(const api::DecodeResponse& response, tei::v1::DecodeResponse* message);
// With the texts of `request` where it asks for them.
void ToTei(const api::RerankResponse& response, const tei::v1::RerankRequest& request,
           tei::v1::RerankResponse* message);

// kUnavailable: the model was never loaded and what it is for is not known; kUnprocessable: it is
// for something that TEI does not do.
Expected<tei::v1::InfoResponse> TeiInfo(const api::ModelInfo& model,
                                        const api::ServiceOptions& limits);

// How much work a request was. Nanoseconds; total: from its arrival until its answer is printed.
struct TeiWork {
  int64_t chars = 0;
  int64_t tokens = 0;
  int64_t total_ns = 0;
  int64_t tokenize_ns = 0;
  int64_t queue_ns = 0;
  int64_t inference_ns = 0;
};
// The work of a request whose answer is about to be printed: enters kSerialise, up to which the
// times count. `trace` null: not timed.
TeiWork TeiWorkOf(int64_t chars, int64_t tokens, metrics::RequestTrace* trace);
// Counts over 2^32 - 1 are given as that.
void ToTei(const TeiWork& work, tei::v1::Metadata* metadata);

}  // namespace penstock::grpc
