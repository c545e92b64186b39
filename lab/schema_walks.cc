#include "lab/schema_walks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <vector>

#include "generate/grammar_vocabulary.h"
#include "grammar/grammar_compiler.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "load/clock_units.h"
#include "reply/call_markup.h"
#include "reply/reply_parser.h"
#include "text/tokenizer.h"

namespace penstock::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view kTagEnd = "\n</parameter>\n";

double Percentile(std::vector<double>* values, double share) {
  if (values->empty()) return 0;
  const auto at = static_cast<ptrdiff_t>(share * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + at, values->end());
  return (*values)[static_cast<size_t>(at)];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

class Walks {
 public:
  Walks(const SchemaWalksOptions& options, std::shared_ptr<const grammar::GrammarVocabulary> words)
      : options_(options),
        vocabulary_(std::move(words)),
        mask_(grammar::MaskWords(vocabulary_->tokens.size())),
        random_(static_cast<uint64_t>(options.seed)) {}

  Status Run() {
    PENSTOCK_ASSIGN_OR_RETURN(compiler_, grammar::MakeGrammarCompiler(vocabulary_));
    std::ifstream in(options_.schemas);
    if (!in) return Status::InvalidArgument("cannot read " + options_.schemas);
    if (!options_.texts.empty()) texts_.open(options_.texts);
    if (!options_.refusals.empty()) refusals_.open(options_.refusals);
    int number = 0;
    for (std::string line; std::getline(in, line); ++number) {
      PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(line));
      PENSTOCK_RETURN_IF_ERROR(RunSchema(document.root()["schema"].Text(), number));
    }
    return Status::Ok();
  }

  void Report(load::BenchRecords* records) {
    records->Add("agents.mask_us_mean", Mean(mask_us_), "us");
    records->Add("agents.mask_us_p99", Percentile(&mask_us_, 0.99), "us");
    records->Add("agents.compile_ms_p50", Percentile(&compile_ms_, 0.5), "ms");
    records->Add("agents.compile_ms_p95", Percentile(&compile_ms_, 0.95), "ms");
    records->Add("agents.schema.accepted", static_cast<double>(compile_ms_.size()), "1");
    records->Add("agents.schema.refused", refused_, "1");
    std::printf(
        "%zu schemas, %.0f refused; %zu masks: mean %.1f us, p99 %.1f us; compile: p50 %.2f ms, "
        "p95 "
        "%.0f ms, longest %.0f ms\n%.0f texts, %.0f were cut\n",
        compile_ms_.size(), refused_, mask_us_.size(), Mean(mask_us_), Percentile(&mask_us_, 0.99),
        Percentile(&compile_ms_, 0.5), Percentile(&compile_ms_, 0.95), Percentile(&compile_ms_, 1),
        done_, cut_);
  }

 private:
  Status RunSchema(const std::string& schema, int line) {
    const grammar::GrammarSpec spec = SpecOf(schema);
    Status status = grammar::CheckSpec(spec);
    const auto begin = SteadyClock::now();
    std::shared_ptr<const grammar::Grammar> grammar;
    if (status.ok()) {
      auto made = compiler_->Compile(spec);
      status = made.status();
      if (made.ok()) grammar = *std::move(made);
    }
    if (grammar == nullptr) {
      ++refused_;
      if (refusals_.is_open()) WriteLine(line, "message", status.message(), &refusals_);
      return Status::Ok();
    }
    compile_ms_.push_back(1000 * load::SecondsSince(begin));
    for (int walk = 0; walk < options_.walks; ++walk) {
      std::string text;
      PENSTOCK_ASSIGN_OR_RETURN(const bool ended, Walk(*grammar, &text));
      ++(ended ? done_ : cut_);
      if (!ended) continue;
      if (options_.calls != reply::ToolForm::kNone) {
        PENSTOCK_ASSIGN_OR_RETURN(text, ArgumentsOf(schema, text));
      }
      if (texts_.is_open()) WriteLine(line, "text", text, &texts_);
    }
    return Status::Ok();
  }

  grammar::GrammarSpec SpecOf(const std::string& schema) const {
    grammar::GrammarSpec spec{grammar::GrammarKind::kJsonSchema, schema, {}, "schema"};
    reply::ReplyFormat format;
    format.tools = options_.calls;
    const auto markup = reply::CallMarkupOf(format);
    if (!markup) return spec;
    spec.kind = grammar::GrammarKind::kCalls;
    spec.text.clear();
    spec.calls.ways = {{"f", schema}};
    spec.calls.before_name = markup->before_name;
    spec.calls.before_arguments = markup->before_arguments;
    spec.calls.loose = true;
    spec.calls.form =
        markup->has_parameters ? grammar::CallForm::kParameters : grammar::CallForm::kJson;
    spec.calls.begin = markup->begin;
    spec.calls.end = markup->end;
    spec.calls.after = markup->after;
    spec.calls.several = false;
    return spec;
  }

  // The arguments of the one call that the text is.
  Expected<std::string> ArgumentsOf(const std::string& schema, const std::string& text) const {
    reply::ReplyOptions options;
    options.format.tools = options_.calls;
    options.tools =
        std::make_shared<const reply::ToolSet>(std::vector<reply::ReplyTool>{{"f", schema}});
    options.limits.call.json_depth_max = SIZE_MAX;
    options.streams_arguments = true;
    reply::ReplyParser parser(options);
    std::vector<reply::ReplyDelta> deltas;
    parser.Add(text, &deltas);
    parser.Finish(&deltas);
    std::string arguments;
    bool complete = false;
    for (const reply::ReplyDelta& delta : deltas) {
      using Kind = reply::ReplyDelta::Kind;
      if (delta.kind == Kind::kContent) complete = false;
      if (delta.kind == Kind::kCallArguments) arguments += delta.text;
      if (delta.kind == Kind::kCallEnd) complete = delta.complete;
    }
    if (complete) return arguments;
    return Status::Internal("the reply parser finds no complete call in: " + text);
  }

  // A text by chance; false: it is longer than it may be.
  Expected<bool> Walk(const grammar::Grammar& grammar, std::string* text) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto constraint, grammar.Begin());
    const std::vector<int32_t>& ends = vocabulary_->ends;
    for (int step = 0; step < options_.tokens; ++step) {
      const auto begin = SteadyClock::now();
      PENSTOCK_RETURN_IF_ERROR(constraint->Mask(mask_));
      mask_us_.push_back(1e6 * load::SecondsSince(begin));
      const int32_t id = Draw(step, *text);
      if (std::find(ends.begin(), ends.end(), id) != ends.end()) return true;
      *text += vocabulary_->tokens[static_cast<size_t>(id)];
      PENSTOCK_RETURN_IF_ERROR(constraint->Accept(id));
    }
    return false;
  }

  // One of the allowed tokens: any of them, or one of the shortest, which end what is open. Long
  // texts prefer those.
  int32_t Draw(int step, std::string_view text) {
    const std::string_view tag =
        options_.calls == reply::ToolForm::kQwenCoder ? RestOfTag(text) : std::string_view();
    allowed_.clear();
    short_.clear();
    tags_.clear();
    for (size_t id = 0; id < vocabulary_->tokens.size(); ++id) {
      if (!grammar::Allows(mask_, static_cast<int32_t>(id))) continue;
      allowed_.push_back(static_cast<int32_t>(id));
      const std::string& token = vocabulary_->tokens[id];
      const bool closes =
          token.empty() || (token.size() == 1 &&
                            std::string_view("\"}],:").find(token[0]) != std::string_view::npos);
      if (closes) short_.push_back(static_cast<int32_t>(id));
      if (!token.empty() && tag.starts_with(token)) tags_.push_back(static_cast<int32_t>(id));
    }
    // The end of a parameter, once begun, is several tokens in a row.
    const bool begun = tag.size() < kTagEnd.size();
    if (!tags_.empty() && std::bernoulli_distribution(begun ? 0.95 : 0.2)(random_)) {
      return OneOf(tags_);
    }
    const double share = step > options_.tokens / 4 ? 0.9 : 0.35;
    const bool closes = !short_.empty() && std::bernoulli_distribution(share)(random_);
    return OneOf(closes ? short_ : allowed_);
  }

  int32_t OneOf(const std::vector<int32_t>& ids) {
    return ids[std::uniform_int_distribution<size_t>(0, ids.size() - 1)(random_)];
  }

  // What is left of the end of a parameter that `text` may have begun.
  static std::string_view RestOfTag(std::string_view text) {
    for (size_t size = kTagEnd.size() - 1; size > 0; --size) {
      if (text.ends_with(kTagEnd.substr(0, size))) return kTagEnd.substr(size);
    }
    return kTagEnd;
  }

  static void WriteLine(int line, const char* key, const std::string& text, std::ofstream* to) {
    std::string out;
    JsonWriter(&out).BeginObject().Field("line", line).Field(key, text).EndObject();
    *to << out << '\n';
  }

  const SchemaWalksOptions& options_;
  const std::shared_ptr<const grammar::GrammarVocabulary> vocabulary_;
  std::unique_ptr<grammar::GrammarCompiler> compiler_;
  std::vector<uint32_t> mask_;
  std::vector<int32_t> allowed_;
  std::vector<int32_t> short_;
  std::vector<int32_t> tags_;
  std::mt19937_64 random_;
  std::ofstream texts_;
  std::ofstream refusals_;
  std::vector<double> mask_us_;
  std::vector<double> compile_ms_;
  double refused_ = 0;
  double done_ = 0;
  double cut_ = 0;
};

}  // namespace

Status RunSchemaWalks(const SchemaWalksOptions& options, load::BenchRecords* records) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::FromFile(options.tokenizer));
  // An end of its own, behind the tokens that there are.
  const auto count = static_cast<size_t>(tokenizer->vocab_size());
  const auto vocabulary =
      generate::MakeGrammarVocabulary(*tokenizer, count + 1, {static_cast<int32_t>(count)});
  Walks walks(options, vocabulary);
  PENSTOCK_RETURN_IF_ERROR(walks.Run());
  walks.Report(records);
  return Status::Ok();
}

}  // namespace penstock::lab
