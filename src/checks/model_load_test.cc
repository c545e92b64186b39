// Loads of models with their checks on.
#include "checks/model_load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"
#include "checks/check_records.h"
#include "checks/known_answers.h"
#include "cpu/cpu_backend.h"
#include "engine/decoder_engine.h"
#include "engine/encoder_engine.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::checks {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ModelChecksTest : public testing::Test {
 protected:
  ModelChecksTest() {
    options_.scheduler.max_batch_tokens = 512;
    options_.name = "m";
    options_.check = {true, (place_ / "records").string()};
  }

  size_t Records() const {
    std::error_code error;
    const auto files = fs::directory_iterator(place_ / "records", error);
    return error ? 0 : static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  // A copy of a golden model that a test may change.
  std::string Copy(const std::string& model) {
    const fs::path folder = place_ / fs::path(model).filename();  // which says what some are
    fs::remove_all(folder);
    fs::copy(PENSTOCK_GOLDEN_DIR "/" + model, folder, fs::copy_options::recursive);
    return folder.string();
  }
  Status LoadEngine(const std::string& path) {
    return engine::EncoderEngine::Load(path, options_, backend_.get(), &metrics_).status();
  }
  Status LoadText(const std::string& path) {
    engine::DecoderEngineOptions options;
    options.name = "m";
    options.check = options_.check;
    return engine::DecoderEngine::Load(path, options, backend_.get(), &metrics_).status();
  }

  const TempFolder temp_;
  const fs::path place_ = temp_.path();
  engine::EncoderEngineOptions options_;
  metrics::Metrics metrics_;
  const std::unique_ptr<program::Backend> backend_ =
      *cpu::NewCpuBackend({.threads = 2, .pin = false});
};

TEST_F(ModelChecksTest, EveryGoldenModelPasses) {
  size_t loaded = 0;
  for (const char* kind : {"models", "embedders", "decoders"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(PENSTOCK_GOLDEN_DIR) / kind)) {
      const std::string path = entry.path().string();
      const bool decoder = std::string_view(kind) == "decoders";
      const auto load = [&] { return decoder ? LoadText(path) : LoadEngine(path); };
      options_.check.on = false;
      if (!load().ok()) continue;  // needs a flag
      options_.check.on = true;
      const Status status = load();
      EXPECT_TRUE(status.ok()) << path << ": " << status.ToString();
      EXPECT_EQ(Records(), ++loaded) << path;
    }
  }
  EXPECT_GT(loaded, 30u);
}

TEST_F(ModelChecksTest, WeightsThatAreNoNumbersAreRefused) {
  for (const char* model :
       {"models/bert_mean_normalize", "embedders/qwen3_reranker", "decoders/llama"}) {
    const std::string path = Copy(model);
    const fs::path file = fs::path(path) / "model.safetensors";
    std::fstream weights(file, std::ios::binary | std::ios::in | std::ios::out);
    uint64_t header = 0;
    weights.read(reinterpret_cast<char*>(&header), sizeof header);
    weights.seekp(static_cast<std::streamoff>(8 + header));
    const std::string ones(fs::file_size(file) - 8 - header, '\xff');
    weights << ones;
    weights.close();
    const auto load = [&] {
      return std::string_view(model).starts_with("decoders") ? LoadText(path) : LoadEngine(path);
    };
    const Status status = load();
    EXPECT_EQ(status.code(), StatusCode::kInternal) << model << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("nan"));
    EXPECT_EQ(Records(), 0u);
    options_.check.on = false;
    EXPECT_TRUE(load().ok()) << load().ToString();
    options_.check.on = true;
  }
}

// Counts the batches of a check.
int RunsOf(const std::string& path, const engine::EncoderEngineOptions& options,
           program::Backend* backend) {
  int runs = 0;
  const engine::EncoderParts parts =
      engine::FakeParts(families::ModelTask::kEmbedding, 1, [&] { ++runs; });
  const Status status = CheckLoad({"m", path, "", "f32", Clock::now()}, options.check, backend,
                                  parts.ToCheck({}), nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return runs;
}

TEST_F(ModelChecksTest, AModelIsCheckedOnceUntilAFileChanges) {
  const std::string path = Copy("models/bert_mean_normalize");
  const auto runs = [&] { return RunsOf(path, options_, backend_.get()); };
  EXPECT_EQ(runs(), 4);
  EXPECT_EQ(runs(), 0);
  const auto other = *cpu::NewCpuBackend({.threads = 1, .pin = false});
  EXPECT_EQ(RunsOf(path, options_, other.get()), 4);
  EXPECT_EQ(RunsOf(path, options_, other.get()), 0);
  const fs::path file = fs::path(path) / "model.safetensors";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(runs(), 4);
  EXPECT_EQ(runs(), 0);
  std::ofstream(fs::path(path) / "config.json", std::ios::app) << "\n";
  EXPECT_EQ(runs(), 4);
  EXPECT_EQ(Records(), 4u);
  options_.check.records = "";  // no records: each time
  EXPECT_EQ(runs(), 4);
  EXPECT_EQ(runs(), 4);
  options_.check.on = false;
  EXPECT_EQ(runs(), 0);
}

TEST_F(ModelChecksTest, RecordsThatCannotBeWrittenAreNoError) {
  std::ofstream(place_ / "records") << "a file";
  EXPECT_TRUE(LoadEngine(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize").ok());
}

TEST_F(ModelChecksTest, ExpectedAnswersAreComparedAtEachLoad) {
  const std::string path = Copy("models/bert_mean_normalize");
  EXPECT_TRUE(LoadEngine(path).ok());
  EXPECT_EQ(Records(), 1u);
  std::string wrong = "1";
  for (int i = 1; i < 32; ++i) wrong += ",1";
  std::ofstream(fs::path(path) / "known_answers.json")
      << R"({"inputs":["That is a happy person"],"embeddings":[[)" << wrong << "]]}";
  for (int i = 0; i < 2; ++i) {
    const Status status = LoadEngine(path);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("inputs[0]: the cosine"));
  }
  options_.check.on = false;
  EXPECT_TRUE(LoadEngine(path).ok());
}

TEST_F(ModelChecksTest, WhatADecoderGenerates) {
  const std::string path = Copy("decoders/llama");
  const auto load = [&](const std::string& greedy) {
    std::ofstream(fs::path(path) / "known_answers.json")
        << R"({"prompt":"The quick brown fox","greedy":")" << greedy << "\"}";
    return LoadText(path);
  };
  const Status wrong = load("no");
  EXPECT_EQ(wrong.code(), StatusCode::kInternal);
  ASSERT_THAT(wrong.message(), HasSubstr("after 'prompt' comes '"));
  // What follows in expected.json, of bytes: 153, 110, 194, 49.
  EXPECT_TRUE(load("\xef\xbf\xbdn\xef\xbf\xbd"
                   "1")
                  .ok())
      << load(
             "\xef\xbf\xbdn\xef\xbf\xbd"
             "1")
             .ToString();
  std::ofstream(fs::path(path) / "known_answers.json") << R"({"inputs":["a"],"embeddings":[[1]]})";
  EXPECT_THAT(LoadText(path).message(), HasSubstr("'prompt' is missing"));
}

TEST_F(ModelChecksTest, TheRegistrySaysWhyAModelIsNotServed) {
  const std::string path = Copy("models/bert_mean_normalize");
  std::ofstream(fs::path(path) / "known_answers.json") << R"({"inputs":["a"],"embeddings":[[1]]})";
  registry::Registry registry(backend_.get(), &metrics_);
  registry::ModelSpec spec;
  spec.name = "m";
  spec.reference = path;
  spec.options.encoder = options_;
  ASSERT_TRUE(registry.Add(spec).ok());
  registry.StartLoading();
  EXPECT_THAT(registry.WaitLoaded().message(),
              HasSubstr("known_answers.json: embeddings[0] has 1 numbers, the model gives 32"));
}

TEST(CheckRecordsTest, TheOldestGo) {
  const TempFolder temp;
  const fs::path folder = temp.path();
  const CheckRecords records(folder.string());
  const auto key = [](size_t i) { return fmt::format("{:064x}", i); };
  std::ofstream(folder / "notes.txt") << "stays";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100);
  for (size_t i = 0; i < CheckRecords::kRecordsMax + 3; ++i) {
    std::ofstream(folder / key(i)) << "text";
    // Younger ones behind; file systems count time in steps.
    fs::last_write_time(folder / key(i), long_ago + std::chrono::seconds(i));
  }
  EXPECT_TRUE(records.Has(key(0)));
  records.Add(key(5000), "text");
  EXPECT_FALSE(records.Has(key(0)));
  EXPECT_FALSE(records.Has(key(3)));
  EXPECT_TRUE(records.Has(key(4)));
  EXPECT_TRUE(records.Has(key(5000)));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  const auto files = fs::directory_iterator(folder);
  EXPECT_EQ(static_cast<size_t>(std::distance(begin(files), end(files))),
            CheckRecords::kRecordsMax + 1);
}

TEST(CheckKeyTest, IsOfFilesAndSettings) {
  const std::string path = PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize";
  const std::string key = CheckKey(path, "", "f32");
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(CheckKey(path, "", "f32"), key);
  EXPECT_NE(CheckKey(path, "", "bf16"), key);
  EXPECT_NE(CheckKey(path, "print", "f32"), key);
  EXPECT_NE(CheckKey(PENSTOCK_GOLDEN_DIR "/models/bert_regression", "", "f32"), key);
  EXPECT_EQ(CheckKey("/none/of/it", "", "f32"), "");
}

}  // namespace
}  // namespace penstock::checks
