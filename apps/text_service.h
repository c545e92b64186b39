// TextService: answers the commands rerank, classify, tokenize and batch by models in this process or by a
// server; and their frame from flags to exit code.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api/service.h"
#include "bulk/shard_run.h"
#include "cli/command_line.h"
#include "client/text_client.h"
#include "http/message.h"
#include "http/server_options.h"
#include "model_flags.h"
#include "os/output_file.h"
#include "server_flags.h"
#include "shard_flags.h"
#include "text_flags.h"
#include "threads/worker_pool.h"

namespace penstock::cli {

// Calls return at once; callbacks come from other threads, one for each call.
class TextService {
 public:
  // What is loaded of a model: an encoder, its tokenizer alone, or one that generates text.
  enum class Loads { kEncoder, kTokenizer, kGenerator };
  static Expected<std::unique_ptr<TextService>> Load(const runtime::ModelOptions& flags,
                                                     Loads loads);
  // Asks nothing yet. `model`: the name at the server, "" = its default. `calls`: under way at once.
  static std::unique_ptr<TextService> ByServer(client::ServerClientOptions options,
                                               std::string model, size_t calls);
  ~TextService();

  void Rerank(api::RerankRequest request, api::Callback<api::RerankResponse> done);
  void Classify(api::ClassifyRequest request, api::Callback<api::ClassifyResponse> done);
  void Tokenize(api::TokenizeRequest request, api::Callback<api::TokenizeResponse> done);
  // Any route that takes a POST. An answer of any status is one; an error: there was none.
  struct Posted {
    int status = 0;
    std::string body;
    // Makes the two, where it is set: by the thread that wants them, and not by the model's.
    http::Exchange::Print print = nullptr;
  };
  void Post(const std::string& path, std::string body, api::Callback<Posted> done);

  // Calls under way and later ones end as soon as possible (kCancelled). Any thread.
  void Stop();
  // The cause of an end with `status`: the first failure, after which other calls are merely
  // stopped. Logs the number of retries.
  Status End(const Status& status);

  int32_t max_tokens() const;  // of the model; 0 = not known here
  bulk::ShardMaker maker() const;

 private:
  TextService() = default;
  template <typename Request, typename Response>
  void Start(Request request, api::Callback<Response> done,
             void (api::Service::*local)(Request, RequestContext, api::Callback<Response>),
             Expected<Response> (client::TextClient::*remote)(const Request&));

  void PostHere(const std::string& path, std::string body, api::Callback<Posted> done);
  // At the server, on a thread of the pool. The first failure stops the others.
  template <typename Response, typename Call>
  void Send(api::Callback<Response> done, Call call);

  std::unique_ptr<runtime::LocalModels> local_;  // null: by a server
  http::ServerOptions routes_;                   // of the routes that are asked here
  std::shared_ptr<CancelToken> stop_ = std::make_shared<CancelToken>();
  std::string model_;
  std::unique_ptr<client::TextClient> client_;  // null: models here
  std::mutex mutex_;
  Status first_failure_;  // guarded by mutex_
  std::set<std::shared_ptr<CancelToken>>
      posted_;                        // of what PostHere has under way; guarded by mutex_
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
  TextService::Loads loads = TextService::Loads::kEncoder;
  size_t calls = 3;  // to a server at once; as many as a RequestWindow has under way
  const ShardFlags* shard = nullptr;  // null: the work cannot be cut
  std::string settings;               // that shape the rows, as text; for shards
};
using TextWork = std::function<Status(TextService*, OutputFile*, ProgressLine*)>;
// After Parse: opens service and output, does `work` and reports its outcome; returns the exit
// code. A signal ends the work; the output so far stays in its part file. With shards `work` is
// done for each, text->slices being its input.
int RunTextCommand(const TextCommand& command, const TextWork& work);

}  // namespace penstock::cli
