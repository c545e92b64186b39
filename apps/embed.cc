// penstock embed: texts to vectors.
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

struct EmbedFlags {
  ModelFlags model;
  TextFlags text;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  bool normalize = false;
  CLI::Option* normalize_flag = nullptr;  // was it given?
};

void AddEmbedFlags(CommandLine* line, EmbedFlags* flags) {
  const std::string group = "Embedding";
  CLI::App& app = line->app();
  app.add_option("--prompt-name", flags->prompt_name, "Prompt of the model, such as query.")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--prompt", flags->prompt, "Text to put before each input.")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--dimensions", flags->dimensions, "Keep the first N numbers (Matryoshka).")
      ->type_name("N")
      ->group(group);
  flags->normalize_flag =
      app.add_flag("--normalize,!--no-normalize", flags->normalize,
                   "Scale vectors to length 1, or not (default: as the model says).")
          ->group(group);
}

EmbedRequest NewRequest(const EmbedFlags& flags) {
  EmbedRequest request;
  request.text.prompt = flags.prompt;
  request.text.prompt_name = flags.prompt_name;
  request.dimensions = flags.dimensions;
  if (flags.normalize_flag->count() > 0) request.normalize = flags.normalize;
  return request;
}

// Writes answers as .npy or as one JSON object a line.
class VectorWriter {
 public:
  VectorWriter(OutputFile* file, bool npy) : file_(file), npy_(npy), npy_writer_(file) {}

  Status Append(const EmbedResponse& response) {
    const std::span<const float> values = response.values;
    if (npy_) {
      npy_writer_.Append(values, response.dimensions);
    } else {
      std::string text;
      for (size_t from = 0; from < values.size(); from += response.dimensions) {
        JsonWriter writer(&text);
        writer.BeginObject().Field("index", index_++).Key("embedding");
        writer.Floats(values.subspan(from, response.dimensions)).EndObject();
        text += '\n';
      }
      file_->Write(text);
    }
    // Telling at once beats hours of work for a full disk.
    if (file_->failed()) return {StatusCode::kUnavailable, "cannot write the output"};
    return Status::Ok();
  }
  Status Finish(int32_t dimensions) {
    if (npy_) npy_writer_.Finish(dimensions);
    return file_->Close();
  }

 private:
  OutputFile* file_;
  bool npy_;
  NpyWriter npy_writer_;
  int64_t index_ = 0;
};

Status EmbedAllInputs(const EmbedFlags& flags, Service* service, VectorWriter* writer,
                      ProgressLine* progress) {
  LineReader reader(flags.text.files, flags.text.format);
  RequestWindow<EmbedResponse, size_t> window([&](const EmbedResponse& response, size_t texts) {
    progress->Add(texts, response.usage, response.truncation);
    return writer->Append(response);
  });
  EmbedRequest request = NewRequest(flags);
  const auto send = [&]() -> Status {
    const size_t texts = request.inputs.size();
    if (texts == 0) return Status::Ok();
    auto answer = Ask<EmbedResponse>([&](Callback<EmbedResponse> done) {
      service->Embed(std::exchange(request, NewRequest(flags)), {}, std::move(done));
    });
    return window.Push(std::move(answer), texts);
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachLine(&reader, [&](const LineReader::Line& line) -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(auto text, TextOfLine(line, {"text", "input", "content"}));
    Input input;
    input.text = std::move(text);
    request.inputs.push_back(std::move(input));
    return request.inputs.size() == static_cast<size_t>(flags.text.batch) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
  return window.Finish();
}

}  // namespace

int RunEmbed(const std::vector<std::string>& args) {
  CommandLine line("embed",
                   "Embed texts. Writes one JSON object a line, {\"index\": 0, \"embedding\": "
                   "[...]}, in the order\nof the input, or a float32 matrix when --output ends in "
                   ".npy.",
                   "  echo 'Hello, world' | penstock embed --model MODEL\n"
                   "  penstock embed --model MODEL texts.txt --output vectors.npy\n"
                   "  penstock embed --model MODEL --prompt-name query --dimensions 256 q.jsonl\n");
  EmbedFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  AddTextFlags(&line, &flags.text, "Texts: lines, or JSONL of strings or {\"text\": ...}");
  AddEmbedFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  auto local = LocalModels::Load(flags.model);
  if (!local.ok()) return line.Fail(local.status());
  Service& service = *(*local)->service;
  const ModelInfo model = service.Models().front();
  auto file = OutputFile::Open(flags.text.output);
  if (!file.ok()) return line.FailUsage(file.status().message());
  VectorWriter writer(&*file, flags.text.output.ends_with(".npy"));
  ProgressLine progress(flags.text.quiet);
  Status status = EmbedAllInputs(flags, &service, &writer, &progress);
  // What was done until a failure is kept, and the file is whole.
  const Status closed = writer.Finish(flags.dimensions.value_or(model.dimensions));
  if (status.ok()) status = closed;
  if (!status.ok()) return line.Fail(status);
  ReportCut(progress, "embed", model.max_tokens);
  return kExitOk;
}

}  // namespace penstock
