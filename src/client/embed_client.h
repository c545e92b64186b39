// A client of /v1/embeddings for bulk work: texts in, vectors out. Any thread may call; each call
// blocks until it has its answer. Retries: client/server_client.h.
//
// The server may be any that speaks OpenAI's protocol; without /v1/bulk (not a Penstock) the client
// goes on without a bulk run.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "client/server_client.h"

namespace penstock::client {

struct EmbedClientOptions {
  ServerClientOptions server;
  std::string model;  // "" = the server's default
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  std::optional<bool> normalize;
};

// Vectors of one request.
struct EmbeddedTexts {
  int32_t dimensions = 0;
  std::vector<float> values;  // [texts, dimensions]
  int64_t prompt_tokens = 0;
  int64_t truncated_inputs = 0;
  int64_t truncated_tokens = 0;
};

class EmbedClient {
 public:
  explicit EmbedClient(EmbedClientOptions options);

  // Begin and end a bulk run; EndRun returns the server's message about released memory, or "".
  Status BeginRun();
  Expected<std::string> EndRun();

  // Permanent errors have the server's message, and field() as the server names it ("input[3]").
  Expected<EmbeddedTexts> Embed(const std::vector<std::string>& texts);

  // As of ServerClient; EndRun is tried once after them.
  void Stop() { server_.Stop(); }
  void Abort() { server_.Abort(); }
  int64_t retries() const { return server_.retries(); }
  double waited_s() const { return server_.waited_s(); }

 private:
  Expected<PostAnswer> Post(const std::string& path, const std::string& body);
  std::string run() const;

  const EmbedClientOptions options_;
  ServerClient server_;
  mutable std::mutex mutex_;
  std::string run_;  // guarded by mutex_; "" = none
  std::mutex renew_mutex_;
};

// The pieces, for tests.
std::string EmbedBody(const std::vector<std::string>& texts, const EmbedClientOptions& options);
// `texts`: how many vectors there must be. One with a number that is not finite is an error, field
// "input[row]".
Expected<EmbeddedTexts> ParseEmbedAnswer(std::string_view body, size_t texts);

}  // namespace penstock::client
