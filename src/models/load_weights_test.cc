#include "models/load_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "files/mapped_file.h"

namespace penstock::models {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = cpu::NewCpuBackend({.threads = 1, .pin = false});
    ASSERT_TRUE(backend.ok());
    backend_ = *std::move(backend);
  }
  static families::ModelFolder Folder(const std::string& path) {
    auto folder = families::ModelFolder::Read(path);
    EXPECT_TRUE(folder.ok()) << folder.status().ToString();
    return *std::move(folder);
  }
  static families::ModelFolder Golden(const std::string& name) {
    return Folder(std::string(PENSTOCK_GOLDEN_DIR "/models/") + name);
  }
  Expected<std::unique_ptr<EncoderWeights>> Load(const families::ModelFolder& folder) {
    return LoadEncoderWeights(folder, backend_.get(), numbers::DType::kF32);
  }

  std::unique_ptr<program::Backend> backend_;
};

// Before memory is asked for them.
TEST_F(WeightsTest, RotaryTablesAreBounded) {
  for (const char* name : {"nomic_native_config", "modernbert_mean_normalize"}) {
    families::ModelFolder folder = Golden(name);
    const int64_t tokens = folder.max_tokens;
    const auto fits = Load(folder);
    ASSERT_TRUE(fits.ok()) << fits.status().ToString();
    EXPECT_GT((*fits)->rope_size, 0);
    folder.max_tokens = 1 << 24;
    const auto start = std::chrono::steady_clock::now();
    const Status status = Load(folder).status();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    EXPECT_EQ(status.code(), StatusCode::kPayloadTooLarge) << name << " " << tokens;
    EXPECT_EQ(status.field(), "max_position_embeddings");
    EXPECT_THAT(status.message(), HasSubstr("at most 134217728 are allowed"));
  }
}

// Rows that no input can reach are not kept.
TEST_F(WeightsTest, PositionTablesAreAsLongAsTheLongestInput) {
  families::ModelFolder folder = Golden("bert_mean_normalize");
  const auto whole = Load(folder);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ((*whole)->positions->rows(), folder.max_tokens);
  folder.max_tokens = 7;
  const auto cut = Load(folder);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ((*cut)->positions->rows(), 7);
  EXPECT_EQ((*cut)->parameters, (*whole)->parameters);
  EXPECT_LT((*cut)->bytes, (*whole)->bytes);
  folder.max_tokens = 1 << 20;
  EXPECT_EQ(Load(folder).status().field(), "max_position_embeddings");
  // Numbered from the padding token on.
  families::ModelFolder padded = Golden("roberta_rerank");
  const auto roberta = Load(padded);
  ASSERT_TRUE(roberta.ok());
  EXPECT_EQ((*roberta)->positions->rows(), padded.max_tokens + (*roberta)->position_padding + 1);
}

// At whichever moment: an error, not the end of the process.
TEST_F(WeightsTest, AFileCutWhileItLoadsIsAnError) {
  files::MappedFile::MendTruncated();
  const TempFolder temp;
  const fs::path copy = temp.path() / "model";
  int failed = 0;
  for (int trial = 0; trial < 40 || (failed == 0 && trial < 4000); ++trial) {
    fs::remove_all(copy);
    fs::copy(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize", copy, fs::copy_options::recursive);
    const families::ModelFolder folder = Folder(copy.string());
    std::jthread cutter([&] {
      // At another moment of the load in each trial.
      std::this_thread::sleep_for(std::chrono::microseconds(trial % 40 * 20));
      EXPECT_EQ(truncate((copy / "model.safetensors").c_str(), 5000), 0);
    });
    failed += !Load(folder).ok();
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace penstock::models
