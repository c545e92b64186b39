// penstock rerank: documents by how well they answer a query.
#include <fmt/format.h>

#include <optional>

#include "bulk/request_window.h"
#include "commands.h"
#include "json/json.h"
#include "text_service.h"

namespace penstock::cli {
namespace {

constexpr size_t kDocumentsMax = 1 << 20;  // of a query: they are ranked together, in memory

struct RerankFlags {
  runtime::ModelOptions model;
  ServerFlags server;
  TextFlags text;
  ShardFlags shard;
  std::optional<std::string> query;
  std::optional<int32_t> top_n;
  bool raw_scores = false;
  bool return_documents = false;
};

// {"query": ..., "documents": [...]} of a row; documents are strings or {"text": ...}.
Expected<api::RerankRequest> RequestOfRow(const corpus::Row& row) {
  PENSTOCK_RETURN_IF_ERROR(row.status);
  const auto parse = [&]() -> Expected<api::RerankRequest> {
    if (row.object.empty()) {
      return Status::InvalidArgument(
          "without --query a row is an object, {\"query\": ..., \"documents\": [...]}");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(row.object));
    PENSTOCK_ASSIGN_OR_RETURN(const auto object, document.Object());
    api::RerankRequest request;
    PENSTOCK_ASSIGN_OR_RETURN(request.query, object.GetString("query"));
    PENSTOCK_ASSIGN_OR_RETURN(const auto documents, object.GetArray("documents"));
    for (const auto element : documents) {
      std::string_view text;
      if (!element.Get(&text) && !element["text"].Get(&text)) {
        return Status::InvalidArgument("documents are strings or objects with \"text\"");
      }
      request.documents.emplace_back(text);
    }
    return request;
  };
  auto request = parse();
  if (!request.ok()) return request.status().Annotate(row.where);
  return request;
}

// A request and the ids of its rows.
struct Asked {
  api::RerankRequest request;
  std::optional<std::string> id;   // of the query
  RowIds document_ids;             // of --query
  std::vector<std::string> where;  // of --query, the documents; else the query
};

std::string Print(const RerankFlags& flags, const Asked& asked,
                  const api::RerankResponse& response) {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject();
  if (asked.id) writer.Field("id", *asked.id);
  writer.Field("query", asked.request.query).Key("results").BeginArray();
  for (const auto& item : response.items) {
    writer.BeginObject().Field("index", item.index);
    if (!asked.document_ids.empty() && asked.document_ids[item.index]) {
      writer.Field("id", *asked.document_ids[item.index]);
    }
    writer.Field("score", item.score);
    if (flags.return_documents) writer.Field("document", asked.request.documents[item.index]);
    writer.EndObject();
  }
  writer.EndArray().EndObject();
  return text + '\n';
}

Status RerankAllInputs(const RerankFlags& flags, TextService* service, OutputFile* file,
                       ProgressLine* progress) {
  corpus::RowReader reader = RowsOf(flags.text);
  bulk::RequestWindow<api::RerankResponse, Asked> window(
      [&](const api::RerankResponse& response, const Asked& asked) -> Status {
        progress->Add(asked.request.documents.size(), response.usage, response.truncation);
        file->Write(Print(flags, asked, response));
        return file->status();
      });
  const auto send = [&](Asked asked) {
    asked.request.top_n = flags.top_n;
    if (flags.raw_scores) asked.request.raw_scores = true;
    auto answer = bulk::Ask<api::RerankResponse>([&](api::Callback<api::RerankResponse> done) {
      service->Rerank(
          asked.request, [where = asked.where, done = std::move(done),
                          query = flags.query.has_value()](Expected<api::RerankResponse> response) {
            if (response.ok()) return done(std::move(response));
            const Status& status = response.status();
            // Rows of queries: an error in a field is reported for its line.
            const bool of_line = !query && !status.field().empty() && status.field() != "model" &&
                                 (status.code() == StatusCode::kInvalidArgument ||
                                  status.code() == StatusCode::kPayloadTooLarge);
            done(of_line ? status.Annotate(where.front()) : NameRow(status, where));
          });
    });
    return window.Push(std::move(answer), std::move(asked));
  };
  Asked single;
  if (flags.query) single.request.query = *flags.query;
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(auto row, reader.Next());
    if (!row) break;
    if (flags.query) {
      PENSTOCK_RETURN_IF_ERROR(row->status);
      single.request.documents.push_back(std::move(row->text));
      single.document_ids.push_back(std::move(row->id));
      single.where.push_back(std::move(row->where));
      if (single.request.documents.size() > kDocumentsMax) {
        return {StatusCode::kPayloadTooLarge, fmt::format("{}: more than {} documents of one query",
                                                          single.where.back(), kDocumentsMax)};
      }
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto request, RequestOfRow(*row));
    PENSTOCK_RETURN_IF_ERROR(
        send({std::move(request), std::move(row->id), {}, {std::move(row->where)}}));
  }
  if (flags.query) PENSTOCK_RETURN_IF_ERROR(send(std::move(single)));
  return window.Finish();
}

// The settings that shape the results, besides the model and the input.
std::string SettingsText(const RerankFlags& flags) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("raw-scores", flags.raw_scores);
  if (flags.top_n) json.Field("top-n", *flags.top_n);
  json.Field("return-documents", flags.return_documents);
  WriteInputSettings(flags.text.input, &json);
  json.EndObject();
  return text;
}

}  // namespace

int RunRerank(const std::vector<std::string>& args) {
  CommandLine line(
      "rerank",
      "Rerank documents. With --query the input is documents; without it, JSON of\n"
      "{\"query\": ..., \"documents\": [...]}. Writes one JSON object a query, best "
      "document first.",
      "  penstock rerank --model MODEL --query 'What is a penstock?' documents.txt\n"
      "  penstock rerank --model MODEL --top-n 10 queries.jsonl --output ranked.jsonl\n"
      "  penstock rerank --url http://127.0.0.1:8080 --query 'What is a penstock?' docs.txt\n");
  RerankFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  DropDefaultModel(&line);
  AddTextFlags(&line, &flags.text, "Documents, or JSON of queries with their documents");
  const FlagGroup group(&line.flags(), "Reranking");
  group.Add("--query", flags.query, "TEXT", "What the documents are to answer.");
  group.Add("--top-n", flags.top_n, "N", "Write the N best only.");
  group.Switch("--raw-scores", flags.raw_scores, "Logits, not put through a sigmoid.");
  group.Switch("--return-documents", flags.return_documents, "Write the documents, too.");
  AddShardFlags(&line, &flags.shard, /*verify=*/false);
  AddServerFlags(&line, &flags.server);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.models.empty() && flags.server.url.empty()) {
    return line.FailUsage(ModelRequired("reranker"));
  }
  flags.text.input.keeps_objects = !flags.query;
  flags.text.input.needs_text = flags.query.has_value();
  flags.model.limits.inputs_per_request = kDocumentsMax;  // a limit of the network
  if (flags.query && (!flags.shard.shard.empty() || flags.shard.shards)) {
    return line.FailUsage("the documents of --query are ranked together, and cannot be cut");
  }
  return RunTextCommand({.line = &line,
                         .model = &flags.model,
                         .server = &flags.server,
                         .text = &flags.text,
                         .shard = &flags.shard,
                         .settings = SettingsText(flags)},
                        [&](TextService* service, OutputFile* file, ProgressLine* progress) {
                          return RerankAllInputs(flags, service, file, progress);
                        });
}

}  // namespace penstock::cli
