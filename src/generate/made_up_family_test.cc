// Families that this file alone knows: all that a family needs is its descriptor. Each computes the
// same bits as a known family whose settings and tensors say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "families/bert.h"
#include "families/config_fields.h"
#include "families/decoder_gguf.h"
#include "families/decoder_json.h"
#include "families/decoder_test_util.h"
#include "families/encoder_json.h"
#include "families/list.h"
#include "families/model_kind.h"
#include "generate/golden_test_util.h"
#include "models/encoder.h"

namespace penstock::generate {
namespace {

using ::testing::HasSubstr;
using Replacements = std::vector<std::pair<std::string, std::string>>;

// A copy of a golden model; in each file every first text of a pair becomes its second.
void CopyGolden(const std::string& name, const Replacements& replacements, const TempFolder& to) {
  const std::filesystem::path from = std::filesystem::path(PENSTOCK_GOLDEN_DIR) / name;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    std::string bytes = text.str();
    for (const auto& [before, after] : replacements) {
      for (size_t at = bytes.find(before); at != std::string::npos;
           at = bytes.find(before, at + after.size())) {
        bytes.replace(at, before.size(), after);
      }
    }
    to.Write(std::filesystem::relative(entry.path(), from), bytes);
  }
}

// ---- A decoder: odd defaults, one tensor under another name, and a setting of its own.

constexpr std::string_view kMadeUpKeys[] = {"divisor"};

constexpr families::DecoderFamily kMadeUpDecoder = {
    .name = "made-up",
    .model_type = "made-up",
    .defaults = {.vocab_size = 260,
                 .hidden_size = 32,
                 .intermediate_size = 64,
                 .layers = 3,
                 .heads = 4,
                 .kv_heads = 2,
                 .context = 256,
                 .rms_epsilon = 1e-5,
                 .rope_theta = 123},
    .tensors = {.attention_norm = "other_layernorm"},
    .read_json =
        [](const families::JsonSource& from, families::DecoderConfig* out) {
          float divisor = 1;
          PENSTOCK_RETURN_IF_ERROR(families::ReadFloat(from.model, {"divisor"}, 1,
                                                       families::kMultiplierMin,
                                                       families::kMultiplierMax, &divisor));
          out->attention_scale = 1 / divisor;
          return Status::Ok();
        },
    .gguf = {.name = "made-up",
             .interleaved = true,
             .keys = kMadeUpKeys,
             .read =
                 [](const families::GgufSource& from, families::DecoderConfig* out) {
                   return from.keys.FloatOr("divisor", 1, families::kMultiplierMin,
                                            families::kMultiplierMax, &out->residual_scale);
                 }},
};

TEST(MadeUpFamily, ADecoderWrites) {
  // Granite is a family whose config.json can say the same.
  TempFolder known, made_up;
  CopyGolden("decoders/llama",
             {{R"("llama")", R"("granite")"},
              {R"("rope_theta": 10000.0)", R"("rope_theta": 123, "attention_multiplier": 0.25)"}},
             known);
  CopyGolden("decoders/llama", {{"input_layernorm", "other_layernorm"}}, made_up);
  made_up.Write("config.json", R"({"model_type": "made-up", "divisor": 4})");

  EXPECT_THAT(families::KindOfModel(made_up.text()).status().message(),
              HasSubstr("'model_type': 'made-up' is not supported"));
  {
    const families::ScopedFamily<families::DecoderFamily> scope(kMadeUpDecoder);
    EXPECT_EQ(*families::KindOfModel(made_up.text()), families::ModelKind::kDecoder);
    EXPECT_THAT(families::DecoderModelTypes(), HasSubstr(", made-up"));
    const auto backend = *cpu::NewCpuBackend({2, false, ""});
    const auto same = LoadDecoder(known.text(), backend.get(), numbers::DType::kF32);
    const auto model = LoadDecoder(made_up.text(), backend.get(), numbers::DType::kF32);
    ASSERT_NE(same, nullptr);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->config().architecture, "made-up");
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < 40; ++id) ids.push_back(7 * id % 260);
    EXPECT_EQ(LogitsOf(*model, ids, numbers::DType::kF32),
              LogitsOf(*same, ids, numbers::DType::kF32));

    // The default and the setting change the logits.
    made_up.Write("config.json", R"({"model_type": "made-up", "divisor": 4, "rope_theta": 124})");
    const auto other = LoadDecoder(made_up.text(), backend.get(), numbers::DType::kF32);
    EXPECT_NE(LogitsOf(*other, ids, numbers::DType::kF32),
              LogitsOf(*same, ids, numbers::DType::kF32));
  }
  EXPECT_FALSE(families::KindOfModel(made_up.text()).ok());
}

TEST(MadeUpFamily, ADecoderInAGgufFile) {
  const families::ScopedFamily<families::DecoderFamily> scope(kMadeUpDecoder);
  const TempFolder folder;
  families::TestKeys keys = families::SmallKeys("made-up");
  keys["divisor"] = families::RawF32("made-up.divisor", 0.5f);
  const auto files = families::DecoderFiles::Open(
      folder.Write("m.gguf", families::GgufOf(keys, families::SmallGgufTensors())));
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE(files->config.rope_interleaved);
  EXPECT_EQ(files->config.residual_scale, 0.5f);
}

// ---- An encoder: BERT with another epsilon and another name of a tensor.

constexpr families::EncoderArchitecture MadeUpArchitecture() {
  families::EncoderArchitecture out = families::BertArchitecture("made-up.");
  out.words = "embeddings.word_embaddings";
  return out;
}

constexpr families::EncoderFamily kMadeUpEncoder = {
    .model_type = "made-up",
    .read_json =
        [](const JsonObject& config, families::EncoderConfig* out) {
          return families::ReadBertLike(config,
                                        {.vocab_size = 200, .types = 2, .norm_epsilon = 0.5}, out);
        },
    .architecture = MadeUpArchitecture(),
};

std::vector<float> EmbeddingOf(const std::string& path, program::Backend* backend) {
  const auto folder = families::ModelFolder::Read(path);
  EXPECT_TRUE(folder.ok()) << folder.status().ToString();
  if (!folder.ok()) return {};
  const auto model = models::EncoderModel::Load(*folder, backend);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  if (!model.ok()) return {};
  const std::vector<int32_t> ids = {2, 17, 99, 3}, types(4), offsets = {0, 4};
  std::vector<float> row(
      static_cast<size_t>((*model)->OutputWidth(program::EncoderOutput::kPooled)));
  const Status run = models::EncoderSession(model->get())
                         .Run({ids, types, offsets, {}}, program::EncoderOutput::kPooled, row);
  EXPECT_TRUE(run.ok()) << run.ToString();
  return row;
}

TEST(MadeUpFamily, AnEncoderEmbeds) {
  const std::string epsilon = R"("layer_norm_eps": 1e-12,)";
  TempFolder known, made_up;
  CopyGolden("models/bert_mean_normalize", {{epsilon, R"("layer_norm_eps": 0.5,)"}}, known);
  CopyGolden("models/bert_mean_normalize",
             {{R"("model_type": "bert")", R"("model_type": "made-up")"},
              {epsilon, ""},
              {"word_embeddings", "word_embaddings"}},
             made_up);
  EXPECT_THAT(families::ModelFolder::Read(made_up.text()).status().message(),
              HasSubstr("'made-up'"));
  const families::ScopedFamily<families::EncoderFamily> scope(kMadeUpEncoder);
  const auto backend = *cpu::NewCpuBackend({2, false, ""});
  const std::vector<float> same = EmbeddingOf(known.text(), backend.get());
  EXPECT_FALSE(same.empty());
  EXPECT_EQ(EmbeddingOf(made_up.text(), backend.get()), same);
}

}  // namespace
}  // namespace penstock::generate
