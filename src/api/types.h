// Requests and responses of every behaviour, as native types, for dialects/, grpc/ and the
// command line. No wire format in here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "encode/encode_types.h"
#include "signature/tensor_runner.h"
#include "text/tokenizer.h"
#include "threads/request_context.h"

namespace penstock::api {

// One input: a text, or token ids that are taken as they are (special tokens included).
struct Input {
  std::string text;
  std::vector<int32_t> ids;
  bool is_ids = false;
  bool single = false;  // not in an array of inputs: errors call it "inputs", not "inputs[0]"
};

enum class InputType { kUnset, kQuery, kDocument };

// How a text is prepared.
struct TextOptions {
  // An input over the model's limit: nullopt = the server's default (--auto-truncate), true = cut
  // it and report, false = refuse it with the limit.
  std::optional<bool> truncate;
  text::TruncationSide side = text::TruncationSide::kRight;
  // Put before the text. `prompt` is literal; `prompt_name` is looked up in the model's prompts;
  // input_type picks the model's "query" or "document"/"passage" prompt if it has one.
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  InputType input_type = InputType::kUnset;
  // As RequestContext::keep_alive, which it overrides.
  std::optional<std::chrono::milliseconds> keep_alive;
  std::string cache_salt;  // parts what is cached for its client further; "": it does not
};

struct EmbedRequest {
  std::string model;  // "" = the default
  std::vector<Input> inputs;
  TextOptions text;
  std::optional<int32_t> dimensions;  // Matryoshka
  std::optional<bool> normalize;      // nullopt = as the model folder says
  bool add_special_tokens = true;
  // Bytes that the answer prints for each number, in all forms together; at least those of a float
  // in JSON are counted.
  int64_t printed_value_bytes = 0;
};

// `model` of a response: the name that was asked for, else that of the model.
struct EmbedResponse {
  std::string model;
  int32_t dimensions = 0;
  std::vector<float> values;  // [inputs, dimensions]
  encode::Usage usage;
  encode::Truncation truncation;
};

// Token-level embeddings: the last hidden state of each input.
struct EmbedAllResponse {
  std::string model;
  int32_t dimensions = 0;
  std::vector<int32_t> token_counts;  // [inputs]
  std::vector<float> values;          // [sum of token_counts, dimensions]
  encode::Usage usage;
  encode::Truncation truncation;
};

struct RerankRequest {
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  TextOptions text;
  std::optional<int32_t> top_n;
  // true = logits as they are; false = through a sigmoid; nullopt = as the model folder says,
  // else sigmoid.
  std::optional<bool> raw_scores;
  std::vector<std::string> queries;  // one for each document, in place of `query`; empty: none
};

struct RerankResponse {
  struct Item {
    int32_t index = 0;  // of the document in the request
    float score = 0;
  };
  std::string model;
  std::vector<Item> items;  // best first; ties in the order of the request; top_n at most
  encode::Usage usage;
  encode::Truncation truncation;
};

// One or two texts: a pair is classified together.
struct ClassifyInput {
  std::string first;
  std::optional<std::string> second;
};

struct ClassifyRequest {
  std::string model;
  std::vector<ClassifyInput> inputs;
  TextOptions text;
  bool raw_scores = false;
};

struct ClassifyResponse {
  struct Label {
    int32_t id = 0;
    float score = 0;
  };
  std::string model;
  std::vector<std::string> labels;         // by id
  std::vector<std::vector<Label>> inputs;  // every label of each input, best first
  encode::Usage usage;
  encode::Truncation truncation;
};

struct SimilarityRequest {
  std::string model;
  std::string source;
  std::vector<std::string> sentences;
  TextOptions text;
  std::vector<std::string> sources;  // one for each sentence, in place of `source`; empty: none
};

struct SimilarityResponse {
  std::string model;
  std::vector<float> scores;  // by the model's similarity function, default cosine
  encode::Usage usage;
  encode::Truncation truncation;
};

struct TokenizeRequest {
  std::string model;
  std::vector<std::string> inputs;
  bool add_special_tokens = true;
  std::optional<std::string> prompt_name;
};

struct TokenizeResponse {
  struct Token {
    int32_t id = 0;
    std::string text;  // the piece as it is in the vocabulary
    bool special = false;
    text::TokenOffset offset;  // code points of the (prompted) input
  };
  std::string model;
  std::vector<std::vector<Token>> inputs;
};

struct DecodeRequest {
  std::string model;
  std::vector<std::vector<int32_t>> inputs;
  bool skip_special_tokens = true;
};

struct DecodeResponse {
  std::vector<std::string> texts;
};

struct BulkRunBegun {
  std::string id;
  int64_t idle_s_max = 0;  // after so long without a request the run is forgotten
};

struct BulkRunEnded {
  std::string id;
  int64_t requests = 0;  // that carried the id
  bool released = false;
  std::string reason;           // why, or why not
  uint64_t released_bytes = 0;  // by which the process's resident memory fell
};

// ModelInfo::task of a model that generates text.
inline constexpr const char* kGenerationTask = "generation";
// The same of a model that takes and gives tensors.
inline constexpr const char* kTensorTask = "tensors";

// A served model, for /v1/models, /info, inspect.
struct ModelInfo {
  std::string name;                  // as served
  std::vector<std::string> aliases;  // other names it answers to
  std::string path;                  // folder
  std::string revision;              // commit if known, else ""
  // "embedding", "reranking", "classification", kGenerationTask, kTensorTask
  std::string task;
  std::string architecture;  // model_type
  std::string dtype;         // of the linear layers: "float32", "bfloat16", "int8"
  std::string quantisation;  // of a GGUF file, as its name says: "Q4_K_M"; else ""
  std::string int8_keep;     // parts of an int8 model that stay higher: "0,ff-out"
  std::string pooling;       // embedding models
  std::string similarity;    // of these: "cosine", "dot", "euclidean", "manhattan"
  bool normalizes =
      false;  // of these: whether vectors have length 1 unless a request says otherwise
  std::map<std::string, std::string> prompts;  // of these, by name: what stands before a text
  std::string tokenizer;                       // "WordPiece", ...
  std::string backend;                         // "cpu (avx512, 2 threads)"
  std::vector<std::string> labels;
  int32_t max_tokens = 0;
  int32_t max_batch_tokens = 0;  // given, or measured at load
  int32_t context = 0;           // of generating models: tokens of prompt and text together
  int32_t sequences_max = 0;     // of generating models: texts at once
  bool chat = false;             // it has a chat template
  std::string chat_template;     // its text
  int32_t hidden_size = 0;
  int32_t dimensions = 0;  // of embeddings
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  int64_t created_unix_s = 0;
  // Set for tensor models, once they are loaded.
  std::shared_ptr<const signature::TensorSignature> signature;
  std::string platform;  // "onnxruntime_onnx", "openvino", ...: the backends of Triton
  bool ready = false;
  std::string state;                         // ModelStateName
  std::string error;                         // of a model that failed to load
  int64_t version = 0;                       // of a model that has versions; else 0
  int64_t refused_version = 0;               // highest version refused; 0: none
  std::string refused_error;                 // why
  bool pinned = false;                       // never unloaded by itself
  std::chrono::milliseconds keep_alive{-1};  // negative: for good
  double idle_s = -1;                        // since the last use; negative: it is not loaded
  double unload_in_s = -1;                   // if it is not used before; negative: it is not
  double load_s = 0;                         // how long the last load took
  uint64_t loads = 0;
  uint64_t requests_waiting = 0;  // for it to be loaded
  uint64_t evictions = 0;         // unloads for the memory of others
  int load_percent = -1;          // of the download, then of the weights; negative: not known
  // Memory it may take at most, in bytes; 0 while it is not loaded.
  uint64_t weights_memory = 0;
  uint64_t activations_memory = 0;
  uint64_t cache_memory = 0;
};

// A version as clients of tensor models name it: "1" where the model has none, as Triton's clients
// expect one.
inline std::string ServedVersion(int64_t version) {
  return std::to_string(version > 0 ? version : 1);
}

// Called exactly once, from any thread, maybe before the call that took it returns.
template <typename T>
using Callback = std::function<void(Expected<T>)>;

}  // namespace penstock::api
