// Folders of decoders: which files count, templates, ends, and what is wrong with tensors.
#include "families/decoder_files.h"

#include <gtest/gtest.h>

#include "families/decoder_test_util.h"
#include "families/model_kind.h"

namespace penstock::families {
namespace {

std::string Config(const std::string& more = "", const std::string& type = "llama") {
  return R"({"model_type": ")" + type + "\", " + kSmallFields + (more.empty() ? "" : ", ") + more +
         "}";
}

class DecoderFolder : public ::testing::Test {
 protected:
  void SetUp() override { Write(Config(), SmallFolderTensors()); }
  void Write(const std::string& config, const TestTensors& tensors) {
    folder_.Write("config.json", config);
    folder_.Write("model.safetensors", SafetensorsOf(tensors));
  }
  DecoderFiles Good() {
    auto files = DecoderFiles::Open(folder_.text());
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return files.ok() ? *std::move(files) : DecoderFiles();
  }
  void ExpectStatus(StatusCode code, const std::string& field, const std::string& words) {
    const auto files = DecoderFiles::Open(folder_.text());
    ASSERT_FALSE(files.ok());
    EXPECT_EQ(files.status().code(), code) << files.status().ToString();
    EXPECT_EQ(files.status().field(), field) << files.status().ToString();
    EXPECT_NE(files.status().message().find(words), std::string::npos) << files.status().message();
    EXPECT_TRUE(files.status().message().starts_with(folder_.text())) << files.status().message();
  }

  TempFolder folder_;
};

TEST_F(DecoderFolder, TensorsAreNamedWithBothShapes) {
  for (const auto& [name, shape] : SmallFolderTensors()) {
    TestTensors tensors = SmallFolderTensors();
    tensors.erase(name);
    Write(Config(), tensors);
    ExpectStatus(StatusCode::kInvalidArgument, name, "has no tensor '" + name + "'");
    tensors[name] = shape;
    tensors[name].back() += 1;
    Write(Config(), tensors);
    ExpectStatus(StatusCode::kInvalidArgument, name, "the configuration asks for [");
  }
}

TEST_F(DecoderFolder, WeightsOfOtherTypesAreRefused) {
  std::string bytes = SafetensorsOf(SmallFolderTensors());
  const size_t at = bytes.find("\"F32\"");
  bytes.replace(at, 5, "\"I32\"");
  folder_.Write("model.safetensors", bytes);
  ExpectStatus(StatusCode::kUnsupported, "", "is I32; weights must be");
}

TEST_F(DecoderFolder, BiasesAreThoseOfTheConfiguration) {
  const TestTensors biases = {{"self_attn.q_proj.bias", {8}},
                              {"self_attn.k_proj.bias", {4}},
                              {"self_attn.v_proj.bias", {4}},
                              {"self_attn.o_proj.bias", {8}}};
  Write(Config(), SmallFolderTensors(biases));
  EXPECT_EQ(Good().unused_tensors, 8);  // as transformers, which passes over them
  Write(Config(R"("attention_bias": true)"), SmallFolderTensors(biases));
  const DecoderFiles files = Good();
  EXPECT_EQ(files.unused_tensors, 0);
  EXPECT_TRUE(files.tensors.layers.at(1).attention_out.bias.has_value());
  Write(Config(R"("attention_bias": true)"), SmallFolderTensors());
  ExpectStatus(StatusCode::kInvalidArgument, "model.layers.0.self_attn.q_proj.bias", "no tensor");
}

TEST_F(DecoderFolder, ATiedOutputMustBeTheEmbedding) {
  Write(Config(R"("tie_word_embeddings": true)"), SmallFolderTensors());
  ExpectStatus(StatusCode::kUnsupported, "tie_word_embeddings", "'lm_head.weight' differs");
  TestTensors tensors = SmallFolderTensors();
  tensors.erase("lm_head.weight");
  Write(Config(R"("tie_word_embeddings": true)"), tensors);
  const DecoderFiles files = Good();
  EXPECT_TRUE(files.tensors.tied);
  EXPECT_EQ(files.tensors.output.weight.data.data(), files.tensors.embedding.data.data());
}

TEST_F(DecoderFolder, TheTextModelOfAModelWithImages) {
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    TestTensors tensors;
    for (const auto& [name, shape] :
         SmallFolderTensors({{"self_attn.q_norm.weight", {4}},
                             {"self_attn.k_norm.weight", {4}},
                             {"pre_feedforward_layernorm.weight", {8}},
                             {"post_feedforward_layernorm.weight", {8}}})) {
      if (name.starts_with("model.")) tensors[prefix + name.substr(6)] = shape;
    }
    tensors["vision_tower.x"] = {3};
    Write(R"({"model_type": "gemma3", "text_config": )" + Config("", "gemma3_text") + "}", tensors);
    const DecoderFiles files = Good();
    EXPECT_EQ(files.unused_tensors, 1);
    ASSERT_EQ(files.tensors.layers.size(), 2u);
    EXPECT_EQ(files.tensors.layers[1].q_norm->name, prefix + "layers.1.self_attn.q_norm.weight");
  }
}

TEST_F(DecoderFolder, EndsOfTheGenerationConfigGoBeforeThoseOfTheModel) {
  Write(Config(R"("eos_token_id": [7, 3])"), SmallFolderTensors());
  EXPECT_EQ(Good().config.end_ids, (std::vector<int32_t>{3, 7}));
  EXPECT_EQ(Good().config.eos_id, 7);
  folder_.Write("generation_config.json", R"({"eos_token_id": [9, 5, 9]})");
  EXPECT_EQ(Good().config.end_ids, (std::vector<int32_t>{5, 9}));
  EXPECT_EQ(Good().generation_config_path, folder_ / "generation_config.json");
  folder_.Write("generation_config.json", R"({"temperature": 0.5})");
  EXPECT_EQ(Good().config.end_ids, (std::vector<int32_t>{3, 7}));
  folder_.Write("generation_config.json", R"({"eos_token_id": 11})");
  ExpectStatus(StatusCode::kInvalidArgument, "eos_token_id", "generation_config.json");
}

TEST_F(DecoderFolder, ChatTemplates) {
  EXPECT_EQ(Good().chat_template, "");
  folder_.Write("tokenizer_config.json", R"({"chat_template": "plain"})");
  EXPECT_EQ(Good().chat_template, "plain");
  folder_.Write("tokenizer_config.json",
                R"({"chat_template": [{"name": "rag", "template": "r"},
                                      {"name": "default", "template": "d"}]})");
  EXPECT_EQ(Good().chat_template, "d");
  folder_.Write("tokenizer_config.json", R"({"chat_template": [1]})");
  ExpectStatus(StatusCode::kInvalidArgument, "chat_template", "tokenizer_config.json");
  folder_.Write("chat_template.jinja", "newer");
  EXPECT_EQ(Good().chat_template, "newer");
}

TEST_F(DecoderFolder, NamedChatTemplates) {
  const auto names = [this] {
    std::string all;
    for (const auto& [name, text] : Good().chat_templates.by_name) all += name + "=" + text + " ";
    return all;
  };
  EXPECT_EQ(names(), "");
  folder_.Write("chat_template.json", R"({"chat_template": "legacy"})");
  EXPECT_EQ(names(), "default=legacy ");
  folder_.Write("tokenizer_config.json",
                R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                      {"name": "default", "template": "c"},
                                      {"name": "default", "template": "d"}]})");
  EXPECT_EQ(names(), "default=d tool_use=t ");
  const ChatTemplates chosen = Good().chat_templates;
  EXPECT_EQ(*chosen.Choose("", false), "d");
  EXPECT_EQ(*chosen.Choose("", true), "t");
  EXPECT_EQ(*chosen.Choose("default", true), "d");
  EXPECT_EQ(chosen.Choose("rag", false), nullptr);
  // Files of their own take the place of all of these.
  std::filesystem::create_directory(folder_ / "additional_chat_templates");
  folder_.Write("additional_chat_templates/rag.jinja", "r");
  folder_.Write("additional_chat_templates/notes.txt", "x");
  EXPECT_EQ(names(), "rag=r ");
  EXPECT_EQ(Good().chat_template, "");
  EXPECT_EQ(Good().chat_templates.Choose("", true), nullptr);
  folder_.Write("chat_template.jinja", "j");
  EXPECT_EQ(names(), "default=j rag=r ");
  EXPECT_EQ(*Good().chat_templates.Choose("", true), "j");
  for (size_t i = 0; i < ChatTemplates::kCountMax; ++i) {
    folder_.Write("additional_chat_templates/t" + std::to_string(i) + ".jinja", "x");
  }
  ExpectStatus(StatusCode::kInvalidArgument, "chat_template", "more than 64");
}

TEST_F(DecoderFolder, BrokenChatTemplates) {
  folder_.Write("tokenizer_config.json", R"({"chat_template": [{"name": "a"}]})");
  ExpectStatus(StatusCode::kInvalidArgument, "chat_template[].template", "tokenizer_config.json");
  folder_.Write("tokenizer_config.json", R"({"chat_template": 5})");
  ExpectStatus(StatusCode::kInvalidArgument, "chat_template", "tokenizer_config.json");
  folder_.Write("tokenizer_config.json", "{}");
  folder_.Write("chat_template.json", "[]");
  ExpectStatus(StatusCode::kInvalidArgument, "", "chat_template.json");
}

TEST_F(DecoderFolder, TheTokenizerIsAFile) {
  EXPECT_FALSE(Good().tokenizer.has_value());
  folder_.Write("tokenizer.json", "{}");
  const DecoderFiles files = Good();
  ASSERT_TRUE(files.tokenizer.has_value());
  EXPECT_EQ(files.tokenizer->path, folder_ / "tokenizer.json");
  EXPECT_EQ(files.tokenizer->gguf, nullptr);
}

TEST(DecoderFilesAt, AFolderMayHoldOneGgufModel) {
  TempFolder folder;
  EXPECT_EQ(DecoderFiles::Open(folder / "absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(DecoderFiles::Open(folder.text()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(KindOfModel(folder.text()).status().code(), StatusCode::kNotFound);
  const std::string model = GgufOf(SmallKeys("llama"), SmallGgufTensors());
  folder.Write("a.gguf", model);
  folder.Write("mmproj-a.gguf", "not read");
  folder.Write("config.json", "{}");  // some folders of GGUF files keep it
  const auto one = DecoderFiles::Open(folder.text());
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(one->store->gguf()->alignment, 32u);
  EXPECT_EQ(*KindOfModel(folder.text()), ModelKind::kDecoder);
  folder.Write("b-00001-of-00002.gguf", model);
  folder.Write("b-00002-of-00002.gguf", model);
  const auto two = DecoderFiles::Open(folder.text());
  EXPECT_EQ(two.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(two.status().message().find("2 GGUF models (a.gguf, b-00001-of-00002.gguf)"),
            std::string::npos)
      << two.status().message();
  EXPECT_FALSE(KindOfModel(folder.text()).ok());
}

TEST(DecoderFilesAt, SeveralFilesAreOneModel) {
  TempFolder folder;
  const auto part = [](uint16_t number, const TestTensors& tensors) {
    TestKeys keys = number == 0 ? SmallKeys("llama") : TestKeys();
    keys["split.no"] = files::RawKey("split.no", files::GgufType::kUint16, files::Raw(number));
    keys["split.count"] =
        files::RawKey("split.count", files::GgufType::kUint16, files::Raw(uint16_t{2}));
    keys["split.tensors.count"] =
        files::RawKey("split.tensors.count", files::GgufType::kInt32,
                      files::Raw(static_cast<int32_t>(SmallGgufTensors().size())));
    return GgufOf(keys, tensors);
  };
  TestTensors first, second;
  for (const auto& [name, shape] : SmallGgufTensors()) {
    (name.starts_with("blk.1.") ? second : first)[name] = shape;
  }
  folder.Write("m-00001-of-00002.gguf", part(0, first));
  folder.Write("m-00002-of-00002.gguf", part(1, second));
  for (const std::string& path : {folder.text(), folder / "m-00002-of-00002.gguf"}) {
    const auto files = DecoderFiles::Open(path);
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_EQ(files->store->gguf()->parts, 2);
    EXPECT_EQ(files->tensors.layers.size(), 2u);
  }
}

TEST(KindOfModel, ByArchitecture) {
  TempFolder folder;
  folder.Write("config.json", R"({"model_type": "bert"})");
  EXPECT_EQ(*KindOfModel(folder.text()), ModelKind::kEncoder);
  folder.Write("config.json", R"({"model_type": "qwen3"})");
  EXPECT_EQ(*KindOfModel(folder.text()), ModelKind::kDecoder);
  folder.Write("modules.json", "[]");  // of sentence-transformers
  EXPECT_EQ(*KindOfModel(folder.text()), ModelKind::kEncoder);
  folder.Write("config.json", "{}");
  EXPECT_EQ(KindOfModel(folder.text()).status().field(), "model_type");
  TempFolder other;
  other.Write("config.json", R"({"model_type": "rwkv"})");
  const Status status = KindOfModel(other.text()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("'rwkv' is not supported; supported are the encoders bert"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("the decoders llama, mistral"), std::string::npos);
}

}  // namespace
}  // namespace penstock::families
