#include "grpc/tei_calls.h"

namespace penstock {
namespace {

// Besides the numbers of an answer: its metadata, and what keeps its parts together.
constexpr size_t kAnswerBytes = 128;
// {score, label} or {index, score}: 5 bytes a number, and their tags.
constexpr size_t kScoreBytes = 24;
// {id, text, special, start, stop} besides the text.
constexpr size_t kTokenBytes = 40;

}  // namespace

Status TeiFieldNames(const Status& status, const google::protobuf::Message& request) {
  namespace wire = tei::v1;
  FieldNames names = {{"bulk_run", "x-penstock-bulk-id"}};
  const auto* const type = request.GetDescriptor();
  if (type == wire::RerankRequest::descriptor()) {
    names.emplace_back("documents", "texts");
  } else if (type == wire::RerankStreamRequest::descriptor()) {
    names.emplace_back("documents[0]", "text");
  } else if (type == wire::DecodeRequest::descriptor()) {
    names.emplace_back("inputs[0]", "ids");
  } else {
    names.emplace_back("inputs[0]", "inputs");
  }
  return WithWireNames(status, names);
}

size_t TeiBytes(const EmbedResponse& response) {
  return kAnswerBytes + response.values.size() * sizeof(float);
}

size_t TeiBytes(const EmbedAllResponse& response) {
  return kAnswerBytes * (1 + static_cast<size_t>(response.token_counts.at(0))) +
         response.values.size() * sizeof(float);
}

size_t TeiBytes(const ClassifyResponse& response) {
  size_t bytes = kAnswerBytes;
  for (const std::string& label : response.labels) bytes += kScoreBytes + label.size();
  return bytes;
}

size_t TeiBytes(const RerankResponse& response) {
  return kAnswerBytes + kScoreBytes * response.items.size();
}

size_t TeiBytes(const TokenizeResponse& response) {
  size_t bytes = kAnswerBytes;
  for (const TokenizeResponse::Token& token : response.inputs.at(0)) {
    bytes += kTokenBytes + token.text.size();
  }
  return bytes;
}

size_t TeiBytes(const DecodeResponse& response) {
  return kAnswerBytes + response.texts.at(0).size();
}

}  // namespace penstock
