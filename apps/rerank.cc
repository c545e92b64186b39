// penstock rerank: documents by how well they answer a query.
#include <fmt/format.h>

#include <optional>

#include "commands.h"
#include "common/json_writer.h"
#include "local_models.h"
#include "output_file.h"
#include "request_window.h"
#include "text_flags.h"

namespace penstock {
namespace {

struct RerankFlags {
  ModelFlags model;
  TextFlags text;
  std::optional<std::string> query;
  std::optional<int32_t> top_n;
  bool raw_scores = false;
  bool return_documents = false;
};

// {"query": ..., "documents": [...]} of a line; documents are strings or {"text": ...}.
Expected<RerankRequest> RequestOfLine(const LineReader::Line& line) {
  const auto parse = [&]() -> Expected<RerankRequest> {
    PENSTOCK_ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(line.text));
    PENSTOCK_ASSIGN_OR_RETURN(const auto object, document.Object());
    RerankRequest request;
    PENSTOCK_ASSIGN_OR_RETURN(request.query, object.GetString("query"));
    PENSTOCK_ASSIGN_OR_RETURN(const auto documents, object.GetArray("documents"));
    for (const auto element : documents) {
      std::string_view text;
      if (element.get_string().get(text) != simdjson::SUCCESS &&
          element["text"].get_string().get(text) != simdjson::SUCCESS) {
        return Status::InvalidArgument("documents are strings or objects with \"text\"");
      }
      request.documents.emplace_back(text);
    }
    return request;
  };
  auto request = parse();
  if (!request.ok()) return request.status().Annotate(line.where);
  return request;
}

std::string Print(const RerankFlags& flags, const RerankRequest& request,
                  const RerankResponse& response) {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("query", request.query).Key("results").BeginArray();
  for (const auto& item : response.items) {
    writer.BeginObject().Field("index", item.index).Field("score", item.score);
    if (flags.return_documents) writer.Field("document", request.documents[item.index]);
    writer.EndObject();
  }
  writer.EndArray().EndObject();
  return text + '\n';
}

Status RerankAllInputs(const RerankFlags& flags, Service* service, OutputFile* file,
                       ProgressLine* progress) {
  LineReader reader(flags.text.files, flags.text.format);
  RequestWindow<RerankResponse, RerankRequest> window(
      [&](const RerankResponse& response, const RerankRequest& request) -> Status {
        progress->Add(request.documents.size(), response.usage, response.truncation);
        file->Write(Print(flags, request, response));
        return file->status();
      });
  const auto send = [&](RerankRequest request) {
    request.top_n = flags.top_n;
    if (flags.raw_scores) request.raw_scores = true;
    auto answer = Ask<RerankResponse>(
        [&](Callback<RerankResponse> done) { service->Rerank(request, {}, std::move(done)); });
    return window.Push(std::move(answer), std::move(request));
  };
  RerankRequest single;
  if (flags.query) single.query = *flags.query;
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(auto line, reader.Next());
    if (!line) break;
    if (flags.query) {
      PENSTOCK_ASSIGN_OR_RETURN(auto text, TextOfLine(*line, {"text", "document", "content"}));
      single.documents.push_back(std::move(text));
      // All documents of one query are ranked together, so they must fit into one request.
      if (single.documents.size() > static_cast<size_t>(service->limits().inputs_per_request)) {
        return {StatusCode::kPayloadTooLarge,
                fmt::format("more than {} documents", service->limits().inputs_per_request)};
      }
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto request, RequestOfLine(*line));
    PENSTOCK_RETURN_IF_ERROR(send(std::move(request)));
  }
  if (flags.query) PENSTOCK_RETURN_IF_ERROR(send(std::move(single)));
  return window.Finish();
}

}  // namespace

int RunRerank(const std::vector<std::string>& args) {
  CommandLine line(
      "rerank",
      "Rerank documents. With --query the input is documents; without it, JSONL of\n"
      "{\"query\": ..., \"documents\": [...]}. Writes one JSON object a query, best "
      "document first.",
      "  penstock rerank --model MODEL --query 'What is a penstock?' documents.txt\n"
      "  penstock rerank --model MODEL --top-n 10 queries.jsonl --output ranked.jsonl\n");
  RerankFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  DropDefaultModel(&line);
  AddTextFlags(&line, &flags.text, "Documents, or JSONL of queries with their documents");
  const std::string group = "Reranking";
  CLI::App& app = line.app();
  app.add_option("--query", flags.query, "What the documents are to answer.")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--top-n", flags.top_n, "Write the N best only.")->type_name("N")->group(group);
  app.add_flag("--raw-scores", flags.raw_scores, "Logits, not put through a sigmoid.")
      ->group(group);
  app.add_flag("--return-documents", flags.return_documents, "Write the documents, too.")
      ->group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.models.empty()) return line.FailUsage(ModelRequired("reranker"));
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (!flags.query && flags.text.format == InputFormat::kAuto) {
    flags.text.format = InputFormat::kJsonl;
  }
  // Limits of the network have no meaning here.
  flags.model.limits.inputs_per_request = 1 << 20;
  auto local = LocalModels::Load(flags.model);
  if (!local.ok()) return line.Fail(local.status());
  auto file = OutputFile::Open(flags.text.output);
  if (!file.ok()) return line.FailUsage(file.status().message());
  ProgressLine progress(flags.text.quiet);
  Service& service = *(*local)->service;
  const Status status = file->CloseAfter(RerankAllInputs(flags, &service, &*file, &progress));
  if (!status.ok()) return line.Fail(status);
  ReportCut(progress, "rerank", service.Models().front().max_tokens);
  return kExitOk;
}

}  // namespace penstock
