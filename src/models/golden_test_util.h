// The golden models of tests/golden/models: outputs computed in float64 by the reference
// implementation (tests/golden/README.md), and what tests of backends do with them.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/encoder.h"

namespace penstock::models {

namespace dom = simdjson::dom;

// Largest difference of a vector in f32, relative to the reference's largest element.
inline constexpr double kErrorMax = 1e-5;

// A loop over a temporary's value() would outlive the temporary.
inline dom::array Array(dom::element element) { return element.get_array().value(); }

inline std::vector<int32_t> Ints(dom::element element) {
  std::vector<int32_t> out;
  for (dom::element v : Array(element)) {
    out.push_back(static_cast<int32_t>(v.get_int64().value()));
  }
  return out;
}

inline std::vector<double> Doubles(dom::element element) {
  std::vector<double> out;
  for (dom::element v : Array(element)) out.push_back(v.get_double().value());
  return out;
}

inline double VectorError(std::span<const float> got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double scale = 0;
  double difference = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    EXPECT_TRUE(std::isfinite(got[i]));
    scale = std::max(scale, std::abs(want[i]));
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  return scale > 0 ? difference / scale : difference;
}

inline std::vector<std::string> GoldenModels() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_GOLDEN_DIR "/models")) {
    if (std::filesystem::exists(entry.path() / "expected.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct GoldenCase {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<double> embedding;
  std::vector<double> logits;
  std::vector<std::vector<double>> hidden;
};

// Also sets the folder's limit to the longest the model itself can take: the cases go beyond what
// sentence_bert_config allows texts.
inline std::vector<GoldenCase> LoadCases(const std::string& name, families::ModelFolder* folder) {
  dom::parser parser;
  const std::string path = PENSTOCK_GOLDEN_DIR "/models/" + name + "/expected.json";
  dom::element document = parser.load(path).value();
  folder->max_tokens = static_cast<int32_t>(document["max_tokens"].get_int64().value());
  std::vector<GoldenCase> cases;
  for (dom::element item : Array(document["cases"].value())) {
    GoldenCase c;
    c.ids = Ints(item["ids"].value());
    c.type_ids = Ints(item["type_ids"].value());
    dom::element value;
    if (!item["embedding"].get(value)) c.embedding = Doubles(value);
    if (!item["logits"].get(value)) c.logits = Doubles(value);
    if (!item["last_hidden_state"].get(value)) {
      for (dom::element row : Array(value)) c.hidden.push_back(Doubles(row));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

struct GoldenBatch {
  std::vector<int32_t> ids, type_ids, offsets{0};
  void Add(const GoldenCase& c) {
    ids.insert(ids.end(), c.ids.begin(), c.ids.end());
    type_ids.insert(type_ids.end(), c.type_ids.begin(), c.type_ids.end());
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  program::PackedBatch view() const { return {ids, type_ids, offsets, {}}; }
};

inline std::vector<float> RunBatch(EncoderModel& model, const GoldenBatch& batch,
                                   program::EncoderOutput output) {
  EncoderSession session(&model);
  const size_t rows =
      output == program::EncoderOutput::kTokens ? batch.ids.size() : batch.offsets.size() - 1;
  std::vector<float> out(rows * static_cast<size_t>(model.OutputWidth(output)));
  const Status status = session.Run(batch.view(), output, out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

inline program::EncoderOutput OutputOf(const families::ModelFolder& folder) {
  return folder.task == families::ModelTask::kEmbedding ? program::EncoderOutput::kPooled
                                                        : program::EncoderOutput::kLogits;
}

// The largest error of all cases' results, in one batch.
inline double WorstError(EncoderModel& model, const families::ModelFolder& folder,
                         const std::vector<GoldenCase>& cases) {
  GoldenBatch all;
  for (const GoldenCase& c : cases) all.Add(c);
  const bool embeds = folder.task == families::ModelTask::kEmbedding;
  std::vector<float> rows = RunBatch(model, all, OutputOf(folder));
  const size_t width = static_cast<size_t>(model.OutputWidth(OutputOf(folder)));
  std::vector<float> hidden;
  if (embeds) hidden = RunBatch(model, all, program::EncoderOutput::kTokens);
  double worst = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::span<float> row(rows.data() + i * width, width);
    if (embeds) row = FinishEmbedding(row, 0, folder.normalize);
    const std::vector<double>& want = embeds ? cases[i].embedding : cases[i].logits;
    // include_prompt = false needs the prompt's length; cases by id have no prompt.
    if (!want.empty()) worst = std::max(worst, VectorError(row, want));
    for (size_t t = 0; t < cases[i].hidden.size(); ++t) {
      const size_t size = static_cast<size_t>(model.hidden_size());
      const size_t token = static_cast<size_t>(all.offsets[i]) + t;
      worst =
          std::max(worst, VectorError({hidden.data() + token * size, size}, cases[i].hidden[t]));
    }
  }
  return worst;
}

// The smallest cosine between a case's hidden states and the reference's; 1: no case has any.
inline double WorstCosine(EncoderModel& model, const std::vector<GoldenCase>& cases) {
  GoldenBatch all;
  for (const GoldenCase& c : cases) all.Add(c);
  const std::vector<float> hidden = RunBatch(model, all, program::EncoderOutput::kTokens);
  const size_t width = static_cast<size_t>(model.OutputWidth(program::EncoderOutput::kTokens));
  double worst = 1;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].hidden.empty()) continue;
    const float* got = hidden.data() + static_cast<size_t>(all.offsets[i]) * width;
    double dot = 0, ours = 0, theirs = 0;
    for (const std::vector<double>& row : cases[i].hidden) {
      for (double want : row) {
        const double value = *got++;
        dot += value * want;
        ours += value * value;
        theirs += want * want;
      }
    }
    worst = std::min(worst, dot / std::sqrt(ours * theirs));
  }
  return worst;
}

}  // namespace penstock::models
