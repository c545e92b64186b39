#include "text_service.h"

#include <charconv>
#include <utility>

#include "common/log.h"
#include "common/step_progress.h"
#include "interruption.h"
#include "request_window.h"

namespace penstock::cli {
namespace {

// As many as a RequestWindow has in flight.
constexpr size_t kCalls = RequestWindow<api::RerankResponse, int>::kRequests;

Expected<std::unique_ptr<TextService>> Open(const TextCommand& command) {
  if (command.server->url.empty()) {
    PENSTOCK_RETURN_IF_ERROR(FetchModels(*command.model, command.tokenizers));
    const StepProgress loading(command.tokenizers ? "loading the tokenizer" : "loading the model",
                               command.text->quiet || ReadsTerminal(*command.text));
    return TextService::Load(*command.model, command.tokenizers);
  }
  PENSTOCK_ASSIGN_OR_RETURN(client::ServerClientOptions options, ClientOptions(*command.server));
  return TextService::ByServer(std::move(options),
                               NameAtServer(*command.line, command.model->models));
}

}  // namespace

Expected<std::unique_ptr<TextService>> TextService::Load(const runtime::ModelOptions& flags,
                                                         bool tokenizers) {
  std::unique_ptr<TextService> service(new TextService);
  PENSTOCK_ASSIGN_OR_RETURN(service->local_, tokenizers
                                                 ? runtime::LocalModels::LoadTokenizers(flags)
                                                 : runtime::LocalModels::Load(flags));
  return service;
}

std::unique_ptr<TextService> TextService::ByServer(client::ServerClientOptions options,
                                                   std::string model) {
  std::unique_ptr<TextService> service(new TextService);
  service->client_ = std::make_unique<client::TextClient>(std::move(options));
  service->model_ = std::move(model);
  service->pool_ = std::make_unique<WorkerPool>(kCalls, 2 * kCalls);
  return service;
}

TextService::~TextService() {
  if (pool_ != nullptr) pool_->Stop();
}

template <typename Request, typename Response>
void TextService::Start(Request request, api::Callback<Response> done,
                        void (api::Service::*local)(Request, RequestContext,
                                                    api::Callback<Response>),
                        Expected<Response> (client::TextClient::*remote)(const Request&)) {
  if (client_ == nullptr) {
    RequestContext context;
    context.cancel = stop_;
    ((*local_->service).*local)(std::move(request), std::move(context), std::move(done));
    return;
  }
  request.model = model_;
  const auto shared = std::make_shared<Request>(std::move(request));
  const Status taken = pool_->Submit([this, shared, done, remote] {
    auto response = ((*client_).*remote)(*shared);
    if (!response.ok()) {
      const std::lock_guard lock(mutex_);
      if (first_failure_.ok()) first_failure_ = response.status();
      client_->server().Stop();  // stops the retries of other calls
    }
    done(std::move(response));
    return WorkerPool::Turn::kDone;
  });
  if (!taken.ok()) done(taken);
}

void TextService::Rerank(api::RerankRequest request, api::Callback<api::RerankResponse> done) {
  Start(std::move(request), std::move(done), &api::Service::Rerank, &client::TextClient::Rerank);
}

void TextService::Classify(api::ClassifyRequest request,
                           api::Callback<api::ClassifyResponse> done) {
  Start(std::move(request), std::move(done), &api::Service::Classify,
        &client::TextClient::Classify);
}

void TextService::Tokenize(api::TokenizeRequest request,
                           api::Callback<api::TokenizeResponse> done) {
  Start(std::move(request), std::move(done), &api::Service::Tokenize,
        &client::TextClient::Tokenize);
}

void TextService::Stop() {
  stop_->Cancel();
  if (client_ != nullptr) client_->server().Abort();
}

Status TextService::End(const Status& status) {
  if (client_ == nullptr) return status;
  client::ServerClient& server = client_->server();
  if (server.retries() > 0) {
    LogWarn("{} requests were sent again, after waits of {:.1f} s in all", server.retries(),
            server.waited_s());
  }
  const std::lock_guard lock(mutex_);
  return status.code() == StatusCode::kCancelled && !first_failure_.ok() ? first_failure_ : status;
}

int32_t TextService::max_tokens() const {
  return local_ == nullptr ? 0 : local_->service->Models().front().max_tokens;
}

Status NameRow(const Status& status, const std::vector<std::string>& where) {
  const std::string& field = status.field();
  const size_t bracket = field.find('[');
  size_t index = 0;
  if (bracket == std::string::npos ||
      std::from_chars(field.data() + bracket + 1, field.data() + field.size(), index).ec !=
          std::errc() ||
      index >= where.size()) {
    return status;
  }
  return status.Annotate(where[index]);
}

int RunTextCommand(const TextCommand& command,
                   const std::function<Status(TextService*, OutputFile*, ProgressLine*)>& work) {
  const CommandLine& line = *command.line;
  Interruption interruption;  // before any other thread
  if (const Status log = ApplyLogFlags(*command.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (!command.server->url.empty()) {
    if (const Status fit = CheckForServer(line); !fit.ok()) return line.FailUsage(fit.message());
  }
  if (const Status input = CheckInput(*command.text); !input.ok()) return line.Fail(input);
  command.text->input.stop_fd = interruption.fd();
  auto service = Open(command);
  if (!service.ok()) {
    return service.status().field() == "api-key-file" ? line.FailUsage(service.status().message())
                                                      : line.Fail(service.status());
  }
  auto file = OutputFile::Open(command.text->output);
  if (!file.ok()) return line.FailUsage("--output: " + file.status().message());
  ProgressLine progress(command.text->quiet);
  Status status;
  {
    const Interruption::Stop stop(&interruption, [&] { (*service)->Stop(); });
    status = (*service)->End(work(service->get(), &*file, &progress));
  }
  const int number = interruption.signal();
  if (number != 0 && !status.ok()) status = {StatusCode::kCancelled, "interrupted"};
  status = file->CloseAfter(status);
  if (!status.ok()) {
    line.Fail(status);
    return number != 0 ? kExitSignal + number : kExitFailure;
  }
  ReportCut(progress.cut(), line.name(), (*service)->max_tokens());
  return kExitOk;
}

}  // namespace penstock::cli
