#include "checks/expected_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "checks/model_rows.h"
#include "families/model_folder.h"
#include "generate/generator.h"
#include "generate/text_stream.h"
#include "json/json.h"
#include "unicode/lower_case.h"

namespace penstock::checks {
namespace {

constexpr const char* kFile = ExpectedAnswers::kFileName;
constexpr std::array<std::string_view, 8> kFields = {"inputs", "embeddings", "query",  "documents",
                                                     "scores", "prompt",     "greedy", "tolerance"};

Status Wrong(const std::string& field, const std::string& what) {
  return Status::InvalidArgument(fmt::format("'{}' {}", field, what), field);
}
// Another answer than the file has.
Status Differs(const std::string& what) {
  return Status::Internal(
      fmt::format("{}: {}; either the model's files or {} are not what they were made as, or this "
                  "machine computes something else (penstock doctor; --no-check-models loads the "
                  "model all the same)",
                  kFile, what, kFile));
}

// Reads the fields of the file.
class Reader {
 public:
  explicit Reader(const JsonObject& object) : object_(object) {}

  Expected<ExpectedAnswers> Read() {
    PENSTOCK_RETURN_IF_ERROR(CheckNames());
    ExpectedAnswers out;
    if (object_.Has("inputs")) {
      PENSTOCK_RETURN_IF_ERROR(ReadEmbeddings(&out));
    } else if (object_.Has("documents")) {
      PENSTOCK_RETURN_IF_ERROR(ReadScores(&out));
    } else if (object_.Has("prompt")) {
      PENSTOCK_ASSIGN_OR_RETURN(out.prompt, object_.GetString("prompt"));
      PENSTOCK_ASSIGN_OR_RETURN(out.greedy, object_.GetString("greedy"));
      if (out.prompt.empty()) return Wrong("prompt", "is empty");
      if (out.greedy.empty()) return Wrong("greedy", "is empty");
    } else {
      return Status::InvalidArgument("none of 'inputs', 'documents' and 'prompt' is there");
    }
    if (object_.Has("tolerance")) {
      PENSTOCK_ASSIGN_OR_RETURN(out.tolerance, object_.GetNumber("tolerance", 0, 1));
    }
    return out;
  }

 private:
  // One kind of answers, and no field that would be ignored.
  Status CheckNames() const {
    Status status;
    object_.ForEach([&](std::string_view key, JsonElement) {
      if (std::find(kFields.begin(), kFields.end(), key) != kFields.end() || !status.ok()) return;
      status = Wrong(Printable(key, 100), "is not a field of this file");
    });
    PENSTOCK_RETURN_IF_ERROR(status);
    constexpr std::array<std::array<std::string_view, 3>, 3> kKinds = {
        {{"inputs", "embeddings", ""}, {"documents", "query", "scores"}, {"prompt", "greedy", ""}}};
    std::string_view of;
    for (const auto& kind : kKinds) {
      for (const std::string_view field : kind) {
        if (field.empty() || !object_.Has(field)) continue;
        if (!of.empty() && of != kind[0]) {
          return Wrong(std::string(field), fmt::format("does not go with '{}'", of));
        }
        of = kind[0];
      }
    }
    return Status::Ok();
  }

  Status ReadTexts(std::string_view field, std::vector<std::string>* texts) const {
    PENSTOCK_ASSIGN_OR_RETURN(*texts, object_.GetStringsOrEmpty(field, ExpectedAnswers::kTextsMax));
    return texts->empty() ? Wrong(std::string(field), "is empty") : Status::Ok();
  }

  Status ReadEmbeddings(ExpectedAnswers* out) const {
    PENSTOCK_RETURN_IF_ERROR(ReadTexts("inputs", &out->texts));
    PENSTOCK_ASSIGN_OR_RETURN(const JsonArray rows, object_.GetArray("embeddings"));
    for (const JsonElement row : rows) {
      const std::string place = fmt::format("embeddings[{}]", out->embeddings.size());
      JsonArray numbers;
      if (!row.Get(&numbers)) return Wrong(place, "is not an array of numbers");
      std::vector<float>& embedding = out->embeddings.emplace_back();
      for (const JsonElement number : numbers) {
        double value = 0;
        if (!number.Get(&value)) {
          return Wrong(fmt::format("{}[{}]", place, embedding.size()), "is not a number");
        }
        embedding.push_back(static_cast<float>(value));
      }
    }
    if (out->embeddings.size() == out->texts.size()) return Status::Ok();
    return Wrong("embeddings", fmt::format("has {} rows for {} inputs", out->embeddings.size(),
                                           out->texts.size()));
  }

  Status ReadScores(ExpectedAnswers* out) const {
    PENSTOCK_RETURN_IF_ERROR(ReadTexts("documents", &out->texts));
    PENSTOCK_ASSIGN_OR_RETURN(out->query, object_.GetString("query"));
    PENSTOCK_ASSIGN_OR_RETURN(const JsonArray scores, object_.GetArray("scores"));
    for (const JsonElement score : scores) {
      double value = 0;
      if (!score.Get(&value)) {
        return Wrong(fmt::format("scores[{}]", out->scores.size()), "is not a number");
      }
      out->scores.push_back(value);
    }
    if (out->scores.size() == out->texts.size()) return Status::Ok();
    return Wrong("scores", fmt::format("has {} numbers for {} documents", out->scores.size(),
                                       out->texts.size()));
  }

  const JsonObject& object_;
};

// The answers of one encoder, or of a decoder that embeds or scores.
class EncoderComparison {
 public:
  EncoderComparison(const ExpectedAnswers& expected, const RunnerToCheck& model, CheckClock* clock)
      : expected_(expected), model_(model), clock_(*clock) {}

  Status Run() {
    const bool embeds = model_.folder->task == families::ModelTask::kEmbedding;
    if (embeds && expected_.embeddings.empty())
      return Wrong("inputs", "is missing: a model that embeds");
    if (!embeds &&
        (expected_.scores.empty() || model_.folder->task != families::ModelTask::kReranking)) {
      return Wrong("documents", fmt::format("is for models that rerank; this one is for {}",
                                            families::ModelTaskName(model_.folder->task)));
    }
    for (size_t i = 0; i < expected_.texts.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(embeds ? CompareEmbedding(i) : CompareScore(i));
    }
    return Status::Ok();
  }

 private:
  std::string Text(const std::string& text) const {
    return model_.folder->do_lower_case ? unicode::LowerCase(text) : text;
  }

  // The model's result of a text, or of a pair.
  Expected<std::vector<float>> ResultOf(const std::string& place, const std::string& first,
                                        const std::string* second, program::EncoderOutput output) {
    const text::Tokenizer& tokenizer = *model_.tokenizer;
    text::EncodeOptions options;
    options.max_tokens = static_cast<size_t>(model_.max_tokens);
    text::Encoding encoding;
    const Status encoded =
        second == nullptr ? tokenizer.Encode(Text(first), options, &encoding)
                          : tokenizer.EncodePair(Text(first), Text(*second), options, &encoding);
    if (!encoded.ok()) return encoded.Annotate(place);
    if (encoding.ids.empty()) return Wrong(place, "has no tokens");
    tokens_ += encoding.ids.size();
    if (tokens_ > ExpectedAnswers::kTokensMax) {
      return Wrong(place, fmt::format("makes the texts longer than {} tokens together",
                                      ExpectedAnswers::kTokensMax));
    }
    program::EncoderRunner& runner = *model_.runner;
    std::vector<float> row(static_cast<size_t>(runner.OutputWidth(output)));
    float* const sink = row.data();
    const std::vector<int32_t> offsets = {0, static_cast<int32_t>(encoding.ids.size())};
    PENSTOCK_RETURN_IF_ERROR(clock_.Run([&] {
      return runner.Run({encoding.ids, encoding.type_ids, offsets, {}, {}}, output, {&sink, 1});
    }));
    return row;
  }

  Status CompareEmbedding(size_t i) {
    const std::string place = fmt::format("inputs[{}]", i);
    const std::vector<float>& wanted = expected_.embeddings[i];
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<float> row,
        ResultOf(place, expected_.texts[i], nullptr, program::EncoderOutput::kPooled));
    if (row.size() != wanted.size()) {
      return Differs(fmt::format("embeddings[{}] has {} numbers, the model gives {}", i,
                                 wanted.size(), row.size()));
    }
    const double tolerance = expected_.tolerance.value_or(CosineTolerance(model_.dtype));
    const double cosine = CosineOf(row, wanted);
    if (cosine >= 1 - tolerance) return Status::Ok();  // not if it is NaN
    return Differs(
        fmt::format("{}: the cosine with the vector it must give is {:.6f}, not {} "
                    "at least (tolerance {})",
                    place, cosine, 1 - tolerance, tolerance));
  }

  Status CompareScore(size_t i) {
    const std::string place = fmt::format("documents[{}]", i);
    const std::optional<families::PairTemplate>& pair = model_.folder->pair_template;
    const std::string& document = expected_.texts[i];
    const std::string first =
        pair ? pair->before_query + expected_.query + pair->before_document + document
             : expected_.query;
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<float> row,
        ResultOf(place, first, pair ? nullptr : &document, program::EncoderOutput::kLogits));
    const double wanted = expected_.scores[i];
    const double tolerance = expected_.tolerance.value_or(KernelTolerance(model_.dtype));
    const double most = tolerance * std::max(1.0, std::abs(wanted));
    if (std::abs(double{row[0]} - wanted) <= most) return Status::Ok();
    return Differs(fmt::format("{}: the score is {}, it must be {} (tolerance {})", place, row[0],
                               wanted, tolerance));
  }

  const ExpectedAnswers& expected_;
  const RunnerToCheck& model_;
  CheckClock& clock_;
  size_t tokens_ = 0;  // of the texts so far
};

}  // namespace

Expected<std::optional<ExpectedAnswers>> ExpectedAnswers::Read(const std::string& path) {
  const std::string file = path + "/" + kFileName;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error) || !std::filesystem::exists(file, error)) {
    return std::optional<ExpectedAnswers>();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::ParseFile(file, kBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate(file);
  auto read = Reader(*object).Read();
  if (!read.ok()) return read.status().Annotate(file);
  return std::optional<ExpectedAnswers>(*std::move(read));
}

Status CompareAnswers(const ExpectedAnswers& expected, const RunnerToCheck& model,
                      CheckClock* clock) {
  const Status status = EncoderComparison(expected, model, clock).Run();
  return status.code() == StatusCode::kInvalidArgument ? status.Annotate(kFile) : status;
}

Status CompareAnswers(const ExpectedAnswers& expected, const generate::TextModel& model,
                      CheckClock* clock) {
  if (expected.prompt.empty()) {
    return Wrong("prompt", "is missing: a model that generates").Annotate(kFile);
  }
  text::Encoding encoding;
  PENSTOCK_RETURN_IF_ERROR(model.tokenizer->Encode(expected.prompt, {}, &encoding));
  const std::vector<int32_t>& prompt = encoding.ids;
  const size_t most =
      std::min<size_t>(generate::Generator::kPromptRows, static_cast<size_t>(model.context()));
  if (prompt.empty() || prompt.size() >= most) {
    return Wrong("prompt", fmt::format("has {} tokens, not 1 to {}", prompt.size(), most - 1))
        .Annotate(kFile);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto generator, generate::Generator::Make(&model));
  sample::SamplingOptions sampling;
  sampling.temperature = 0;
  sampling.max_tokens = static_cast<int32_t>(std::min(
      ExpectedAnswers::kNewTokensMax, static_cast<size_t>(model.context()) - prompt.size()));
  PENSTOCK_ASSIGN_OR_RETURN(
      generate::TextStream stream,
      generate::TextStream::Make(model, sampling, prompt, generator->run().parts_max()));
  std::string text;
  std::vector<int32_t> ids = prompt;
  for (int32_t past = 0; text.size() < expected.greedy.size();) {
    PENSTOCK_RETURN_IF_ERROR(
        clock->Run([&] { return generator->Extend(ids, past, {}, stream.want()); }));
    past = static_cast<int32_t>(ids.size());
    PENSTOCK_RETURN_IF_ERROR(stream.Take(&generator->run(), 0));
    text += stream.text();
    if (stream.end()) break;
    ids.push_back(stream.token().id);
  }
  if (text.starts_with(expected.greedy)) return Status::Ok();
  return Differs(
      fmt::format("after 'prompt' comes '{}', not '{}'", Shown(text), Shown(expected.greedy)));
}

}  // namespace penstock::checks
