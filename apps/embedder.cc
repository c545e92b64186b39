#include "embedder.h"

#include <memory>
#include <utility>
#include <vector>

#include "bulk/request_window.h"
#include "client/embed_client.h"
#include "log/log.h"
#include "log/step_progress.h"
#include "runtime/local_models.h"
#include "threads/worker_pool.h"

namespace penstock::cli {
namespace {

std::vector<api::Input> InputsOf(std::vector<std::string> texts) {
  std::vector<api::Input> inputs;
  for (std::string& text : texts) inputs.push_back({std::move(text), {}, false});
  return inputs;
}

Embedder LocalEmbedder(const EmbedFlags& flags, api::Service* service) {
  Embedder embedder;
  embedder.start = [&flags, service](std::vector<std::string> texts,
                                     api::Callback<api::EmbedResponse> done) {
    api::EmbedRequest request = NewRequest(flags);
    request.inputs = InputsOf(std::move(texts));
    RequestContext context;
    context.priority = Priority::kBulk;
    context.cancel = flags.bulk_options.stop;
    service->Embed(std::move(request), std::move(context), std::move(done));
  };
  embedder.embed_one =
      [start = embedder.start](const std::string& text) -> Expected<std::vector<float>> {
    PENSTOCK_ASSIGN_OR_RETURN(
        api::EmbedResponse response,
        bulk::Ask<api::EmbedResponse>([&](api::Callback<api::EmbedResponse> done) {
          start({text}, std::move(done));
        }).get());
    return std::move(response.values);
  };
  embedder.stop = [] {};
  return embedder;
}

Expected<api::EmbedResponse> AskServer(client::EmbedClient* client,
                                       const std::vector<std::string>& texts) {
  PENSTOCK_ASSIGN_OR_RETURN(client::EmbeddedTexts answer, client->Embed(texts));
  api::EmbedResponse response;
  response.dimensions = answer.dimensions;
  response.values = std::move(answer.values);
  response.usage.prompt_tokens = answer.prompt_tokens;
  response.truncation = {answer.truncated_inputs, answer.truncated_tokens};
  return response;
}

// A thread for each request at work: the client's calls block.
Status ByClient(const EmbedFlags& flags, const Made& made, client::EmbedClient* client,
                const EmbedWork& work) {
  PENSTOCK_RETURN_IF_ERROR(client->BeginRun());
  const bulk::BulkOptions& options = flags.bulk_options;
  WorkerPool pool(options.requests, 2 * options.requests);
  Embedder embedder;
  embedder.made = made;
  embedder.start = [&](std::vector<std::string> texts,
                       const api::Callback<api::EmbedResponse>& done) {
    auto shared = std::make_shared<std::vector<std::string>>(std::move(texts));
    const Status taken = pool.Submit([&, shared, done] {
      auto response = AskServer(client, *shared);
      if (!response.ok() && !(options.skip && bulk::IsOfRow(response.status()))) {
        client->Stop();  // the retries of other requests
      }
      done(std::move(response));
      return WorkerPool::Turn::kDone;
    });
    if (!taken.ok()) done(taken);
  };
  embedder.embed_one = [client](const std::string& text) -> Expected<std::vector<float>> {
    PENSTOCK_ASSIGN_OR_RETURN(api::EmbedResponse response, AskServer(client, {text}));
    return std::move(response.values);
  };
  embedder.stop = [client] { client->Abort(); };
  const Status status = work(embedder);
  if (!status.ok()) client->Abort();
  pool.Stop();
  const auto ended = client->EndRun();
  PENSTOCK_RETURN_IF_ERROR(status);
  // The vectors are complete; a failure to end the bulk run is only logged.
  if (!ended.ok()) LogWarn("the bulk run was not ended: {}", ended.status().message());
  if (ended.ok() && !ended->empty()) LogInfo("{}", *ended);
  return Status::Ok();
}

Status ByServer(const EmbedFlags& flags, const CommandLine& line, ProgressLine* progress,
                Made* made, const EmbedWork& work) {
  auto options = EmbedOptions(flags, line);
  if (!options.ok()) {
    return Status::InvalidArgument(options.status().message(), "api-key-file");
  }
  client::EmbedClient client(*std::move(options));
  progress->Begin("asking the server");
  *made = {NameAtServer(line, flags.model.models), "", flags.dimensions.value_or(0), 0};
  const Status status = ByClient(flags, *made, &client, work);
  if (client.retries() > 0) {
    LogWarn("{} {} sent again, after waits of {:.1f} s in all", client.retries(),
            client.retries() == 1 ? "request was" : "requests were", client.waited_s());
  }
  return status;
}

Status ByModel(const EmbedFlags& flags, ProgressLine* progress, Made* made, const EmbedWork& work) {
  PENSTOCK_RETURN_IF_ERROR(FetchModels(flags.model));
  const auto load = [&flags, progress] {
    const StepProgress loading("loading the model", !progress->on_terminal());
    return runtime::LocalModels::Load(flags.model);
  };
  PENSTOCK_ASSIGN_OR_RETURN(const auto local, load());
  api::Service& service = *local->service;
  const api::ModelInfo model = service.Models().front();
  *made = {model.name, model.dtype, flags.dimensions.value_or(model.dimensions), model.max_tokens};
  Embedder embedder = LocalEmbedder(flags, &service);
  embedder.made = *made;
  return work(embedder);
}

}  // namespace

Status WithEmbedder(const EmbedFlags& flags, const CommandLine& line, ProgressLine* progress,
                    Made* made, const EmbedWork& work) {
  return flags.server.url.empty() ? ByModel(flags, progress, made, work)
                                  : ByServer(flags, line, progress, made, work);
}

}  // namespace penstock::cli
