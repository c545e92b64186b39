// penstock classify: labels for texts or pairs of texts.
#include <fmt/format.h>

#include <algorithm>

#include "bulk/request_window.h"
#include "commands.h"
#include "json/json.h"
#include "text_service.h"

namespace penstock::cli {
namespace {

struct ClassifyFlags {
  runtime::ModelOptions model;
  ServerFlags server;
  TextFlags text;
  ShardFlags shard;
  int32_t top_k = 0;
  bool raw_scores = false;
};

// A text, or of objects and tables also "text_pair".
Expected<api::ClassifyInput> InputOfRow(const corpus::Row& row) {
  PENSTOCK_RETURN_IF_ERROR(row.status);
  api::ClassifyInput input;
  input.first = row.text;
  if (row.object.empty()) return input;
  PENSTOCK_ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(row.object));
  PENSTOCK_ASSIGN_OR_RETURN(const auto object, document.Object());
  if (!object.Has("text_pair")) return input;
  auto second = object.GetString("text_pair");
  if (!second.ok()) return second.status().Annotate(row.where);
  input.second = *std::move(second);
  return input;
}

Status ClassifyAllInputs(const ClassifyFlags& flags, TextService* service, OutputFile* file,
                         ProgressLine* progress) {
  corpus::RowReader reader = RowsOf(flags.text);
  int64_t index = 0;
  bulk::RequestWindow<api::ClassifyResponse, RowIds> window(
      [&](const api::ClassifyResponse& response, const RowIds& row_ids) -> Status {
        progress->Add(row_ids.size(), response.usage, response.truncation);
        std::string text;
        for (size_t row = 0; row < response.inputs.size(); ++row) {
          const auto& labels = response.inputs[row];
          JsonWriter writer(&text);
          writer.BeginObject().Field("index", index++);
          if (row_ids[row]) writer.Field("id", *row_ids[row]);
          writer.Key("labels").BeginArray();
          const size_t n =
              flags.top_k > 0 ? std::min<size_t>(flags.top_k, labels.size()) : labels.size();
          for (size_t i = 0; i < n; ++i) {
            writer.BeginObject().Field("label", response.labels[labels[i].id]);
            writer.Field("score", labels[i].score).EndObject();
          }
          writer.EndArray().EndObject();
          text += '\n';
        }
        file->Write(text);
        return file->status();
      });
  api::ClassifyRequest request;
  RowIds ids;
  std::vector<std::string> where;
  const auto send = [&]() -> Status {
    if (request.inputs.empty()) return Status::Ok();
    request.raw_scores = flags.raw_scores;
    auto answer = bulk::Ask<api::ClassifyResponse>([&](api::Callback<api::ClassifyResponse> done) {
      service->Classify(std::exchange(request, {}),
                        NamingRows(std::exchange(where, {}), std::move(done)));
    });
    return window.Push(std::move(answer), std::exchange(ids, {}));
  };
  PENSTOCK_RETURN_IF_ERROR(corpus::ForEachRow(&reader, [&](const corpus::Row& row) -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, InputOfRow(row));
    request.inputs.push_back(std::move(input));
    ids.push_back(row.id);
    where.push_back(row.where);
    return request.inputs.size() == static_cast<size_t>(flags.text.batch) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
  return window.Finish();
}

// The settings that shape the labels, besides the model and the input.
std::string SettingsText(const ClassifyFlags& flags) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("top-k", flags.top_k).Field("raw-scores", flags.raw_scores);
  WriteInputSettings(flags.text.input, &json);
  json.EndObject();
  return text;
}

}  // namespace

int RunClassify(const std::vector<std::string>& args) {
  CommandLine line("classify",
                   "Classify texts, or pairs given as {\"text\": ..., \"text_pair\": ...}. Writes "
                   "one JSON object a text,\nbest label first.",
                   "  echo 'What a day!' | penstock classify --model MODEL --top-k 1\n"
                   "  penstock classify --model MODEL reviews.jsonl --output labels.jsonl\n"
                   "  penstock classify --url http://127.0.0.1:8080 reviews.jsonl\n"
                   "  penstock classify --model MODEL reviews.jsonl --shards 64 --take -o parts\n");
  ClassifyFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  DropDefaultModel(&line);
  AddTextFlags(&line, &flags.text, "Texts: lines, JSON, CSV or TSV");
  const FlagGroup group(&line.flags(), "Classification");
  group.Add("--top-k", flags.top_k, "K", InRange(0, 1 << 20),
            "Write the K best labels only; 0 = all.");
  group.Switch("--raw-scores", flags.raw_scores, "Logits, before softmax or sigmoid.");
  AddShardFlags(&line, &flags.shard, /*verify=*/false);
  AddServerFlags(&line, &flags.server);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.models.empty() && flags.server.url.empty()) {
    return line.FailUsage(ModelRequired("classifier"));
  }
  flags.text.input.keeps_objects = true;
  return RunTextCommand({.line = &line,
                         .model = &flags.model,
                         .server = &flags.server,
                         .text = &flags.text,
                         .shard = &flags.shard,
                         .settings = SettingsText(flags)},
                        [&](TextService* service, OutputFile* file, ProgressLine* progress) {
                          return ClassifyAllInputs(flags, service, file, progress);
                        });
}

}  // namespace penstock::cli
