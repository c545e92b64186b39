#include "doctor_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "bulk/request_window.h"
#include "checks/accuracy.h"
#include "checks/varied_texts.h"
#include "corpus/row_reader.h"
#include "devices/backends.h"
#include "load/records.h"
#include "log/step_progress.h"
#include "models/linear_types.h"
#include "text_flags.h"

namespace penstock::cli {
namespace {

constexpr size_t kRequestTexts = 64;
constexpr size_t kTrialTexts = 250;  // of the comparison of one part that is kept
constexpr size_t kLabelsMax = 64;
constexpr size_t kSuggestedPartsMax = 3;

Expected<std::vector<std::string>> ReadTexts(const AccuracyFlags& flags) {
  if (flags.texts_file.empty()) {
    return checks::VariedTexts(static_cast<size_t>(flags.count.value_or(AccuracyFlags::kTexts)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto texts, ReadTextsFile(flags));
  if (texts.size() < 2) {
    return Status::InvalidArgument(
        fmt::format("--texts {}: two texts at least are needed", flags.texts_file), "texts");
  }
  return texts;
}

// Rerankers: some of the texts ask, all of the others answer.
Workload MakeWorkload(const std::string& task, const std::vector<std::string>& texts) {
  Workload work{task, {}, 0};
  if (task != "reranking") {
    for (const std::string& text : texts) work.inputs.push_back({text, std::nullopt});
    return work;
  }
  const size_t n = texts.size();
  work.lists = std::max<size_t>(1, static_cast<size_t>(std::sqrt(static_cast<double>(n) / 1.6)));
  const size_t passages = std::clamp<size_t>(n / work.lists, 1, n - 1);
  for (size_t q = 0; q < work.lists; ++q) {
    const size_t query = q * (n / work.lists);
    for (size_t p = 0; p < passages; ++p) {
      const size_t passage = p * (n / passages);
      work.inputs.push_back({texts[query], texts[passage == query ? (passage + 1) % n : passage]});
    }
  }
  return work;
}

// Rows of scores as the lists that are ranked: a query's passages, or every label's texts.
checks::ResultRows AsLists(const Workload& work, const checks::ResultRows& rows) {
  if (work.task == "reranking") return {rows.values, rows.values.size() / work.lists};
  checks::ResultRows lists{{}, rows.count()};
  for (size_t label = 0; label < std::min(rows.width, kLabelsMax); ++label) {
    for (size_t i = 0; i < rows.count(); ++i) lists.values.push_back(rows.row(i)[label]);
  }
  return lists;
}

// The accuracy of one type, for any task.
struct Outcome {
  std::string text;
  std::string beyond;  // "" = within the limits
  double badness = 0;  // to compare kept parts by
};

checks::Verdict VerdictOf(const Outcome& outcome) {
  return outcome.beyond.empty() ? checks::Verdict::kOk : checks::Verdict::kAdvice;
}

Outcome Compare(const Workload& work, const checks::ResultRows& f32,
                const checks::ResultRows& other, const checks::AccuracyLimits& limits,
                const std::string& record, load::BenchRecords* records) {
  Outcome outcome;
  const auto add = [&](const char* name, double value, const char* unit) {
    if (records != nullptr) records->Add("accuracy." + record + "." + name, value, unit);
  };
  double spearman = 0, overlap = 0;
  if (work.task == "embedding") {
    const checks::EmbeddingAccuracy accuracy = checks::CompareEmbeddings(f32, other);
    add("cosine_mean", accuracy.cosine_mean, "1");
    add("cosine_min", accuracy.cosine_min, "1");
    outcome.text =
        fmt::format("cosine mean {:.6f}, min {:.6f}", accuracy.cosine_mean, accuracy.cosine_min);
    outcome.beyond = accuracy.Beyond(limits);
    outcome.badness = 1 - accuracy.cosine_mean;
    spearman = accuracy.spearman_difference;
    overlap = accuracy.top10_overlap_percent;
  } else {
    const checks::ScoreAccuracy accuracy =
        checks::CompareScores(AsLists(work, f32), AsLists(work, other));
    add("score_difference_mean", accuracy.difference_mean, "1");
    add("score_difference_max", accuracy.difference_max, "1");
    outcome.text = fmt::format("raw scores differ by {:.5f}, {:.5f} at most",
                               accuracy.difference_mean, accuracy.difference_max);
    outcome.beyond = accuracy.Beyond(limits);
    outcome.badness = accuracy.difference_mean;
    spearman = accuracy.spearman_difference;
    overlap = accuracy.top10_overlap_percent;
  }
  add("spearman_difference", spearman, "1");
  add("top10_overlap_percent", overlap, "%");
  outcome.text +=
      fmt::format(", Spearman difference {:.6f}, top-10 overlap {:.2f} %", spearman, overlap);
  return outcome;
}

class TypeComparison {
 public:
  TypeComparison(runtime::ModelOptions model, const AccuracyFlags& flags, const checks::Say& say)
      : model_(std::move(model)), flags_(flags), say_(say) {
    model_.redis_url.clear();
    model_.limits.result_cache_bytes = 0;  // each answer is the model's
  }

  Status Run() {
    PENSTOCK_ASSIGN_OR_RETURN(texts_, ReadTexts(flags_));
    PENSTOCK_ASSIGN_OR_RETURN(f32_, Answers("f32", {}, &work_));
    PENSTOCK_ASSIGN_OR_RETURN(const devices::DeviceOptions device, runtime::DeviceAsked(model_));
    if (!devices::IsHost(device.device)) {
      PENSTOCK_ASSIGN_OR_RETURN(const Outcome f16,
                                Measure("f16", {}, checks::kBf16Limits, &records_));
      Tell("f16", f16);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Outcome bf16,
                              Measure("bf16", {}, checks::kBf16Limits, &records_));
    Tell("bf16", bf16);
    const std::vector<std::string> kept = model_.int8_keep;
    const std::string asked = kept.empty() ? "" : kept.front();
    const auto int8 = Measure("int8", asked, checks::kInt8Limits, &records_);
    if (int8.status().code() == StatusCode::kUnsupported) {  // decoders, but in block types
      say_(checks::Verdict::kOk, "int8 is not for this model: " + int8.status().message());
      return records_.WriteFile(flags_.json_file);
    }
    if (!int8.ok()) return int8.status();
    Tell(asked.empty() ? "int8" : "int8 (kept: " + asked + ")", *int8);
    if (flags_.try_keep || (!int8->beyond.empty() && asked.empty())) {
      PENSTOCK_RETURN_IF_ERROR(TryKept(!int8->beyond.empty()));
    }
    return records_.WriteFile(flags_.json_file);
  }

 private:
  struct Trial {
    std::string part;
    double badness = 0;
  };

  // Answers to `work` (made here where it is empty), of the model in a type of its own.
  Expected<checks::ResultRows> Answers(const std::string& dtype, const std::string& keep,
                                       Workload* work) {
    runtime::ModelOptions model = model_;
    model.dtypes = {dtype};
    model.int8_keep.clear();
    if (!keep.empty()) model.int8_keep = {keep};
    StepProgress progress({.quiet = flags_.quiet});
    PENSTOCK_ASSIGN_OR_RETURN(auto local, runtime::LocalModels::Load(model));
    if (work->inputs.empty()) {
      *work = MakeWorkload(local->service->Models().front().task, texts_);
      layers_ =
          (*local->registry->Find<engine::EncoderEngine>(""))->folder().encoder.num_hidden_layers;
    }
    progress.Next(fmt::format("{} inputs in {}{}{}", work->inputs.size(), dtype,
                              keep.empty() ? "" : ", but for ", keep));
    return AskAll(local->service.get(), *work);
  }

  Expected<Outcome> Measure(const std::string& dtype, const std::string& keep,
                            const checks::AccuracyLimits& limits, load::BenchRecords* records) {
    PENSTOCK_ASSIGN_OR_RETURN(const checks::ResultRows rows, Answers(dtype, keep, &work_));
    return Compare(work_, f32_, rows, limits, dtype, records);
  }

  void Tell(const std::string& what, const Outcome& outcome) const {
    say_(VerdictOf(outcome), what + ": " + outcome.text);
    if (outcome.beyond.empty()) return;
    say_(checks::Verdict::kAdvice, what + " is not advisable for this model: " + outcome.beyond);
  }

  // Measures int8 with one kind of linear layer kept in the higher type, for each kind in turn (and
  // for each layer if asked). If int8 is not advisable, then tries the most helpful kinds together.
  Status TryKept(bool suggest) {
    Workload some = work_;
    TakeTrialInputs(&some);
    PENSTOCK_ASSIGN_OR_RETURN(const checks::ResultRows wanted, Answers("f32", "", &some));
    std::vector<std::string> parts = {""};
    for (const models::LinearKind linear : models::kLinearKinds)
      parts.emplace_back(models::LinearName(linear));
    for (int32_t i = 0; flags_.try_keep && i < layers_; ++i) parts.push_back(std::to_string(i));
    std::vector<Trial> trials;
    for (const std::string& part : parts) {
      PENSTOCK_ASSIGN_OR_RETURN(const checks::ResultRows rows, Answers("int8", part, &some));
      trials.push_back(
          {part, Compare(some, wanted, rows, checks::kInt8Limits, "", nullptr).badness});
    }
    const double none = trials.front().badness;
    std::string text;
    std::stable_sort(trials.begin() + 1, trials.end(),
                     [](const Trial& a, const Trial& b) { return a.badness < b.badness; });
    for (size_t i = 1; i < trials.size(); ++i) {
      text += fmt::format("{} {} -{:.0f} %", i == 1 ? "" : ",", trials[i].part,
                          none > 0 ? 100 * (1 - trials[i].badness / none) : 0.0);
    }
    say_(checks::Verdict::kOk, "int8's difference, with one part kept higher:" + text);
    if (!suggest) return Status::Ok();
    std::string keep;
    size_t parts_kept = 0;
    for (size_t i = 1; i < trials.size() && parts_kept < kSuggestedPartsMax; ++i) {
      if (trials[i].part.find_first_not_of("0123456789") == std::string::npos) continue;
      keep += (keep.empty() ? "" : ",") + trials[i].part;
      ++parts_kept;
      PENSTOCK_ASSIGN_OR_RETURN(const Outcome outcome,
                                Measure("int8", keep, checks::kInt8Limits, nullptr));
      say_(VerdictOf(outcome), fmt::format("int8 with --int8-keep {}: {}", keep, outcome.text));
      if (outcome.beyond.empty()) return Status::Ok();
    }
    say_(checks::Verdict::kAdvice,
         "no three kinds of linear layers kept higher bring int8 within its limits: use bf16");
    return Status::Ok();
  }

  // A part of the inputs, evenly spread; of rerankers, whole lists.
  static void TakeTrialInputs(Workload* work) {
    const size_t list = work->lists == 0 ? 1 : work->inputs.size() / work->lists;
    const size_t lists = work->inputs.size() / list;
    const size_t taken = std::clamp<size_t>(kTrialTexts / list, 1, lists);
    std::vector<api::ClassifyInput> inputs;
    for (size_t i = 0; i < taken; ++i) {
      const auto begin = work->inputs.begin() + static_cast<ptrdiff_t>(i * (lists / taken) * list);
      inputs.insert(inputs.end(), begin, begin + static_cast<ptrdiff_t>(list));
    }
    work->inputs = std::move(inputs);
    if (work->lists != 0) work->lists = taken;
  }

  runtime::ModelOptions model_;
  const AccuracyFlags& flags_;
  const checks::Say& say_;
  std::vector<std::string> texts_;
  Workload work_;
  checks::ResultRows f32_;
  int32_t layers_ = 0;
  load::BenchRecords records_;
};

}  // namespace

Expected<checks::ResultRows> AskAll(api::Service* service, const Workload& work) {
  checks::ResultRows rows;
  const auto take = [&](std::span<const float> values, size_t width) {
    rows.width = width;
    rows.values.insert(rows.values.end(), values.begin(), values.end());
    return Status::Ok();
  };
  bulk::RequestWindow<api::EmbedResponse, int> embeddings(
      [&](const api::EmbedResponse& answer, int) {
        return take(answer.values, static_cast<size_t>(answer.dimensions));
      });
  bulk::RequestWindow<api::ClassifyResponse, int> scores(
      [&](const api::ClassifyResponse& answer, int) {
        for (const auto& labels : answer.inputs) {
          std::vector<float> row(labels.size());
          for (const auto& label : labels) row[static_cast<size_t>(label.id)] = label.score;
          PENSTOCK_RETURN_IF_ERROR(take(row, row.size()));
        }
        return Status::Ok();
      });
  for (size_t from = 0; from < work.inputs.size(); from += kRequestTexts) {
    const size_t end = std::min(from + kRequestTexts, work.inputs.size());
    if (work.task == "embedding") {
      api::EmbedRequest request;
      request.text.prompt = "";
      request.text.truncate = true;
      for (size_t i = from; i < end; ++i) {
        request.inputs.emplace_back().text = work.inputs[i].first;
      }
      PENSTOCK_RETURN_IF_ERROR(embeddings.Push(
          bulk::Ask<api::EmbedResponse>([&](api::Callback<api::EmbedResponse> done) {
            service->Embed(std::move(request), {}, std::move(done));
          }),
          0));
    } else {
      api::ClassifyRequest request;
      request.raw_scores = true;
      request.text.truncate = true;
      request.inputs.assign(work.inputs.begin() + static_cast<ptrdiff_t>(from),
                            work.inputs.begin() + static_cast<ptrdiff_t>(end));
      PENSTOCK_RETURN_IF_ERROR(scores.Push(
          bulk::Ask<api::ClassifyResponse>([&](api::Callback<api::ClassifyResponse> done) {
            service->Classify(std::move(request), {}, std::move(done));
          }),
          0));
    }
  }
  PENSTOCK_RETURN_IF_ERROR(embeddings.Finish());
  PENSTOCK_RETURN_IF_ERROR(scores.Finish());
  return rows;
}

bool SkipAccuracy(const AccuracyFlags& flags, const checks::Say& say) {
  if (flags.count == 0) say(checks::Verdict::kSkipped, "--accuracy-texts is 0");
  return flags.count == 0;
}

Expected<std::vector<std::string>> ReadTextsFile(const AccuracyFlags& flags) {
  std::vector<std::string> texts;
  corpus::RowReader reader({flags.texts_file}, flags.input);
  while (!flags.count || texts.size() < static_cast<size_t>(*flags.count)) {
    PENSTOCK_ASSIGN_OR_RETURN(auto row, reader.Next());
    if (!row) break;
    PENSTOCK_RETURN_IF_ERROR(row->status);
    texts.push_back(std::move(row->text));
    if (texts.size() > static_cast<size_t>(AccuracyFlags::kTextsMax)) {
      return Status(StatusCode::kPayloadTooLarge,
                    fmt::format("--texts {}: more than {} texts; --accuracy-texts takes the first",
                                flags.texts_file, AccuracyFlags::kTextsMax));
    }
  }
  return texts;
}

void AddAccuracyFlags(CommandLine* line, AccuracyFlags* flags) {
  FlagSet& app = line->flags();
  const std::string group = "Accuracy";
  app.AddOption("--accuracy-texts", flags->count,
                "Texts bf16 and int8 are compared with f32 on; 0 = no comparison. Without it: "
                "2000 built-in ones, or all of --texts. For a decoder: one built-in text.")
      ->Check(InRange(0, AccuracyFlags::kTextsMax))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--texts", flags->texts_file,
                "Texts of your own: lines, JSON, CSV or TSV; - is stdin.")
      ->TypeName("FILE")
      ->Group(group);
  app.AddSwitch("--try-keep", flags->try_keep,
                "Find out what every layer and kind of linear layer, kept higher with --int8-keep, "
                "gains. Kinds of linear layers are tried anyway where int8 is not advisable.")
      ->Group(group);
  app.AddOption("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group(group);
  app.AddSwitch("-q,--quiet", flags->quiet, "No progress on stderr.")->Group(group);
  AddInputFlags(line, &flags->input);
}

Status CompareTypes(const runtime::ModelOptions& model, const AccuracyFlags& flags,
                    const checks::Say& say) {
  return TypeComparison(model, flags, say).Run();
}

}  // namespace penstock::cli
