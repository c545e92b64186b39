// TextService: answers the commands rerank, classify and tokenize by models in this process or by a
// server; and the frame of the three from flags to exit code.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/service.h"
#include "client/text_client.h"
#include "command_line.h"
#include "common/worker_pool.h"
#include "model_flags.h"
#include "output_file.h"
#include "server_flags.h"
#include "shard_flags.h"
#include "shard_run.h"
#include "text_flags.h"

namespace penstock::cli {

// Calls return at once; callbacks come from other threads, one for each call.
class TextService {
 public:
  // Loads the model; with `tokenizers` only its tokenizer.
  static Expected<std::unique_ptr<TextService>> Load(const runtime::ModelOptions& flags,
                                                     bool tokenizers);
  // Asks nothing yet. `model`: the name at the server, "" = its default.
  static std::unique_ptr<TextService> ByServer(client::ServerClientOptions options,
                                               std::string model);
  ~TextService();

  void Rerank(api::RerankRequest request, api::Callback<api::RerankResponse> done);
  void Classify(api::ClassifyRequest request, api::Callback<api::ClassifyResponse> done);
  void Tokenize(api::TokenizeRequest request, api::Callback<api::TokenizeResponse> done);

  // Calls under way and later ones end as soon as possible (kCancelled). Any thread.
  void Stop();
  // The cause of an end with `status`: the first failure, after which other calls are merely
  // stopped. Logs the number of retries.
  Status End(const Status& status);

  int32_t max_tokens() const;  // of the model; 0 = not known here
  ShardMaker maker() const;

 private:
  TextService() = default;
  template <typename Request, typename Response>
  void Start(Request request, api::Callback<Response> done,
             void (api::Service::*local)(Request, RequestContext, api::Callback<Response>),
             Expected<Response> (client::TextClient::*remote)(const Request&));

  std::unique_ptr<runtime::LocalModels> local_;  // null: by a server
  std::shared_ptr<CancelToken> stop_ = std::make_shared<CancelToken>();
  std::string model_;
  std::unique_ptr<client::TextClient> client_;  // null: models here
  std::mutex mutex_;
  Status first_failure_;              // guarded by mutex_
  std::unique_ptr<WorkerPool> pool_;  // client's calls block; last, so that its threads end first
};

// `status` with the line at fault in front, where its field() names one of the rows that
// `where` holds: "documents[3]".
Status NameRow(const Status& status, const std::vector<std::string>& where);
// `done`, whose failures NameRow has named.
template <typename Response>
api::Callback<Response> NamingRows(std::vector<std::string> where, api::Callback<Response> done) {
  return [where = std::move(where), done = std::move(done)](Expected<Response> response) {
    done(response.ok() ? std::move(response) : NameRow(response.status(), where));
  };
}

struct TextCommand {
  const CommandLine* line;
  runtime::ModelOptions* model;
  ServerFlags* server;
  TextFlags* text;
  bool tokenizers = false;
  const ShardFlags* shard = nullptr;  // null: the work cannot be cut
  std::string settings;               // that shape the rows, as text; for shards
};
using TextWork = std::function<Status(TextService*, OutputFile*, ProgressLine*)>;
// After Parse: opens service and output, does `work` and reports its outcome; returns the exit
// code. A signal ends the work; the output so far stays in its part file. With shards `work` is
// done for each, text->slices being its input.
int RunTextCommand(const TextCommand& command, const TextWork& work);

}  // namespace penstock::cli
