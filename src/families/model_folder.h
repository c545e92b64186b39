// A Hugging Face model folder read into plain values: config.json, tokenizer_config.json,
// special_tokens_map.json, modules.json and the sentence-transformers folders it names. Or the same
// values from the metadata of a GGUF file.
// Unknown or unsupported settings are refused by name (kUnsupported), never guessed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/hidden_activation.h"

namespace penstock::families {

enum class ModelTask { kEmbedding, kReranking, kClassification };
const char* ModelTaskName(ModelTask task);  // "embedding", "reranking", "classification"

enum class PoolingMode { kCls, kMean, kMax, kLastToken, kMeanSqrtLen, kWeightedMean };
const char* PoolingModeName(PoolingMode mode);  // as sentence-transformers: "cls", "lasttoken", ...

// config.json, the fields encoders use; names as in the file. Absent ones keep the default that
// the reference implementation (transformers) gives that architecture; the reader sets those.
struct EncoderConfig {
  std::string model_type;                  // "bert", "roberta", "nomic_bert", "modernbert", ...
  std::vector<std::string> architectures;  // ["BertModel"]
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t intermediate_size = 0;
  int32_t max_position_embeddings = 0;  // rows of the position table, or the rotary limit
  int32_t type_vocab_size = 0;
  int32_t pad_token_id = 0;
  HiddenActivation hidden_act = HiddenActivation::kGelu;
  float layer_norm_eps = 1e-12f;

  // MPNet.
  int32_t relative_attention_num_buckets = 32;
  // NomicBERT and ModernBERT.
  bool qkv_bias = true;
  bool mlp_bias = true;  // both feed-forward projections
  bool norm_bias = true;
  bool attention_out_bias = true;
  float rope_theta = 0;        // 0 = no rotary embedding; ModernBERT: global layers
  float rope_theta_local = 0;  // ModernBERT: local layers
  float rope_fraction = 1.0f;  // share of a head's dimensions that is rotated
  bool rope_interleaved = false;
  int32_t local_attention = 0;  // window in tokens (both sides together); 0 = none
  int32_t global_attn_every_n_layers = 1;

  // Heads.
  int32_t num_labels = 0;           // 0 = no classification head
  std::vector<std::string> labels;  // id2label, by id
  std::string problem_type;         // "", "regression", "single_label_...", ...
  std::string classifier_pooling;   // ModernBERT: "cls" or "mean"
  HiddenActivation classifier_activation = HiddenActivation::kGelu;  // ModernBERT head
  bool classifier_bias = false;                                      // ModernBERT: of head.dense
  // Cross-encoders: sigmoid | identity as the model folder says ("sentence_transformers"
  // .activation_fn or the older sbert_ce_default_activation_function); "" if it says nothing.
  std::string cross_encoder_activation;
};

struct DenseModule {
  std::string folder;  // "2_Dense", holds model.safetensors with linear.weight, linear.bias
  int32_t in_features = 0;
  int32_t out_features = 0;
  bool bias = true;
  HiddenActivation activation = HiddenActivation::kTanh;
};

// The score of a decoder that reranks is the logit of a token less that of another, of the last
// token's row. Each by its id, or by its text where that is not empty.
struct LogitScore {
  int32_t true_id = -1, false_id = -1;  // false_id -1: nothing is taken off
  std::string true_token, false_token;
};

// The text that a decoder that reranks reads:
// before_query + query + before_document + document + after_document.
struct PairTemplate {
  std::string before_query, before_document, after_document;
};

struct ModelFolder {
  static constexpr size_t kConfigBytesMax = 16 << 20;

  // Reads every configuration file in `path`; weights and tokenizer.json are not opened. A GGUF
  // file, or a folder with one and no model.safetensors, is read as gguf_encoder.h says.
  static Expected<ModelFolder> Read(const std::string& path);

  // Reads only the settings that tokenizing needs, of a folder with tokenizer.json or a GGUF file,
  // or of such a file itself; of a folder also prompts, do_lower_case and max_tokens where present.
  // config.json, modules.json and weights need not be there.
  static Expected<ModelFolder> ReadForTokenizer(const std::string& path);

  std::string path;  // the folder, or the GGUF file
  // The model is a decoder (families/decoder_files.h, DecoderUse::kEmbed). Of `encoder` only
  // model_type, architectures, sizes and the head are set.
  bool decoder = false;
  // The encoder is this ONNX file (families/onnx_folder.h); "": its weights are read. Of `encoder`
  // only the architecture's names, sizes and the head are set.
  std::string onnx;
  ModelTask task = ModelTask::kEmbedding;  // from the architecture: ...ForSequenceClassification
                                           // with one label reranks, with more it classifies
  EncoderConfig encoder;

  // Embedding head, in order: pooling, dense modules, normalise.
  PoolingMode pooling = PoolingMode::kMean;
  std::vector<PoolingMode> more_pooling;  // results put side by side after that of `pooling`
  bool pooling_declared =
      false;                   // false: no 1_Pooling; the caller must say which, or it is refused
  bool include_prompt = true;  // pool over the prompt's tokens too
  std::vector<DenseModule> dense;
  bool normalize = false;

  // Decoders.
  std::optional<LogitScore> logit_score;      // else num_labels > 0 says that there is a head
  std::optional<PairTemplate> pair_template;  // of texts in which the model looks for its score
  // The same as a chat template in Jinja, with messages of the roles "query" and "document"; "":
  // none. instruction: the content of a "system" message before them; "": no such message.
  std::string pair_chat_template;
  std::string instruction;
  // A token put after a text unless the tokenizer does; "": none.
  std::string end_token;

  std::map<std::string, std::string> prompts;  // name -> text put before the input
  std::string default_prompt_name;             // "" = none
  std::string similarity = "cosine";           // or "dot", "euclidean", "manhattan"

  // Longest input in tokens, special tokens included: max_seq_length of sentence_bert_config or,
  // where it has none, model_max_length of tokenizer_config (sentence-transformers lets the first
  // override the second); never more than the position table or the rotary limit.
  int32_t max_tokens = 0;
  bool do_lower_case = false;  // sentence_bert_config: lower-case before the tokenizer
  std::string tokenizer_path;  // tokenizer.json, or the GGUF file
};

}  // namespace penstock::families
