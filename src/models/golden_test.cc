// Every golden model of tests/golden/models, against outputs computed in float64 by the reference
// implementation (tests/golden/README.md), with every instruction set this processor has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "models/encoder.h"

namespace penstock::models {
namespace {

namespace dom = simdjson::dom;

// Largest difference of a vector, relative to the reference's largest element.
constexpr double kErrorMax = 1e-5;

// A loop over a temporary's value() would outlive the temporary.
dom::array Array(dom::element element) { return element.get_array().value(); }

std::vector<int32_t> Ints(dom::element element) {
  std::vector<int32_t> out;
  for (dom::element v : Array(element)) {
    out.push_back(static_cast<int32_t>(v.get_int64().value()));
  }
  return out;
}

std::vector<double> Doubles(dom::element element) {
  std::vector<double> out;
  for (dom::element v : Array(element)) out.push_back(v.get_double().value());
  return out;
}

double VectorError(std::span<const float> got, const std::vector<double>& want) {
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

std::vector<std::string> GoldenModels() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_GOLDEN_DIR "/models")) {
    if (std::filesystem::exists(entry.path() / "expected.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Case {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<double> embedding;
  std::vector<double> logits;
  std::vector<std::vector<double>> hidden;
};

// Also sets the folder's limit to the longest the model itself can take: the cases go beyond what
// sentence_bert_config allows texts.
std::vector<Case> LoadCases(const std::string& name, families::ModelFolder* folder) {
  dom::parser parser;
  const std::string path = PENSTOCK_GOLDEN_DIR "/models/" + name + "/expected.json";
  dom::element document = parser.load(path).value();
  folder->max_tokens = static_cast<int32_t>(document["max_tokens"].get_int64().value());
  std::vector<Case> cases;
  for (dom::element item : Array(document["cases"].value())) {
    Case c;
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

struct Batch {
  std::vector<int32_t> ids, type_ids, offsets{0};
  void Add(const Case& c) {
    ids.insert(ids.end(), c.ids.begin(), c.ids.end());
    type_ids.insert(type_ids.end(), c.type_ids.begin(), c.type_ids.end());
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  program::PackedBatch view() const { return {ids, type_ids, offsets, {}}; }
};

std::vector<float> RunBatch(EncoderModel& model, const Batch& batch,
                            program::EncoderOutput output) {
  EncoderSession session(&model);
  const size_t rows =
      output == program::EncoderOutput::kTokens ? batch.ids.size() : batch.offsets.size() - 1;
  std::vector<float> out(rows * static_cast<size_t>(model.OutputWidth(output)));
  const Status status = session.Run(batch.view(), output, out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, AgreesWithReference) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<Case> cases = LoadCases(GetParam(), &*folder);
  ASSERT_FALSE(cases.empty());
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    auto model = EncoderModel::Load(*folder, backend->get());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    Batch all;
    for (const Case& c : cases) all.Add(c);
    const bool embeds = folder->task == families::ModelTask::kEmbedding;
    const program::EncoderOutput output =
        embeds ? program::EncoderOutput::kPooled : program::EncoderOutput::kLogits;
    std::vector<float> rows = RunBatch(**model, all, output);
    const size_t width = static_cast<size_t>((*model)->OutputWidth(output));
    std::vector<float> hidden;
    if (embeds) hidden = RunBatch(**model, all, program::EncoderOutput::kTokens);
    double worst = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      std::span<float> row(rows.data() + i * width, width);
      if (embeds) row = FinishEmbedding(row, 0, folder->normalize);
      const std::vector<double>& want = embeds ? cases[i].embedding : cases[i].logits;
      // include_prompt = false needs the prompt's length; cases by id have no prompt.
      if (!want.empty()) worst = std::max(worst, VectorError(row, want));
      for (size_t t = 0; t < cases[i].hidden.size(); ++t) {
        const size_t size = static_cast<size_t>((*model)->hidden_size());
        const size_t token = static_cast<size_t>(all.offsets[i]) + t;
        worst =
            std::max(worst, VectorError({hidden.data() + token * size, size}, cases[i].hidden[t]));
      }
      EXPECT_LE(worst, kErrorMax) << "case " << i << " of " << cases[i].ids.size() << " tokens";
    }
    RecordProperty(std::string("error_max_") + kernels->name, std::to_string(worst));
  }
}

// `first`: each case's result as it came out first; filled where empty.
void CheckBits(const families::ModelFolder& folder, const std::vector<Case>& cases,
               program::EncoderOutput output, const LinearTypes& types, int threads,
               std::vector<std::vector<float>>* first) {
  auto backend = cpu::NewCpuBackend({.threads = threads, .pin = false});
  ASSERT_TRUE(backend.ok());
  auto model = EncoderModel::Load(folder, backend->get(), types);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const size_t width = static_cast<size_t>((*model)->OutputWidth(output));
  for (int repeats : {1, 3}) {
    Batch all;
    for (int r = 0; r < repeats; ++r) {
      for (const Case& c : cases) all.Add(c);
    }
    std::vector<float> together = RunBatch(**model, all, output);
    for (size_t i = 0; i < cases.size() * static_cast<size_t>(repeats); ++i) {
      Batch alone;
      alone.Add(cases[i % cases.size()]);
      const std::vector<float> single = RunBatch(**model, alone, output);
      if (first->size() < cases.size()) first->push_back(single);
      ASSERT_EQ(
          0, std::memcmp(single.data(), (*first)[i % cases.size()].data(), width * sizeof(float)));
      ASSERT_EQ(0, std::memcmp(single.data(), together.data() + i * width, width * sizeof(float)))
          << "case " << i % cases.size() << ", " << threads << " threads";
    }
  }
}

// The same text gives the same bits, alone or in any batch, at any thread count.
TEST_P(GoldenModel, BitsDoNotDependOnTheBatchOrThreads) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<Case> cases = LoadCases(GetParam(), &*folder);
  const program::EncoderOutput output = folder->task == families::ModelTask::kEmbedding
                                            ? program::EncoderOutput::kPooled
                                            : program::EncoderOutput::kLogits;
  std::vector<LinearTypes> all = {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8};
  for (const char* kept : {"ff-in,0.attention-out", "-1,0.qkv,ff-out"}) {
    for (const numbers::DType higher : {numbers::DType::kF32, numbers::DType::kBf16}) {
      LinearTypes& types = all.emplace_back(numbers::DType::kI8);
      types.override_dtype = higher;
      types.kept = *ParseTypeOverrides(kept);
    }
  }
  for (const LinearTypes& types : all) {
    SCOPED_TRACE(std::string(numbers::DTypeName(types.dtype)) + " " +
                 TypeOverridesText(types.kept));
    std::vector<std::vector<float>> first;
    for (int threads : {1, 2, 3, 5}) CheckBits(*folder, cases, output, types, threads, &first);
  }
}

// A model whose linear layers are all overridden equals one of that type, to the bit; an override
// of a layer it lacks is refused.
TEST_P(GoldenModel, KeptPartsAreOfTheirType) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<Case> cases = LoadCases(GetParam(), &*folder);
  auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false});
  ASSERT_TRUE(backend.ok());
  Batch all;
  for (const Case& c : cases) all.Add(c);
  const auto hidden = [&](const LinearTypes& types) {
    auto model = EncoderModel::Load(*folder, backend->get(), types);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return RunBatch(**model, all, program::EncoderOutput::kTokens);
  };
  LinearTypes types = numbers::DType::kI8;
  types.override_dtype = numbers::DType::kF32;
  types.kept = *ParseTypeOverrides("qkv,attention-out,ff-in,ff-out");
  EXPECT_EQ(hidden(types), hidden(numbers::DType::kF32));
  types.kept = *ParseTypeOverrides("-1");
  EXPECT_NE(hidden(types), hidden(numbers::DType::kI8));
  types.kept = *ParseTypeOverrides("99.qkv");
  EXPECT_THAT(EncoderModel::Load(*folder, backend->get(), types).status().message(),
              testing::HasSubstr("'99.qkv': the model has"));
}

// Random weights of 32 columns are harder on bf16 and int8 than a trained model: these bounds tell
// a mistake from rounding, no more.
TEST_P(GoldenModel, Bf16AndInt8StayClose) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<Case> cases = LoadCases(GetParam(), &*folder);
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    for (const auto& [dtype, cosine_min] :
         {std::pair{numbers::DType::kBf16, 0.999}, {numbers::DType::kI8, 0.99}}) {
      auto model = EncoderModel::Load(*folder, backend->get(), dtype);
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      Batch all;
      for (const Case& c : cases) all.Add(c);
      const std::vector<float> hidden = RunBatch(**model, all, program::EncoderOutput::kTokens);
      for (size_t i = 0; i < cases.size(); ++i) {
        if (cases[i].hidden.empty()) continue;
        const size_t width = static_cast<size_t>((*model)->hidden_size());
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
        EXPECT_GT(dot / std::sqrt(ours * theirs), cosine_min)
            << kernels->name << " " << numbers::DTypeName(dtype);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(GoldenModels()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::models
