// penstock classify: labels for texts or pairs of texts.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "commands.h"
#include "common/json_writer.h"
#include "local_models.h"
#include "output_file.h"
#include "request_window.h"
#include "text_flags.h"

namespace penstock {
namespace {

struct ClassifyFlags {
  ModelFlags model;
  TextFlags text;
  int32_t top_k = 0;
  bool raw_scores = false;
};

// A text, or of JSON {"text": ..., "text_pair": ...}.
Expected<ClassifyInput> InputOfLine(const LineReader::Line& line) {
  ClassifyInput input;
  PENSTOCK_ASSIGN_OR_RETURN(input.first, TextOfLine(line, {"text", "input", "content"}));
  if (!line.json) return input;
  PENSTOCK_ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(line.text));
  if (!document.root().is_object()) return input;
  PENSTOCK_ASSIGN_OR_RETURN(const auto object, document.Object());
  if (!object.Has("text_pair")) return input;
  auto second = object.GetString("text_pair");
  if (!second.ok()) return second.status().Annotate(line.where);
  input.second = *std::move(second);
  return input;
}

Status ClassifyAllInputs(const ClassifyFlags& flags, Service* service, OutputFile* file,
                         ProgressLine* progress) {
  LineReader reader(flags.text.files, flags.text.format);
  int64_t index = 0;
  RequestWindow<ClassifyResponse, size_t> window(
      [&](const ClassifyResponse& response, size_t texts) -> Status {
        progress->Add(texts, response.usage, response.truncation);
        std::string text;
        for (const auto& labels : response.inputs) {
          JsonWriter writer(&text);
          writer.BeginObject().Field("index", index++).Key("labels").BeginArray();
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
  ClassifyRequest request;
  const auto send = [&]() -> Status {
    const size_t texts = request.inputs.size();
    if (texts == 0) return Status::Ok();
    request.raw_scores = flags.raw_scores;
    auto answer = Ask<ClassifyResponse>([&](Callback<ClassifyResponse> done) {
      service->Classify(std::exchange(request, {}), {}, std::move(done));
    });
    return window.Push(std::move(answer), texts);
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachLine(&reader, [&](const LineReader::Line& line) -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, InputOfLine(line));
    request.inputs.push_back(std::move(input));
    return request.inputs.size() == static_cast<size_t>(flags.text.batch) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
  return window.Finish();
}

}  // namespace

int RunClassify(const std::vector<std::string>& args) {
  CommandLine line("classify",
                   "Classify texts, or pairs given as {\"text\": ..., \"text_pair\": ...}. Writes "
                   "one JSON object a text,\nbest label first.",
                   "  echo 'What a day!' | penstock classify --model MODEL --top-k 1\n"
                   "  penstock classify --model MODEL reviews.jsonl --output labels.jsonl\n");
  ClassifyFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  DropDefaultModel(&line);
  AddTextFlags(&line, &flags.text, "Texts: lines, or JSONL of strings or {\"text\": ...}");
  const std::string group = "Classification";
  line.app()
      .add_option("--top-k", flags.top_k, "Write the K best labels only; 0 = all.")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("K")
      ->group(group);
  line.app()
      .add_flag("--raw-scores", flags.raw_scores, "Logits, before softmax or sigmoid.")
      ->group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.models.empty()) return line.FailUsage(ModelRequired("classifier"));
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  auto local = LocalModels::Load(flags.model);
  if (!local.ok()) return line.Fail(local.status());
  auto file = OutputFile::Open(flags.text.output);
  if (!file.ok()) return line.FailUsage(file.status().message());
  ProgressLine progress(flags.text.quiet);
  Service& service = *(*local)->service;
  const Status status = file->CloseAfter(ClassifyAllInputs(flags, &service, &*file, &progress));
  if (!status.ok()) return line.Fail(status);
  ReportCut(progress, "classify", service.Models().front().max_tokens);
  return kExitOk;
}

}  // namespace penstock
