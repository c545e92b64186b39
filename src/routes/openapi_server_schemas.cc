// The schemas of what llama.cpp's server and vLLM have beside the routes of others, for
// routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiServerSchemas = R"json({
  "AnyRerankRequest": {
    "anyOf": [{"$ref": "#/components/schemas/TeiRerankRequest"}, {"$ref": "#/components/schemas/RerankRequest"}]
  },
  "AnyRanking": {
    "anyOf": [{"$ref": "#/components/schemas/TeiRanking"}, {"$ref": "#/components/schemas/Ranking"}],
    "description": "The second where the request has documents"
  },
  "AnyTokenizeRequest": {
    "anyOf": [
      {"$ref": "#/components/schemas/TeiTokenizeRequest"},
      {
        "type": "object",
        "description": "As llama.cpp's server has it",
        "properties": {
          "model": {"type": "string"},
          "content": {"type": "string"},
          "add_special": {"type": "boolean", "default": false},
          "parse_special": {"type": "boolean", "const": true}
        },
        "required": ["content"]
      },
      {
        "type": "object",
        "description": "As vLLM has it",
        "properties": {
          "model": {"type": "string"},
          "prompt": {"type": "string"},
          "add_special_tokens": {"type": "boolean", "default": true},
          "return_token_strs": {"type": ["boolean", "null"]}
        },
        "required": ["prompt"]
      }
    ]
  },
  "AnyTokens": {
    "anyOf": [
      {"$ref": "#/components/schemas/TeiTokens"},
      {
        "type": "object",
        "properties": {"tokens": {"type": "array", "items": {"type": "integer"}}},
        "required": ["tokens"]
      },
      {
        "type": "object",
        "properties": {
          "count": {"type": "integer"},
          "max_model_len": {"type": "integer"},
          "tokens": {"type": "array", "items": {"type": "integer"}},
          "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}
        },
        "required": ["count", "max_model_len", "tokens", "token_strs"]
      }
    ]
  },
  "DetokenizeRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "tokens": {"type": "array", "items": {"type": "integer"}}
    },
    "required": ["tokens"]
  },
  "Detokenized": {
    "type": "object",
    "properties": {
      "content": {"type": "string", "description": "llama.cpp's name"},
      "prompt": {"type": "string", "description": "vLLM's name of the same text"}
    },
    "required": ["content", "prompt"]
  },
  "LlamaRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/Sampling"},
      {
        "type": "object",
        "properties": {
          "model": {"type": "string"},
          "prompt": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
          "n_predict": {"type": "integer", "description": "Below 0: no limit but the context; 0: nothing is written"},
          "stream": {"type": "boolean"},
          "repeat_penalty": {"type": "number", "minimum": 0.01, "maximum": 100},
          "repeat_last_n": {"type": "integer", "minimum": -1},
          "n_probs": {"type": "integer", "minimum": 0, "maximum": 20},
          "return_tokens": {"type": "boolean"}
        },
        "required": ["prompt"]
      }
    ]
  },
  "LlamaText": {
    "type": "object",
    "properties": {
      "index": {"type": "integer"},
      "content": {"type": "string"},
      "tokens": {"type": "array", "items": {"type": "integer"}, "description": "With return_tokens"},
      "completion_probabilities": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}},
      "stop": {"type": "boolean"},
      "model": {"type": "string"},
      "prompt": {"type": "string"},
      "tokens_predicted": {"type": "integer"},
      "tokens_evaluated": {"type": "integer"},
      "tokens_cached": {"type": "integer"},
      "has_new_line": {"type": "boolean"},
      "truncated": {"type": "boolean"},
      "stop_type": {"type": "string", "enum": ["eos", "limit", "word"]},
      "stopping_word": {"type": "string"},
      "timings": {
        "type": "object",
        "properties": {
          "cache_n": {"type": "integer"},
          "prompt_n": {"type": "integer"},
          "prompt_ms": {"type": "number"},
          "prompt_per_token_ms": {"type": "number"},
          "prompt_per_second": {"type": "number"},
          "predicted_n": {"type": "integer"},
          "predicted_ms": {"type": "number"},
          "predicted_per_token_ms": {"type": "number"},
          "predicted_per_second": {"type": "number"}
        },
        "required": ["cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_n",
                     "predicted_ms", "predicted_per_token_ms", "predicted_per_second"]
      }
    },
    "required": ["index", "content", "tokens", "stop", "model", "prompt", "tokens_predicted", "tokens_evaluated",
                 "tokens_cached", "has_new_line", "truncated", "stop_type", "stopping_word", "timings"]
  },
  "LlamaEvent": {
    "anyOf": [
      {
        "type": "object",
        "properties": {
          "index": {"type": "integer"},
          "content": {"type": "string"},
          "tokens": {"type": "array", "items": {"type": "integer"}},
          "completion_probabilities": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}},
          "stop": {"type": "boolean", "const": false}
        },
        "required": ["index", "content", "tokens", "stop"]
      },
      {"$ref": "#/components/schemas/LlamaText"}
    ]
  },
  "LlamaProps": {
    "type": "object",
    "properties": {
      "default_generation_settings": {
        "type": "object",
        "properties": {"n_ctx": {"type": "integer", "description": "0 while the model is not loaded"}},
        "required": ["n_ctx"]
      },
      "total_slots": {"type": "integer"},
      "model_alias": {"type": "string"},
      "model_path": {"type": "string", "description": "The name: no path of the server is told"},
      "modalities": {
        "type": "object",
        "properties": {"vision": {"type": "boolean"}, "audio": {"type": "boolean"}},
        "required": ["vision", "audio"]
      },
      "chat_template": {"type": "string"},
      "build_info": {"type": "string"}
    },
    "required": ["default_generation_settings", "total_slots", "model_alias", "model_path", "modalities",
                 "chat_template", "build_info"]
  },
  "LlamaSlots": {
    "type": "array",
    "items": {
      "type": "object",
      "properties": {
        "id": {"type": "integer"},
        "n_ctx": {"type": "integer"},
        "speculative": {"type": "boolean"},
        "is_processing": {"type": "boolean"}
      },
      "required": ["id", "n_ctx", "speculative", "is_processing"]
    }
  },
  "ScoreRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "description": "One text for all of text_2, or one for each. Also as queries and documents, and as data_1 and data_2",
        "properties": {
          "text_1": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
          "text_2": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        }
      }
    ]
  },
  "VllmUsage": {
    "type": "object",
    "properties": {
      "prompt_tokens": {"type": "integer"},
      "total_tokens": {"type": "integer"},
      "completion_tokens": {"type": "integer"},
      "prompt_tokens_details": {"type": "null"}
    },
    "required": ["prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details"]
  },
  "Scores": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "data": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {"index": {"type": "integer"}, "object": {"type": "string"}, "score": {"type": "number"}},
          "required": ["index", "object", "score"]
        }
      },
      "usage": {"$ref": "#/components/schemas/VllmUsage"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["id", "object", "created", "model", "data", "usage", "truncated"]
  },
  "PoolingRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "input": {
            "oneOf": [
              {"type": "string"},
              {"type": "array", "items": {"type": "string"}},
              {"type": "array", "items": {"type": "integer"}},
              {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
            ]
          },
          "task": {
            "enum": ["embed", "token_embed", "classify", null],
            "description": "Default: embed, or classify of a model that classifies or reranks"
          },
          "encoding_format": {"enum": ["float", "base64", null], "description": "base64: of embed alone"},
          "dimensions": {"type": ["integer", "null"], "minimum": 1},
          "normalize": {"type": ["boolean", "null"]}
        },
        "required": ["input"]
      }
    ]
  },
  "Pooled": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "data": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "index": {"type": "integer"},
            "object": {"type": "string"},
            "data": {
              "anyOf": [
                {"type": "array", "items": {"type": "number"}},
                {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                {"type": "string", "description": "base64 of little-endian float32"}
              ]
            }
          },
          "required": ["index", "object", "data"]
        }
      },
      "usage": {"$ref": "#/components/schemas/VllmUsage"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["id", "object", "created", "model", "data", "usage", "truncated"]
  },
  "Version": {
    "type": "object",
    "properties": {"version": {"type": "string"}},
    "required": ["version"]
  }
})json";

}  // namespace penstock
