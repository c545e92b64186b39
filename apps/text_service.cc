#include "text_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "batch_api/batch_runner.h"
#include "dialects/list.h"
#include "http/request_begin.h"
#include "log/log.h"
#include "log/step_progress.h"
#include "os/interruption.h"
#include "serving/inner_call.h"

namespace penstock::cli {
namespace {

Expected<std::unique_ptr<TextService>> Open(const TextCommand& command) {
  if (command.server->url.empty()) {
    const bool tokenizer = command.loads == TextService::Loads::kTokenizer;
    PENSTOCK_RETURN_IF_ERROR(FetchModels(*command.model, tokenizer));
    const StepProgress loading(tokenizer ? "loading the tokenizer" : "loading the model",
                               command.text->quiet || ReadsTerminal(*command.text));
    return TextService::Load(*command.model, command.loads);
  }
  PENSTOCK_ASSIGN_OR_RETURN(client::ServerClientOptions options, ClientOptions(*command.server));
  return TextService::ByServer(std::move(options),
                               NameAtServer(*command.line, command.model->models), command.calls);
}

}  // namespace

Expected<std::unique_ptr<TextService>> TextService::Load(const runtime::ModelOptions& flags,
                                                         Loads loads) {
  std::unique_ptr<TextService> service(new TextService);
  PENSTOCK_ASSIGN_OR_RETURN(service->local_,
                            loads == Loads::kTokenizer ? runtime::LocalModels::LoadTokenizers(flags)
                            : loads == Loads::kGenerator ? runtime::LocalModels::Start(flags)
                                                         : runtime::LocalModels::Load(flags));
  if (loads == Loads::kGenerator) {
    PENSTOCK_RETURN_IF_ERROR(service->local_->registry->WaitLoaded());
    service->routes_.stage_timers = false;
    service->routes_.slow_request = std::chrono::milliseconds(0);
  }
  return service;
}

std::unique_ptr<TextService> TextService::ByServer(client::ServerClientOptions options,
                                                   std::string model, size_t calls) {
  std::unique_ptr<TextService> service(new TextService);
  service->client_ = std::make_unique<client::TextClient>(std::move(options));
  service->model_ = std::move(model);
  service->pool_ = std::make_unique<WorkerPool>(calls, 2 * calls);
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
  Send<Response>(std::move(done), [this, shared, remote] { return ((*client_).*remote)(*shared); });
}

template <typename Response, typename Call>
void TextService::Send(api::Callback<Response> done, Call call) {
  const Status taken = pool_->Submit([this, done, call] {
    Expected<Response> response = call();
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

void TextService::Post(const std::string& path, std::string body, api::Callback<Posted> done) {
  if (client_ == nullptr) return PostHere(path, std::move(body), std::move(done));
  Send<Posted>(std::move(done), [this, path, body = std::move(body)]() -> Expected<Posted> {
    PENSTOCK_ASSIGN_OR_RETURN(client::PostAnswer answer, client_->server().Post(path, body));
    return Posted{answer.status, std::move(answer.body)};
  });
}

void TextService::PostHere(const std::string& path, std::string body, api::Callback<Posted> done) {
  int32_t index = 0;
  const serving::Route* const route =
      batch_api::BatchRunner::Takes(path) ? dialects::AllRoutes().FindPost(path, &index) : nullptr;
  if (route == nullptr) {
    std::string error;
    JsonWriter json(&error);
    json.BeginObject().Key("error").BeginObject();
    json.Field("message", "batches do not ask " + path.substr(0, 200)).EndObject().EndObject();
    return done(Posted{404, std::move(error)});
  }
  // Each has its own: a request that fails on its way cancels itself.
  const auto cancel = std::make_shared<CancelToken>();
  {
    const std::lock_guard lock(mutex_);
    if (stop_->cancelled()) return done(Status(StatusCode::kCancelled, "interrupted"));
    posted_.insert(cancel);
  }
  const auto request = http::NewRequest(routes_, "this process", Clock::now());
  request->method = "POST";
  request->target = request->path = path;
  request->route = index;
  request->body_bytes = body.size();
  request->context.cancel = cancel;
  serving::CallInner({local_->service.get(), &local_->metrics, &routes_, &dialects::AllRoutes()},
                     route, request, std::move(body),
                     [this, done, cancel](const http::Exchange::Print& print) {
                       {
                         const std::lock_guard lock(mutex_);
                         posted_.erase(cancel);
                       }
                       // Stop() cancelled the row: what came back is an error, not its text.
                       if (stop_->cancelled()) {
                         return done(Status(StatusCode::kCancelled, "interrupted"));
                       }
                       if (print == nullptr) return done(Status::Internal("the request was lost"));
                       done(Posted{0, "", print});
                     });
}

void TextService::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_->Cancel();
    for (const auto& cancel : posted_) cancel->Cancel();
  }
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

bulk::ShardMaker TextService::maker() const {
  if (local_ == nullptr) return {model_, "", PENSTOCK_VERSION, "", "server " + model_};
  const api::ModelInfo model = local_->service->Models().front();
  bulk::ShardMaker maker = bulk::MakerHere(model.name, model.dtype);
  // No vectors tell what these models give: their names, and what computes, stand for it.
  maker.fingerprint =
      Sha256Hex(fmt::format("{}\n{}\n{}\n{}", maker.model, maker.dtype, maker.program, maker.isa));
  return maker;
}

namespace {

// Runs `work` until it is done or a signal came, and closes the file.
Status WorkInto(TextService* service, OutputFile* file, Interruption* interruption,
                ProgressLine* progress, const TextWork& work) {
  Status status;
  {
    const Interruption::Stop stop(interruption, [&] { service->Stop(); });
    status = service->End(work(service, file, progress));
  }
  if (interruption->signal() != 0 && !status.ok()) status = {StatusCode::kCancelled, "interrupted"};
  return file->CloseAfter(status);
}

int ExitCode(const CommandLine& line, const Interruption& interruption, const Status& status) {
  if (status.ok()) return kExitOk;
  if (interruption.signal() == 0 && status.field() == "output") {
    return line.FailUsage(status.message());
  }
  line.Fail(status);
  return interruption.signal() != 0 ? kExitSignal + interruption.signal() : kExitFailure;
}

Expected<int64_t> LinesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int64_t lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  if (file.bad()) return Status(StatusCode::kUnavailable, "cannot read " + path);
  return lines;
}

Expected<bulk::ShardPart> MakePart(const TextCommand& command, TextService* service,
                                   Interruption* interruption, const bulk::ShardRun::Job& job,
                                   const TextWork& work) {
  const std::string path = job.stem + ".jsonl";
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  ProgressLine progress(command.text->quiet);
  bulk::ShardPart part;
  // An empty shard has no slices, which would stand for all files.
  command.text->slices = job.input;
  if (job.input.empty()) {
    PENSTOCK_RETURN_IF_ERROR(file.Close());
  } else {
    PENSTOCK_RETURN_IF_ERROR(WorkInto(service, &file, interruption, &progress, work));
  }
  ReportCut(progress.cut(), command.line->name(), service->max_tokens());
  part.cut = progress.cut();
  PENSTOCK_ASSIGN_OR_RETURN(part.rows, LinesOf(path));
  return part;
}

int RunTextShards(const TextCommand& command, const bulk::ShardChoice& choice,
                  Interruption* interruption, const TextWork& work) {
  const CommandLine& line = *command.line;
  auto run = bulk::ShardRun::Prepare({.command = line.name(),
                                      .folder = command.text->output,
                                      .parts = ".jsonl",
                                      .settings = command.settings,
                                      .choice = choice,
                                      .mixed = command.shard->mixed,
                                      .quiet = command.text->quiet},
                                     command.text->files, command.text->input);
  if (!run.ok()) return ExitCode(line, *interruption, run.status());
  const auto nothing = run->NothingLeft();
  if (!nothing.ok()) return line.Fail(nothing.status());
  if (*nothing) return kExitOk;
  const auto service = Open(command);
  if (!service.ok()) {
    return service.status().field() == "api-key-file" ? line.FailUsage(service.status().message())
                                                      : line.Fail(service.status());
  }
  if (const Status begun = run->Begin((*service)->maker()); !begun.ok()) {
    return line.FailUsage(begun.message());
  }
  const Status status = run->Run(*interruption, [&](const bulk::ShardRun::Job& job) {
    return MakePart(command, service->get(), interruption, job, work);
  });
  return ExitCode(line, *interruption, status);
}

}  // namespace

int RunTextCommand(const TextCommand& command, const TextWork& work) {
  const CommandLine& line = *command.line;
  Interruption interruption;  // before any other thread
  if (const Status log = ApplyLogFlags(*command.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  std::optional<bulk::ShardChoice> shard;
  if (command.shard != nullptr) {
    auto chosen = ChosenShard(*command.shard, [](const char* name) { return std::getenv(name); });
    if (!chosen.ok()) return line.FailUsage(chosen.status().message());
    shard = *chosen;
  }
  if (!command.server->url.empty()) {
    if (const Status fit = CheckForServer(line); !fit.ok()) return line.FailUsage(fit.message());
  }
  if (const Status input = CheckInput(*command.text); !input.ok()) return line.Fail(input);
  command.text->input.stop_fd = interruption.fd();
  if (shard) return RunTextShards(command, *shard, &interruption, work);
  auto service = Open(command);
  if (!service.ok()) {
    return service.status().field() == "api-key-file" ? line.FailUsage(service.status().message())
                                                      : line.Fail(service.status());
  }
  auto file = OutputFile::Open(command.text->output);
  if (!file.ok()) return line.FailUsage("--output: " + file.status().message());
  ProgressLine progress(command.text->quiet);
  const Status status = WorkInto(service->get(), &*file, &interruption, &progress, work);
  if (!status.ok()) {
    line.Fail(status);
    return interruption.signal() != 0 ? kExitSignal + interruption.signal() : kExitFailure;
  }
  ReportCut(progress.cut(), line.name(), (*service)->max_tokens());
  return kExitOk;
}

}  // namespace penstock::cli
