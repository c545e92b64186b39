#include "doctor_decoder_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "checks/decoder_text.h"
#include "checks/next_token.h"
#include "generate/generator.h"
#include "load/records.h"
#include "log/step_progress.h"

namespace penstock::cli {
namespace {

// Rows of a step; all their logits are kept.
constexpr size_t kRows = 32;

using Sequences = std::vector<std::vector<int32_t>>;

// The tokens of a text, cut to the context, each part after the tokens that the template puts
// first. Texts of one token are left out.
Status AddSequences(const generate::TextModel& model, const std::string& text,
                    Sequences* sequences) {
  text::Encoding encoding;
  PENSTOCK_RETURN_IF_ERROR(model.tokenizer->Encode(text, {}, &encoding));
  const std::span<const int32_t> ids = encoding.ids;
  size_t first = 0, end = ids.size();
  while (first < end && encoding.special_mask[first] != 0) ++first;
  while (end > first && encoding.special_mask[end - 1] != 0) --end;
  const auto context = static_cast<size_t>(model.context());
  for (size_t at = first, taken = 0; at < end && context > first + 1; at += taken) {
    taken = std::min(end - at, context - first);
    std::vector<int32_t> sequence(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(first));
    const auto part = ids.subspan(at, taken);
    sequence.insert(sequence.end(), part.begin(), part.end());
    if (sequence.size() > 1) sequences->push_back(std::move(sequence));
  }
  return Status::Ok();
}

// Runs of a model with a cache of that type.
Expected<std::unique_ptr<generate::Generator>> NewRun(generate::TextModel* model,
                                                      numbers::DType cache_type) {
  model->cache_type = cache_type;
  return generate::Generator::Make(model, static_cast<int32_t>(kRows));
}

// The logits of all of `ids`, at most kRows, after `past` tokens of a text of `length` tokens.
Status Step(std::span<const int32_t> ids, size_t past, size_t length, generate::Generator* run) {
  std::vector<int32_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  return run->Step(ids, static_cast<int32_t>(past), rows, program::PickWant::kRow,
                   run->run().LongRope(length));
}

// What is compared with f32.
struct Variant {
  std::string record;
  std::string title;
  std::unique_ptr<generate::Generator> run;
  checks::NextTokenComparison comparison;
};

class DecoderTypeComparison {
 public:
  DecoderTypeComparison(const LoadInType& load, const AccuracyFlags& flags, const checks::Say& say)
      : load_(load), flags_(flags), say_(say) {}

  Status Run() {
    PENSTOCK_ASSIGN_OR_RETURN(f32_, load_(numbers::DType::kF32));
    PENSTOCK_RETURN_IF_ERROR(ReadSequences());
    PENSTOCK_ASSIGN_OR_RETURN(const bool default_is_bf16, RunDefault());
    if (!default_is_bf16) PENSTOCK_RETURN_IF_ERROR(RunBf16());
    return records_.WriteFile(flags_.json_file);
  }

 private:
  Status ReadSequences() {
    std::vector<std::string> texts = {std::string(checks::DecoderText())};
    if (!flags_.texts_file.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(texts, ReadTextsFile(flags_));
    }
    for (const std::string& text : texts) {
      PENSTOCK_RETURN_IF_ERROR(AddSequences(*f32_, text, &sequences_));
    }
    if (!sequences_.empty()) return Status::Ok();
    return Status::InvalidArgument("the texts have no two tokens that fit in the context", "texts");
  }

  // True: the default type is bf16, of all layers.
  Expected<bool> RunDefault() {
    PENSTOCK_ASSIGN_OR_RETURN(const auto model, load_(std::nullopt));
    const std::string types = ComputedTypes(*model->decoder);
    const bool is_bf16 = types == "bf16";
    std::vector<Variant> variants;
    for (const auto& [record, title, cache] :
         {std::tuple("default", "the default type, " + types, numbers::DType::kBf16),
          std::tuple("cache_f16", std::string("with a cache in f16"), numbers::DType::kF16),
          std::tuple("cache_int8", std::string("with a cache in int8"), numbers::DType::kI8)}) {
      auto run = NewRun(model.get(), cache);
      if (run.status().code() == StatusCode::kUnsupported) continue;  // on a GPU
      PENSTOCK_RETURN_IF_ERROR(run.status());
      variants.push_back({record, title, *std::move(run), {}});
    }
    PENSTOCK_RETURN_IF_ERROR(Compare("the default type", &variants));
    for (const Variant& variant : variants) Tell(variant);
    if (is_bf16) AddRecords("bf16", variants.front().comparison.Result());
    return is_bf16;
  }

  Status RunBf16() {
    PENSTOCK_ASSIGN_OR_RETURN(const auto model, load_(numbers::DType::kBf16));
    PENSTOCK_ASSIGN_OR_RETURN(auto run, NewRun(model.get(), numbers::DType::kBf16));
    std::vector<Variant> variants;
    variants.push_back({"bf16", "bf16", std::move(run), {}});
    PENSTOCK_RETURN_IF_ERROR(Compare("bf16", &variants));
    Tell(variants.front());
    return Status::Ok();
  }

  // All variants and f32, the same rows at a time.
  Status Compare(const char* what, std::vector<Variant>* variants) {
    size_t tokens = 0;
    for (const auto& ids : sequences_) tokens += ids.size();
    StepProgress progress({.quiet = flags_.quiet});
    progress.Next(fmt::format("{} tokens in f32 and {}", tokens, what));
    PENSTOCK_ASSIGN_OR_RETURN(const auto f32, NewRun(f32_.get(), numbers::DType::kF32));
    checks::TokenDistribution wanted, other;
    for (const std::vector<int32_t>& ids : sequences_) {
      for (size_t past = 0; past + 1 < ids.size(); past += kRows) {
        const size_t length = ids.size() - 1;
        const auto part = std::span(ids).subspan(past, std::min(kRows, length - past));
        PENSTOCK_RETURN_IF_ERROR(Step(part, past, length, f32.get()));
        for (Variant& variant : *variants) {
          PENSTOCK_RETURN_IF_ERROR(Step(part, past, length, variant.run.get()));
        }
        for (size_t row = 0; row < part.size(); ++row) {
          PENSTOCK_ASSIGN_OR_RETURN(const auto of_f32, f32->run().Row(row));
          wanted.Set(of_f32);
          for (Variant& variant : *variants) {
            PENSTOCK_ASSIGN_OR_RETURN(const auto logits, variant.run->run().Row(row));
            other.Set(logits);
            variant.comparison.Add(wanted, other, ids[past + row + 1]);
          }
        }
      }
    }
    return Status::Ok();
  }

  void Tell(const Variant& variant) {
    const checks::NextTokenAccuracy accuracy = variant.comparison.Result();
    AddRecords(variant.record, accuracy);
    const std::string text = fmt::format(
        "{}: mean KL {:.6f}, the same best token in {:.2f} %, perplexity {:.4f}, of f32 {:.4f} "
        "({:+.3f} %)",
        variant.title, accuracy.kl_mean, accuracy.agreement_percent, accuracy.perplexity,
        accuracy.perplexity_f32, accuracy.perplexity_difference_percent());
    if (!accuracy.finite()) return say_(checks::Verdict::kFailed, text);
    const std::string beyond = accuracy.Beyond(checks::kKlMeanMax);
    say_(beyond.empty() ? checks::Verdict::kOk : checks::Verdict::kAdvice, text);
    if (beyond.empty()) return;
    say_(checks::Verdict::kAdvice, variant.title + " is not advisable for this model: " + beyond);
  }

  void AddRecords(const std::string& name, const checks::NextTokenAccuracy& accuracy) {
    records_.Add("generate.kl." + name, accuracy.kl_mean, "1");
    records_.Add("generate.kl_max." + name, accuracy.kl_max, "1");
    records_.Add("generate.agreement." + name, accuracy.agreement_percent, "%");
    records_.Add("generate.perplexity_difference." + name, accuracy.perplexity_difference_percent(),
                 "%");
  }

  const LoadInType& load_;
  const AccuracyFlags& flags_;
  const checks::Say& say_;
  std::unique_ptr<generate::TextModel> f32_;
  Sequences sequences_;
  load::BenchRecords records_;
};

}  // namespace

std::string ComputedTypes(const models::DecoderModel& model) {
  std::set<std::string> names;
  for (const program::Op& op : model.program().ops) {
    for (const program::PackedLinear* weight : program::WeightsOf(op))
      names.insert(numbers::DTypeFlag(weight->dtype()));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status CompareDecoderTypes(const LoadInType& load, const AccuracyFlags& flags,
                           const checks::Say& say) {
  return DecoderTypeComparison(load, flags, say).Run();
}

}  // namespace penstock::cli
