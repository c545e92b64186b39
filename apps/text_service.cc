#include "text_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/sha256.h"
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

ShardMaker TextService::maker() const {
  if (local_ == nullptr) return {model_, "", PENSTOCK_VERSION, "", "server " + model_};
  const api::ModelInfo model = local_->service->Models().front();
  ShardMaker maker = MakerHere(model.name, model.dtype);
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

Expected<ShardPart> MakePart(const TextCommand& command, TextService* service,
                             Interruption* interruption, const ShardRun::Job& job,
                             const TextWork& work) {
  const std::string path = job.stem + ".jsonl";
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  ProgressLine progress(command.text->quiet);
  ShardPart part;
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

int RunTextShards(const TextCommand& command, const ShardChoice& choice, Interruption* interruption,
                  const TextWork& work) {
  const CommandLine& line = *command.line;
  auto run = ShardRun::Prepare({.command = line.name(),
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
  const Status status = run->Run(*interruption, [&](const ShardRun::Job& job) {
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
  std::optional<ShardChoice> shard;
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
