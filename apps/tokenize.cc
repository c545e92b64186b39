// penstock tokenize: the tokens that a model gets of a text.
#include <fmt/format.h>

#include <optional>

#include "bulk/request_window.h"
#include "commands.h"
#include "json/json_writer.h"
#include "text_service.h"

namespace penstock::cli {
namespace {

struct TokenizeFlags {
  runtime::ModelOptions model;
  ServerFlags server;
  TextFlags text;
  std::optional<std::string> prompt_name;
  bool special_tokens = true;
  bool table = false;
};

std::string PrintJson(const std::vector<api::TokenizeResponse::Token>& tokens,
                      const std::optional<std::string>& id) {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject();
  if (id) writer.Field("id", *id);
  writer.Key("ids").BeginArray();
  for (const auto& token : tokens) writer.Int(token.id);
  writer.EndArray().Key("tokens").BeginArray();
  for (const auto& token : tokens) writer.String(token.text);
  writer.EndArray().Key("offsets").BeginArray();
  for (const auto& token : tokens) {
    writer.BeginArray().Uint(token.offset.begin).Uint(token.offset.end).EndArray();
  }
  writer.EndArray().EndObject();
  return text + '\n';
}

std::string PrintTable(const std::vector<api::TokenizeResponse::Token>& tokens) {
  std::string text = fmt::format("{:>8}  {:>6}  {:>6}  {}\n", "id", "begin", "end", "token");
  for (const auto& token : tokens) {
    text += fmt::format("{:>8}  {:>6}  {:>6}  {}{}\n", token.id, token.offset.begin,
                        token.offset.end, token.text, token.special ? "  (special)" : "");
  }
  return text + fmt::format("{} tokens\n\n", tokens.size());
}

Status TokenizeAllInputs(const TokenizeFlags& flags, TextService* service, OutputFile* file) {
  corpus::RowReader reader(flags.text.files, flags.text.input);
  bulk::RequestWindow<api::TokenizeResponse, RowIds> window(
      [&](const api::TokenizeResponse& response, const RowIds& ids) -> Status {
        for (size_t i = 0; i < response.inputs.size(); ++i) {
          const auto& tokens = response.inputs[i];
          file->Write(flags.table ? PrintTable(tokens) : PrintJson(tokens, ids[i]));
        }
        return file->status();
      });
  api::TokenizeRequest request;
  RowIds ids;
  std::vector<std::string> where;
  const auto send = [&]() -> Status {
    if (request.inputs.empty()) return Status::Ok();
    request.prompt_name = flags.prompt_name;
    request.add_special_tokens = flags.special_tokens;
    auto answer = bulk::Ask<api::TokenizeResponse>([&](api::Callback<api::TokenizeResponse> done) {
      service->Tokenize(std::exchange(request, {}),
                        NamingRows(std::exchange(where, {}), std::move(done)));
    });
    return window.Push(std::move(answer), std::exchange(ids, {}));
  };
  PENSTOCK_RETURN_IF_ERROR(corpus::ForEachRow(&reader, [&](const corpus::Row& row) -> Status {
    PENSTOCK_RETURN_IF_ERROR(row.status);
    request.inputs.push_back(row.text);
    ids.push_back(row.id);
    where.push_back(row.where);
    return request.inputs.size() == static_cast<size_t>(flags.text.batch) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
  return window.Finish();
}

}  // namespace

int RunTokenize(const std::vector<std::string>& args) {
  CommandLine line(
      "tokenize",
      "Tokenize texts. Writes {\"ids\": [...], \"tokens\": [...], \"offsets\": "
      "[[begin, end], ...]} a line;\noffsets count characters. Nothing is cut.",
      "  echo 'Hello, world' | penstock tokenize --model MODEL --table\n"
      "  penstock tokenize --model MODEL texts.jsonl --output tokens.jsonl\n"
      "  penstock tokenize --model ./tokenizer.json texts.txt\n"
      "  penstock tokenize --model MODEL notes.csv.gz --text-field body --id-field id\n"
      "  penstock tokenize --url http://127.0.0.1:8080 texts.txt\n");
  TokenizeFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  line.flags().Get("--model")->Description(
      "Folder with tokenizer.json or a GGUF file, such a file, or owner/name[@revision] on the "
      "Hugging Face hub.");
  AddTextFlags(&line, &flags.text, "Texts: lines, JSON, CSV or TSV");
  const FlagGroup group(&line.flags(), "Tokens");
  group.Add("--prompt-name", flags.prompt_name, "NAME",
            "Prompt of the model to put before a text.");
  group.Switch("--special-tokens,!--no-special-tokens", flags.special_tokens,
               "With those the model's template adds, or without. [on]");
  group.Switch("--table", flags.table, "Print a table to read.");
  AddServerFlags(&line, &flags.server);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  return RunTextCommand({.line = &line,
                         .model = &flags.model,
                         .server = &flags.server,
                         .text = &flags.text,
                         .loads = TextService::Loads::kTokenizer},
                        [&](TextService* service, OutputFile* file, ProgressLine*) {
                          return TokenizeAllInputs(flags, service, file);
                        });
}

}  // namespace penstock::cli
