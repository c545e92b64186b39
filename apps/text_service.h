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
#include "text_flags.h"

namespace penstock {

// Calls return at once; callbacks come from other threads, one for each call.
class TextService {
 public:
  // Loads the model; with `tokenizers` only its tokenizer.
  static Expected<std::unique_ptr<TextService>> Load(const ModelOptions& flags, bool tokenizers);
  // Asks nothing yet. `model`: the name at the server, "" = its default.
  static std::unique_ptr<TextService> ByServer(ServerClientOptions options, std::string model);
  ~TextService();

  void Rerank(RerankRequest request, Callback<RerankResponse> done);
  void Classify(ClassifyRequest request, Callback<ClassifyResponse> done);
  void Tokenize(TokenizeRequest request, Callback<TokenizeResponse> done);

  // Calls under way and later ones end as soon as possible (kCancelled). Any thread.
  void Stop();
  // The cause of an end with `status`: the first failure, after which other calls are merely
  // stopped. Logs the number of retries.
  Status End(const Status& status);

  int32_t max_tokens() const;  // of the model; 0 = not known here

 private:
  TextService() = default;
  template <typename Request, typename Response>
  void Start(Request request, Callback<Response> done,
             void (Service::*local)(Request, RequestContext, Callback<Response>),
             Expected<Response> (TextClient::*remote)(const Request&));

  std::unique_ptr<LocalModels> local_;  // null: by a server
  std::shared_ptr<CancelToken> stop_ = std::make_shared<CancelToken>();
  std::string model_;
  std::unique_ptr<TextClient> client_;  // null: models here
  std::mutex mutex_;
  Status first_failure_;              // guarded by mutex_
  std::unique_ptr<WorkerPool> pool_;  // client's calls block; last, so that its threads end first
};

// `status` with the line at fault in front, where its field() names one of the rows that
// `where` holds: "documents[3]".
Status NameRow(const Status& status, const std::vector<std::string>& where);
// `done`, whose failures NameRow has named.
template <typename Response>
Callback<Response> NamingRows(std::vector<std::string> where, Callback<Response> done) {
  return [where = std::move(where), done = std::move(done)](Expected<Response> response) {
    done(response.ok() ? std::move(response) : NameRow(response.status(), where));
  };
}

struct TextCommand {
  const CommandLine* line;
  ModelOptions* model;
  ServerFlags* server;
  TextFlags* text;
  bool tokenizers = false;
};
// After Parse: opens service and output, does `work` and reports its outcome; returns the exit
// code. A signal ends the work; the output so far stays in its part file.
int RunTextCommand(const TextCommand& command,
                   const std::function<Status(TextService*, OutputFile*, ProgressLine*)>& work);

}  // namespace penstock
