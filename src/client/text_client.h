// TextClient: reranks, classifies and tokenizes by a server, with the Service's types of requests
// and responses. Retries: client/server_client.h. Any thread may call; each call blocks.
//
// Rows are documents of a rerank request, inputs of the others. A request goes in parts of at most
// kRowsMax rows and kTextBytesMax bytes of texts; after a 413 parts have half the rows. Each
// row's result is a function of that row alone, so the parts make the same answer.
//
// TextOptions, `top_n` aside, are not sent: a server's own defaults are in force.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "api/types.h"
#include "base/status.h"
#include "client/server_client.h"

namespace penstock::client {

class TextClient {
 public:
  static constexpr size_t kRowsMax = 1024;
  static constexpr size_t kTextBytesMax = 4 << 20;

  explicit TextClient(ServerClientOptions options) : server_(std::move(options)) {}

  // By POST /v1/rerank, /v1/classify and /tokenize. Errors are the server's, with field() as it
  // names it ("documents[3]" is the request's fourth, in whichever part it went). kInternal: an
  // answer that breaks the protocol. `model` of a response is empty.
  Expected<api::RerankResponse> Rerank(const api::RerankRequest& request);
  Expected<api::ClassifyResponse> Classify(const api::ClassifyRequest& request);
  Expected<api::TokenizeResponse> Tokenize(const api::TokenizeRequest& request);

  ServerClient& server() { return server_; }

 private:
  struct Part {
    size_t begin = 0;
    size_t count = 0;
  };
  // Posts rows 0 to `rows` in parts; `take` gets each answer's body.
  Status InParts(const std::string& path, size_t rows,
                 const std::function<size_t(size_t)>& bytes_of,
                 const std::function<std::string(const Part&)>& body_of,
                 const std::function<Status(const Part&, std::string_view body)>& take);

  ServerClient server_;
  std::atomic<size_t> rows_max_{kRowsMax};
};

// The pieces, for tests: rows `begin` to `begin + count` of a request, and the response read from
// the answer for `count` rows.
std::string RerankBody(const api::RerankRequest& request, size_t begin, size_t count);
std::string ClassifyBody(const api::ClassifyRequest& request, size_t begin, size_t count);
std::string TokenizeBody(const api::TokenizeRequest& request, size_t begin, size_t count);
Expected<api::RerankResponse> ParseRerankAnswer(std::string_view body, size_t count);
Expected<api::ClassifyResponse> ParseClassifyAnswer(std::string_view body, size_t count);
Expected<api::TokenizeResponse> ParseTokenizeAnswer(std::string_view body, size_t count);

}  // namespace penstock::client
