#include "families/model_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/temp_folder_test_util.h"
#include "families/config_reader.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

Expected<EncoderConfig> Config(const std::string& json) {
  const auto document = JsonDocument::Parse(json);
  EXPECT_TRUE(document.ok()) << document.status().ToString() << json;
  return ReadEncoderConfig(*document->Object());
}

EncoderConfig Good(const std::string& json) {
  auto config = Config(json);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? *std::move(config) : EncoderConfig();
}

void ExpectRefused(const std::string& json, const std::string& field) {
  const auto config = Config(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.status().code(), StatusCode::kUnsupported) << config.status().ToString();
  EXPECT_EQ(config.status().field(), field) << config.status().ToString();
}

void ExpectInvalid(const std::string& json, const std::string& field) {
  const auto config = Config(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << config.status().ToString();
  EXPECT_EQ(config.status().field(), field) << config.status().ToString();
}

TEST(EncoderConfig, DefaultsAreThoseOfTheReference) {
  const auto bert = Good(R"({"model_type": "bert"})");
  EXPECT_EQ(bert.vocab_size, 30522);
  EXPECT_EQ(bert.hidden_size, 768);
  EXPECT_EQ(bert.num_hidden_layers, 12);
  EXPECT_EQ(bert.type_vocab_size, 2);
  EXPECT_EQ(bert.pad_token_id, 0);
  EXPECT_FLOAT_EQ(bert.layer_norm_eps, 1e-12f);
  EXPECT_EQ(Good(R"({"model_type": "roberta"})").vocab_size, 50265);
  EXPECT_EQ(Good(R"({"model_type": "xlm-roberta"})").pad_token_id, 1);
  EXPECT_EQ(Good(R"({"model_type": "distilbert"})").num_hidden_layers, 6);
  const auto modern = Good(R"({"model_type": "modernbert"})");
  EXPECT_EQ(modern.num_hidden_layers, 22);
  EXPECT_EQ(modern.global_attn_every_n_layers, 3);
  EXPECT_FLOAT_EQ(modern.rope_theta, 160000.0f);
  EXPECT_FLOAT_EQ(modern.rope_theta_local, 10000.0f);
  EXPECT_FALSE(modern.norm_bias);
  EXPECT_FALSE(modern.qkv_bias);
  const auto nomic = Good(R"({"model_type": "nomic_bert"})");
  EXPECT_FLOAT_EQ(nomic.rope_theta, 1000.0f);
  EXPECT_EQ(nomic.hidden_act, HiddenActivation::kSilu);
  EXPECT_FALSE(nomic.qkv_bias);
}

TEST(EncoderConfig, DistilBertHasNamesOfItsOwn) {
  const auto config = Good(
      R"({"model_type": "distilbert", "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48,)"
      R"( "activation": "relu", "vocab_size": 99, "sinusoidal_pos_embds": true})");
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.num_hidden_layers, 3);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.intermediate_size, 48);
  EXPECT_EQ(config.hidden_act, HiddenActivation::kRelu);
  EXPECT_EQ(config.type_vocab_size, 0);
}

const char kNomic[] =
    R"("model_type": "nomic_bert", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_inner": null,)"
    R"( "activation_function": "swiglu", "rotary_emb_fraction": 0.5, "n_positions": 8192,)"
    R"( "vocab_size": 64)";

TEST(EncoderConfig, NomicInItsPublishedForm) {
  auto config = Good(std::string("{") + kNomic +
                     R"(, "rotary_emb_base": 1000, "rotary_emb_interleaved": true,)"
                     R"( "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false,)"
                     R"( "layer_norm_epsilon": 1e-6, "prenorm": false})");
  EXPECT_EQ(config.intermediate_size, 128);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_FLOAT_EQ(config.rope_theta, 1000);
  EXPECT_FLOAT_EQ(config.rope_fraction, 0.5f);
  EXPECT_FLOAT_EQ(config.layer_norm_eps, 1e-6f);
  EXPECT_TRUE(config.rope_interleaved);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_TRUE(Good(std::string("{") + kNomic + "}").attention_out_bias);
  // Beyond the trained length the angles would be scaled.
  config = Good(std::string("{") + kNomic +
                R"(, "rotary_scaling_factor": 2, "max_trained_positions": 2048})");
  EXPECT_EQ(config.max_position_embeddings, 2048);
  for (const char* field :
       {"prenorm", "parallel_block", "use_rms_norm", "causal", "scale_attn_by_inverse_layer_idx"}) {
    ExpectRefused(std::string("{") + kNomic + ", \"" + field + "\": true}", field);
  }
  ExpectRefused(std::string("{") + kNomic + R"(, "moe_every_n_layers": 2})", "moe_every_n_layers");
  ExpectRefused(std::string("{") + kNomic + R"(, "mlp_fc2_bias": false})", "mlp_fc2_bias");
  ExpectRefused(R"({"model_type": "nomic_bert", "n_embd": 24, "activation_function": "gelu"})",
                "activation_function");
  ExpectRefused(R"({"model_type": "nomic_bert", "n_embd": 24, "activation_function": "swiglu"})",
                "rotary_emb_fraction");
}

TEST(EncoderConfig, ModernBertOldAndNewRope) {
  const auto old =
      Good(R"({"model_type": "modernbert", "global_rope_theta": 1000.0, "local_rope_theta": 10.0,)"
           R"( "global_attn_every_n_layers": 2, "norm_eps": 1e-4})");
  EXPECT_FLOAT_EQ(old.rope_theta, 1000);
  EXPECT_FLOAT_EQ(old.rope_theta_local, 10);
  EXPECT_EQ(old.global_attn_every_n_layers, 2);
  EXPECT_FLOAT_EQ(old.layer_norm_eps, 1e-4f);
  const auto newer =
      Good(R"({"model_type": "modernbert", "num_hidden_layers": 5, "rope_parameters": {)"
           R"("full_attention": {"rope_theta": 7000.0, "rope_type": "default"},)"
           R"( "sliding_attention": {"rope_theta": 70}}, "layer_types": ["full_attention",)"
           R"( "sliding_attention", "full_attention", "sliding_attention", "full_attention"]})");
  EXPECT_FLOAT_EQ(newer.rope_theta, 7000);
  EXPECT_FLOAT_EQ(newer.rope_theta_local, 70);
  EXPECT_EQ(newer.global_attn_every_n_layers, 2);
  ExpectRefused(R"({"model_type": "modernbert", "rope_parameters": {"full_attention":)"
                R"( {"rope_type": "yarn"}}})",
                "rope_parameters.full_attention.rope_type");
  ExpectRefused(R"({"model_type": "modernbert", "rope_scaling": {"type": "linear"}})",
                "rope_scaling.type");
  for (const char* types : {R"(["sliding_attention", "full_attention", "sliding_attention"])",
                            R"(["full_attention", "full_attention", "sliding_attention"])",
                            R"(["full_attention", "chunked_attention", "full_attention"])"}) {
    ExpectRefused(std::string(R"({"model_type": "modernbert", "num_hidden_layers": 3,)") +
                      "\"layer_types\": " + types + "}",
                  "layer_types");
  }
  ExpectInvalid(R"({"model_type": "modernbert", "num_hidden_layers": 3, "layer_types": []})",
                "layer_types");
  EXPECT_EQ(Good(R"({"model_type": "modernbert", "num_hidden_layers": 2, "layer_types":)"
                 R"( ["full_attention", "sliding_attention"]})")
                .global_attn_every_n_layers,
            2);
  ExpectRefused(R"({"model_type": "modernbert", "classifier_pooling": "max"})",
                "classifier_pooling");
}

TEST(EncoderConfig, UnknownThingsAreRefusedByName) {
  ExpectRefused(R"({"model_type": "llama"})", "model_type");
  ExpectRefused(R"({"model_type": "bert", "position_embedding_type": "relative_key"})",
                "position_embedding_type");
  ExpectRefused(R"({"model_type": "bert", "is_decoder": true})", "is_decoder");
  ExpectRefused(R"({"model_type": "bert", "hidden_act": "quick_gelu"})", "hidden_act");
  ExpectRefused(R"({"model_type": "distilbert", "activation": "mish"})", "activation");
  ExpectRefused(R"({"model_type": "bert", "quantization_config": {"load_in_4bit": true}})",
                "quantization_config");
  EXPECT_TRUE(Config(R"({"model_type": "bert", "pruned_heads": {}, "is_decoder": false})").ok());
}

TEST(EncoderConfig, NumbersHaveLimits) {
  ExpectInvalid(R"({})", "model_type");
  ExpectInvalid(R"({"model_type": "bert", "hidden_size": 0})", "hidden_size");
  ExpectInvalid(R"({"model_type": "bert", "hidden_size": 770})", "hidden_size");
  ExpectInvalid(R"({"model_type": "bert", "hidden_size": "768"})", "hidden_size");
  ExpectInvalid(R"({"model_type": "bert", "vocab_size": 99999999999})", "vocab_size");
  ExpectInvalid(R"({"model_type": "bert", "num_hidden_layers": -1})", "num_hidden_layers");
  ExpectInvalid(R"({"model_type": "bert", "pad_token_id": 30522})", "pad_token_id");
  ExpectInvalid(R"({"model_type": "roberta", "max_position_embeddings": 2})",
                "max_position_embeddings");
  ExpectInvalid(R"({"model_type": "bert", "layer_norm_eps": -1e-5})", "layer_norm_eps");
}

TEST(EncoderConfig, PositionsOfRobertaStartAfterThePadding) {
  EXPECT_EQ(PositionsUsable(Good(R"({"model_type": "roberta", "max_position_embeddings": 514})")),
            512);
  EXPECT_EQ(PositionsUsable(Good(R"({"model_type": "mpnet", "max_position_embeddings": 514})")),
            512);
  EXPECT_EQ(PositionsUsable(Good(R"({"model_type": "bert"})")), 512);
}

TEST(EncoderConfig, LabelsAndCrossEncoderActivation) {
  const std::string head =
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"])";
  EXPECT_EQ(Good(head + "}").num_labels, 2);
  EXPECT_EQ(Good(head + "}").labels[1], "LABEL_1");
  const auto three = Good(head + R"(, "id2label": {"1": "b", "0": "a", "2": "c"}})");
  EXPECT_EQ(three.labels, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Good(head + R"(, "num_labels": 1})").labels.size(), 1u);
  ExpectInvalid(head + R"(, "id2label": {"0": "a", "2": "b"}})", "id2label");
  ExpectInvalid(head + R"(, "id2label": {"0": "a"}, "num_labels": 3})", "num_labels");
  EXPECT_EQ(Good(R"({"model_type": "bert", "architectures": ["BertModel"]})").num_labels, 0);

  EXPECT_EQ(Good(head + R"(, "sbert_ce_default_activation_function":)"
                        R"( "torch.nn.modules.linear.Identity"})")
                .cross_encoder_activation,
            "identity");
  EXPECT_EQ(Good(head + R"(, "sentence_transformers": {"activation_fn":)"
                        R"( "torch.nn.modules.activation.Sigmoid", "version": "4.0"}})")
                .cross_encoder_activation,
            "sigmoid");
  ExpectRefused(head + R"(, "sentence_transformers": {"activation_fn": "my.Thing"}})",
                "activation_fn");
}

// ---- Whole folders

class ModelFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("config.json", R"({"model_type": "bert", "architectures": ["BertModel"],)"
                         R"( "hidden_size": 32, "num_attention_heads": 4})");
    Write("tokenizer.json", "{}");
  }

  void Write(const std::string& name, const std::string& text) const { temp_.Write(name, text); }
  void WriteModules(std::initializer_list<const char*> kinds) const {
    std::string json;
    size_t i = 0;
    for (const std::string kind : kinds) {
      const std::string path = i == 0 ? "" : std::to_string(i) + "_" + kind;
      json += std::string(i == 0 ? "[" : ",") + "{\"idx\": " + std::to_string(i) +
              ", \"path\": \"" + path + "\", \"type\": \"sentence_transformers.models." + kind +
              "\"}";
      ++i;
    }
    Write("modules.json", json + "]");
  }
  ModelFolder Read() const {
    auto folder = ModelFolder::Read(folder_.string());
    EXPECT_TRUE(folder.ok()) << folder.status().ToString();
    return folder.ok() ? *std::move(folder) : ModelFolder();
  }
  void ExpectFailure(StatusCode code, const std::string& says) const {
    const auto folder = ModelFolder::Read(folder_.string());
    ASSERT_FALSE(folder.ok()) << says;
    EXPECT_EQ(folder.status().code(), code) << folder.status().ToString();
    EXPECT_NE(folder.status().message().find(says), std::string::npos)
        << folder.status().ToString();
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

constexpr char kMean[] = R"({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true})";

TEST_F(ModelFolderTest, PlainFolderDeclaresNoPooling) {
  const auto folder = Read();
  EXPECT_EQ(folder.task, ModelTask::kEmbedding);
  EXPECT_FALSE(folder.pooling_declared);
  EXPECT_FALSE(folder.normalize);
  EXPECT_EQ(folder.max_tokens, 512);
  EXPECT_EQ(folder.similarity, "cosine");
}

TEST_F(ModelFolderTest, PoolingWithoutModulesCounts) {
  Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_TRUE(Read().pooling_declared);
  EXPECT_EQ(Read().pooling, PoolingMode::kCls);
}

TEST_F(ModelFolderTest, FullHead) {
  WriteModules({"Transformer", "Pooling", "Dense", "Dense", "Dropout", "Normalize"});
  Write("1_Pooling/config.json", kMean);
  Write("2_Dense/config.json", R"({"in_features": 32, "out_features": 64, "bias": false,)"
                               R"( "activation_function": "torch.nn.modules.linear.Identity"})");
  Write("3_Dense/config.json", R"({"in_features": 64, "out_features": 8})");
  const auto folder = Read();
  EXPECT_TRUE(folder.normalize);
  EXPECT_TRUE(folder.include_prompt);
  ASSERT_EQ(folder.dense.size(), 2u);
  EXPECT_EQ(folder.dense[0].folder, "2_Dense");
  EXPECT_FALSE(folder.dense[0].bias);
  EXPECT_EQ(folder.dense[0].activation, HiddenActivation::kIdentity);
  EXPECT_EQ(folder.dense[1].activation, HiddenActivation::kTanh);
  EXPECT_EQ(folder.dense[1].out_features, 8);

  Write("3_Dense/config.json", R"({"in_features": 32, "out_features": 8})");
  ExpectFailure(StatusCode::kInvalidArgument, "3_Dense/config.json: 'in_features' is 32");
  Write("3_Dense/config.json", R"({"in_features": 64, "out_features": 8, "activation_function":)"
                               R"( "torch.nn.modules.activation.Sigmoid"})");
  ExpectFailure(StatusCode::kUnsupported, "Sigmoid");
  Write("3_Dense/config.json", R"({"in_features": 64, "out_features": 8, "use_residual": true})");
  ExpectFailure(StatusCode::kUnsupported, "use_residual");
  Write("3_Dense/config.json", R"({"in_features": 64, "out_features": 8,)"
                               R"( "module_input_name": "token_embeddings"})");
  ExpectFailure(StatusCode::kUnsupported, "token_embeddings");
  fs::remove(folder_ / "3_Dense/config.json");
  ExpectFailure(StatusCode::kNotFound, "3_Dense/config.json");
}

TEST_F(ModelFolderTest, PoolingModesOldAndNew) {
  WriteModules({"Transformer", "Pooling"});
  const std::pair<const char*, PoolingMode> modes[] = {
      {R"({"pooling_mode_cls_token": true})", PoolingMode::kCls},
      {R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})",
       PoolingMode::kMean},
      {R"({"pooling_mode_max_tokens": true})", PoolingMode::kMax},
      {R"({"pooling_mode_mean_sqrt_len_tokens": true})", PoolingMode::kMeanSqrtLen},
      {R"({"pooling_mode_weightedmean_tokens": true})", PoolingMode::kWeightedMean},
      {R"({"pooling_mode_lasttoken": true})", PoolingMode::kLastToken},
      {R"({"pooling_mode": "cls", "embedding_dimension": 32})", PoolingMode::kCls},
      {R"({"pooling_mode": ["lasttoken"]})", PoolingMode::kLastToken},
      {R"({"pooling_mode": "mean_sqrt_len_tokens"})", PoolingMode::kMeanSqrtLen},
  };
  for (const auto& [json, mode] : modes) {
    Write("1_Pooling/config.json", json);
    EXPECT_EQ(Read().pooling, mode) << json;
  }
  Write("1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})");
  EXPECT_FALSE(Read().include_prompt);
  Write("1_Pooling/config.json",
        R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})");
  EXPECT_EQ(Read().pooling, PoolingMode::kCls);
  EXPECT_EQ(Read().more_pooling, std::vector{PoolingMode::kMean});
  Write("1_Pooling/config.json", R"({"pooling_mode": ["mean", "max"]})");
  EXPECT_EQ(Read().pooling, PoolingMode::kMean);
  EXPECT_EQ(Read().more_pooling, std::vector{PoolingMode::kMax});
  Write("1_Pooling/config.json", R"({"pooling_mode": "attention"})");
  ExpectFailure(StatusCode::kUnsupported, "attention");
  Write("1_Pooling/config.json", R"({"pooling_mode_new_thing": true})");
  ExpectFailure(StatusCode::kUnsupported, "pooling_mode_new_thing");
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": false})");
  ExpectFailure(StatusCode::kInvalidArgument, "names no pooling mode");
  Write("1_Pooling/config.json", R"({"pooling_mode": "mean", "embedding_dimension": 31})");
  ExpectFailure(StatusCode::kInvalidArgument, "embedding_dimension");
}

TEST_F(ModelFolderTest, ModulesOutOfOrderOrUnknownAreRefused) {
  Write("1_Pooling/config.json", kMean);
  WriteModules({"Transformer", "Pooling", "LayerNorm"});
  ExpectFailure(StatusCode::kUnsupported, "sentence_transformers.models.LayerNorm");
  WriteModules({"Transformer", "Pooling", "Normalize", "Dense"});
  ExpectFailure(StatusCode::kUnsupported, "Dense at this place");
  WriteModules({"Transformer", "Normalize"});
  ExpectFailure(StatusCode::kUnsupported, "Normalize at this place");
  WriteModules({"Pooling"});
  ExpectFailure(StatusCode::kUnsupported, "must be a Transformer");
  Write("modules.json", R"([{"type": "custom_st.Transformer", "path": ""}])");
  ExpectFailure(StatusCode::kUnsupported, "custom_st.Transformer");
  Write("modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},)"
                        R"( {"type": "sentence_transformers.models.Pooling", "path": "../x"}])");
  ExpectFailure(StatusCode::kInvalidArgument, "must stay inside");
  Write("modules.json", R"([{"type": "sentence_transformers.models.Transformer",)"
                        R"( "path": "0_Transformer"}])");
  ExpectFailure(StatusCode::kUnsupported, "0_Transformer");
  Write("modules.json", "{}");
  ExpectFailure(StatusCode::kInvalidArgument, "must be an array");
}

TEST_F(ModelFolderTest, TokensAreLimitedByTheFirstThatSpeaks) {
  Write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(Read().max_tokens, 512);
  Write("tokenizer_config.json", R"({"model_max_length": 128})");
  EXPECT_EQ(Read().max_tokens, 128);
  Write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": true})");
  EXPECT_EQ(Read().max_tokens, 256);
  EXPECT_TRUE(Read().do_lower_case);
  Write("sentence_bert_config.json", R"({"max_seq_length": 4096})");
  EXPECT_EQ(Read().max_tokens, 512);
  Write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(Read().max_tokens, 128);
  Write("sentence_bert_config.json",
        R"({"transformer_task": "feature-extraction", "processing_kwargs": {"text":)"
        R"( {"max_length": 64, "truncation": true}}})");
  EXPECT_EQ(Read().max_tokens, 64);
  Write("sentence_bert_config.json",
        R"({"processing_kwargs": {"text": {"add_special_tokens": false}}})");
  ExpectFailure(StatusCode::kUnsupported, "processing_kwargs.text.add_special_tokens");
  Write("sentence_bert_config.json", R"({"query_length": 32})");
  ExpectFailure(StatusCode::kUnsupported, "query_length");
  Write("sentence_bert_config.json", R"({"modality_config": {"text": {"method": "forward",)"
                                     R"( "method_output_name": "pooler_output"}}})");
  ExpectFailure(StatusCode::kUnsupported, "pooler_output");
}

TEST_F(ModelFolderTest, PromptsAndSimilarity) {
  Write("config_sentence_transformers.json",
        R"({"prompts": {"query": "query: ", "passage": null}, "default_prompt_name": "query",)"
        R"( "similarity_fn_name": "dot"})");
  const auto folder = Read();
  EXPECT_EQ(folder.prompts.at("query"), "query: ");
  EXPECT_EQ(folder.prompts.at("passage"), "");
  EXPECT_EQ(folder.default_prompt_name, "query");
  EXPECT_EQ(folder.similarity, "dot");
  Write("config_sentence_transformers.json", R"({"default_prompt_name": "other"})");
  ExpectFailure(StatusCode::kInvalidArgument, "default_prompt_name");
  Write("config_sentence_transformers.json", R"({"similarity_fn_name": "chebyshev"})");
  ExpectFailure(StatusCode::kUnsupported, "chebyshev");
  Write("config_sentence_transformers.json", R"({"model_type": "SparseEncoder"})");
  ExpectFailure(StatusCode::kUnsupported, "SparseEncoder");
}

TEST_F(ModelFolderTest, ClassifiersAndCrossEncoders) {
  const auto config = [&](const char* more) {
    Write("config.json", std::string(R"({"model_type": "bert", "architectures":)") +
                             R"( ["BertForSequenceClassification"], "hidden_size": 32,)" +
                             R"( "num_attention_heads": 4)" + more + "}");
  };
  config(R"(, "num_labels": 1)");
  EXPECT_EQ(Read().task, ModelTask::kReranking);
  config(R"(, "num_labels": 3)");
  EXPECT_EQ(Read().task, ModelTask::kClassification);
  Write("config_sentence_transformers.json",
        R"({"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"})");
  Write("modules.json",
        R"([{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}])");
  EXPECT_EQ(Read().task, ModelTask::kClassification);
  EXPECT_EQ(Read().encoder.cross_encoder_activation, "identity");
  fs::remove(folder_ / "config_sentence_transformers.json");
  WriteModules({"Transformer", "Pooling"});
  Write("1_Pooling/config.json", kMean);
  EXPECT_EQ(Read().task, ModelTask::kEmbedding);
  EXPECT_EQ(Read().encoder.num_labels, 0);
}

TEST_F(ModelFolderTest, MissingFilesAreNamed) {
  EXPECT_EQ(ModelFolder::Read((folder_ / "nowhere").string()).status().code(),
            StatusCode::kNotFound);
  fs::remove(folder_ / "tokenizer.json");
  ExpectFailure(StatusCode::kNotFound, "no tokenizer.json");
  Write("vocab.txt", "a");
  ExpectFailure(StatusCode::kUnsupported, "save_pretrained");
  fs::remove(folder_ / "config.json");
  ExpectFailure(StatusCode::kNotFound, "config.json");
  Write("config.json", "{");
  ExpectFailure(StatusCode::kInvalidArgument, "not valid JSON");
  Write("config.json",
        R"({"model_type": "bert", "architectures": ["BertForTokenClassification"]})");
  Write("tokenizer.json", "{}");
  ExpectFailure(StatusCode::kUnsupported, "BertForTokenClassification");
}

// ---- Against the golden models

TEST(ModelFolderGolden, EveryModelReadsAsItsExpectationsSay) {
  int models = 0;
  for (const auto& entry : fs::directory_iterator(PENSTOCK_GOLDEN_DIR "/models")) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const auto expected =
        JsonDocument::ParseFile((entry.path() / "expected.json").string(), 64 << 20);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    const auto object = *expected->Object();
    const auto folder = ModelFolder::Read(entry.path().string());
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    ++models;
    const std::string task = *object.GetString("task");
    EXPECT_EQ(folder->task == ModelTask::kEmbedding, task == "embed");
    EXPECT_EQ(PositionsUsable(folder->encoder), *object.GetInt("max_tokens", 1, 1 << 20));
    if (task == "embed") {
      EXPECT_TRUE(folder->pooling_declared);
      EXPECT_EQ(folder->normalize, *object.GetBool("normalized"));
      const int64_t dimension = folder->dense.empty()
                                    ? folder->encoder.hidden_size *
                                          (1 + static_cast<int64_t>(folder->more_pooling.size()))
                                    : folder->dense.back().out_features;
      EXPECT_EQ(dimension, *object.GetInt("dimension", 1, 1 << 20));
    }
  }
  EXPECT_GT(models, 5);
}

TEST(ModelFolderGolden, ConfigsOfOthers) {
  const char* data = std::getenv("PENSTOCK_TESTDATA");
  const fs::path root = data != nullptr ? data : PENSTOCK_SOURCE_DIR "/../shared/testdata";
  if (!fs::exists(root)) GTEST_SKIP() << "no test data at " << root;
  const fs::path fixtures = root / "joaopauloschuler__neural-api" / "fixtures";
  int known = 0;
  for (const auto& entry : fs::directory_iterator(fixtures)) {
    if (!entry.path().string().ends_with("_config.json")) continue;
    const auto document = JsonDocument::ParseFile(entry.path().string(), 1 << 20);
    ASSERT_TRUE(document.ok()) << document.status().ToString();
    const auto config = ReadEncoderConfig(*document->Object());
    if (config.ok()) {
      ++known;
    } else if (config.status().field() != "model_type") {
      ADD_FAILURE() << entry.path() << ": " << config.status().ToString();
    }
  }
  EXPECT_GE(known, 10);
  const auto modern = JsonDocument::ParseFile(
      (root / "hardik-vala__modernbert.c" / "model_config.json").string(), 1 << 20);
  ASSERT_TRUE(modern.ok());
  EXPECT_EQ(ReadEncoderConfig(*modern->Object())->classifier_pooling, "mean");
  for (const char* name : {"tiny_bert", "tiny_nomic"}) {
    const auto folder = ModelFolder::Read((root / "getcoldfire__inference-server" / name).string());
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    EXPECT_EQ(folder->pooling, PoolingMode::kMean);
  }
}

}  // namespace
}  // namespace penstock::families
