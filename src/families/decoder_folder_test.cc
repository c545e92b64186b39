#include "families/decoder_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_folder_test_util.h"
#include "families/model_folder.h"
#include "families/model_kind.h"
#include "files/gguf_test_util.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = PENSTOCK_GOLDEN_DIR "/embedders/";

// A copy of a golden model, to change.
class DecoderFolderTest : public testing::Test {
 protected:
  fs::path Copy(const std::string& model, const std::string& name) {
    const fs::path to = root_ / name;
    fs::copy(kGolden + model, to, fs::copy_options::recursive);
    return to;
  }
  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string ReadAll(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Replace(const fs::path& path, const std::string& from, const std::string& to) {
    std::string text = ReadAll(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write(path, text.replace(at, from.size(), to));
  }
  static ModelFolder Good(const fs::path& path) {
    auto folder = ModelFolder::Read(path.string());
    EXPECT_TRUE(folder.ok()) << folder.status().ToString();
    return folder.ok() ? *std::move(folder) : ModelFolder();
  }
  static ModelKind Kind(const fs::path& path) {
    const auto kind = KindOfModel(path.string());
    EXPECT_TRUE(kind.ok()) << kind.status().ToString();
    return kind.ok() ? *kind : ModelKind::kDecoder;
  }

  const TempFolder temp_;
  const fs::path root_ = temp_.path();
};

TEST_F(DecoderFolderTest, PoolingMakesADecoderEmbed) {
  const ModelFolder folder = Good(kGolden + "qwen3_lasttoken");
  EXPECT_TRUE(folder.decoder);
  EXPECT_EQ(folder.task, ModelTask::kEmbedding);
  EXPECT_EQ(folder.pooling, PoolingMode::kLastToken);
  EXPECT_TRUE(folder.normalize);
  EXPECT_EQ(folder.encoder.vocab_size, 272);
  EXPECT_EQ(folder.encoder.num_labels, 0);
  EXPECT_EQ(folder.max_tokens, 1000);
  EXPECT_EQ(folder.prompts.at("query"), "Instruct: Find passages\nQuery:");
  EXPECT_EQ(folder.end_token, "");
  EXPECT_EQ(Kind(folder.path), ModelKind::kEncoder);
}

TEST_F(DecoderFolderTest, TheEndTokenIsTheTokenizerConfigs) {
  EXPECT_EQ(Good(kGolden + "qwen2_both_directions").end_token, "<|end|>");
  const fs::path folder = Copy("qwen2_both_directions", "m");
  Replace(folder / "tokenizer_config.json", "\"eos_token\": \"<|end|>\"",
          "\"eos_token\": {\"content\": \"<|pad|>\", \"lstrip\": false}");
  EXPECT_EQ(Good(folder).end_token, "<|pad|>");
}

TEST_F(DecoderFolderTest, Qwen3RerankersAreKnownByName) {
  const ModelFolder folder = Good(kGolden + "qwen3_reranker");
  EXPECT_EQ(folder.task, ModelTask::kReranking);
  ASSERT_TRUE(folder.logit_score && folder.pair_template);
  EXPECT_EQ(folder.logit_score->true_token, "yes");
  EXPECT_EQ(folder.encoder.num_labels, 1);
  const fs::path hub = root_ / "models--Qwen--Qwen3-Reranker-0.6B" / "snapshots";
  fs::create_directories(hub);
  fs::copy(kGolden + "qwen3_reranker", hub / "0123", fs::copy_options::recursive);
  EXPECT_EQ(Good(hub / "0123").task, ModelTask::kReranking);
  EXPECT_EQ(Kind(hub / "0123"), ModelKind::kEncoder);
  // By any other name it generates text.
  const fs::path other = Copy("qwen3_reranker", "qwen3");
  EXPECT_EQ(Kind(other), ModelKind::kDecoder);
  EXPECT_FALSE(ModelFolder::Read(other.string()).ok());
}

// What lies in a folder for rerankers need not be one.
TEST_F(DecoderFolderTest, FoldersAboveAModelSayNothing) {
  const fs::path shelf = root_ / "my-rerankers";
  fs::create_directories(shelf / "snapshots");
  for (const char* name : {"qwen3", "snapshots/qwen3"}) {
    const fs::path chat = shelf / name;
    fs::copy(kGolden + "qwen3_reranker", chat, fs::copy_options::recursive);
    EXPECT_EQ(Kind(chat), ModelKind::kDecoder) << chat;
    EXPECT_EQ(Kind(chat / ""), ModelKind::kDecoder) << chat;
  }
  const fs::path own = shelf / "Qwen3-Reranker";
  fs::copy(kGolden + "qwen3_reranker", own, fs::copy_options::recursive);
  EXPECT_EQ(Kind(own / ""), ModelKind::kEncoder);
  fs::create_directory_symlink(own, root_ / "latest");
  EXPECT_EQ(Kind(root_ / "latest"), ModelKind::kEncoder);
}

// A file has a folder of its own, in the cache of the hub too, where it is a link to a blob.
TEST_F(DecoderFolderTest, GgufFilesAreKnownByTheirFolder) {
  const std::string file = files::RawGguf(
      {files::RawKey("general.architecture", files::GgufType::kString, files::RawText("qwen3"))},
      {}, "");
  const auto kind = [&](const fs::path& path) {
    fs::create_directories(path.parent_path());
    Write(path, file);
    return Kind(path);
  };
  EXPECT_EQ(kind(root_ / "chat/qwen3.gguf"), ModelKind::kDecoder);
  EXPECT_EQ(kind(root_ / "chat/Qwen3-Reranker.gguf"), ModelKind::kEncoder);
  EXPECT_EQ(kind(root_ / "qwen3-reranker/model.gguf"), ModelKind::kEncoder);
  EXPECT_EQ(kind(root_ / "rerankers/chat/qwen3.gguf"), ModelKind::kDecoder);
  const fs::path hub = root_ / "models--Qwen--Qwen3-Reranker-GGUF";
  EXPECT_EQ(kind(hub / "snapshots/0123/q8.gguf"), ModelKind::kEncoder);
  EXPECT_EQ(kind(hub / "snapshots/0123/q8/model.gguf"), ModelKind::kEncoder);
}

TEST_F(DecoderFolderTest, LogitScoreAndItsTemplate) {
  const ModelFolder folder = Good(kGolden + "qwen3_logit_score");
  EXPECT_EQ(folder.task, ModelTask::kReranking);
  ASSERT_TRUE(folder.logit_score.has_value());
  EXPECT_EQ(folder.logit_score->true_id, 257);
  EXPECT_EQ(folder.logit_score->false_id, 258);
  EXPECT_NE(folder.pair_chat_template, "");
  EXPECT_EQ(folder.instruction, "Find the answer");
  EXPECT_FALSE(folder.pair_template.has_value());

  const fs::path one = Copy("qwen3_logit_score", "one");
  Write(one / "1_LogitScore/config.json", R"({"true_token_id": 5, "false_token_id": null})");
  EXPECT_EQ(Good(one).logit_score->false_id, -1);
  Write(one / "1_LogitScore/config.json", R"({"true_token_id": 272})");
  EXPECT_EQ(ModelFolder::Read(one.string()).status().field(), "true_token_id");
  const fs::path none = Copy("qwen3_logit_score", "none");
  Write(none / "chat_template.jinja", "{{ messages[0].content }}");
  EXPECT_EQ(ModelFolder::Read(none.string()).status().field(), "chat_template");
}

TEST_F(DecoderFolderTest, EncodersHaveNoLogitScore) {
  const fs::path folder = Copy("qwen3_logit_score", "m");
  fs::copy(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize/config.json", folder / "config.json",
           fs::copy_options::overwrite_existing);
  EXPECT_EQ(ModelFolder::Read(folder.string()).status().code(), StatusCode::kUnsupported);
}

TEST_F(DecoderFolderTest, ClassifiersAreDecodersToo) {
  const ModelFolder folder = Good(kGolden + "llama_seq_cls");
  EXPECT_EQ(folder.task, ModelTask::kReranking);
  EXPECT_TRUE(folder.decoder);
  EXPECT_FALSE(folder.logit_score || folder.pair_template);
  EXPECT_EQ(Kind(folder.path), ModelKind::kEncoder);
}

TEST_F(DecoderFolderTest, GgufSaysHowItPools) {
  const ModelFolder folder = Good(kGolden + "qwen3_lasttoken_gguf");
  EXPECT_EQ(folder.task, ModelTask::kEmbedding);
  EXPECT_EQ(folder.pooling, PoolingMode::kLastToken);
  EXPECT_TRUE(folder.normalize && folder.decoder);
  EXPECT_EQ(Kind(kGolden + "qwen3_lasttoken_gguf"), ModelKind::kEncoder);
}

TEST_F(DecoderFolderTest, WhatCannotBeIsRefusedByName) {
  const fs::path window = Copy("qwen2_both_directions", "window");
  Replace(window / "config.json", "\"use_sliding_window\": false",
          "\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 0");
  EXPECT_EQ(ModelFolder::Read(window.string()).status().field(), "sliding_window");
  const fs::path images = Copy("gemma3_mean_dense", "images");
  Replace(images / "config.json", "\"use_bidirectional_attention\": true",
          "\"use_bidirectional_attention\": \"vision\"");
  EXPECT_EQ(ModelFolder::Read(images.string()).status().field(), "use_bidirectional_attention");
}

}  // namespace
}  // namespace penstock::families
