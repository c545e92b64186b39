// The schemas of embeddings and ranking in the dialects of OpenAI, Jina, Voyage and Cohere, and of
// Cohere's chat, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiEmbedSchemas = R"json({
  "EmbeddingsRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "input": {
            "oneOf": [
              {"type": "string"},
              {
                "type": "array",
                "items": {
                  "oneOf": [
                    {"type": "string"},
                    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
                  ]
                }
              },
              {"type": "array", "items": {"type": "integer"}},
              {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
            ],
            "description": "A text, texts, token ids, or lists of those"
          },
          "encoding_format": {"type": ["string", "null"], "enum": ["float", "base64", null]},
          "dimensions": {"type": ["integer", "null"], "minimum": 1},
          "normalize": {"type": ["boolean", "null"]},
          "quantize_range": {"$ref": "#/components/schemas/QuantizeRange"},
          "embedding_type": {
            "type": "string",
            "enum": ["float", "base64", "int8", "uint8", "binary", "ubinary"],
            "description": "Jina's"
          },
          "task": {"type": "string", "description": "Jina's: retrieval.query, retrieval.passage, ..."},
          "normalized": {"type": "boolean", "description": "Jina's name of normalize"},
          "output_dtype": {
            "type": ["string", "null"],
            "enum": ["float", "int8", "uint8", "binary", "ubinary", null],
            "description": "Voyage's"
          },
          "output_dimension": {"type": ["integer", "null"], "minimum": 1, "description": "Voyage's"},
          "truncation": {"type": "boolean", "description": "Voyage's name of truncate"}
        },
        "required": ["input"]
      }
    ]
  },
  "Embeddings": {
    "type": "object",
    "properties": {
      "object": {"type": "string"},
      "data": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "object": {"type": "string"},
            "index": {"type": "integer"},
            "embedding": {
              "oneOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}],
              "description": "Numbers, or base64 of little-endian float32 or of bytes"
            }
          },
          "required": ["object", "index", "embedding"]
        }
      },
      "model": {"type": "string"},
      "usage": {"$ref": "#/components/schemas/Usage"},
      "quantization": {"$ref": "#/components/schemas/Quantization"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["object", "data", "model", "usage", "truncated"]
  },
  "EmbeddingLine": {
    "description": "A line: an embedding; or the last one, which has the usage, or the error that ended the answer",
    "oneOf": [
      {
        "type": "object",
        "properties": {
          "index": {"type": "integer"},
          "embedding": {
            "oneOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}],
            "description": "Numbers, or base64 of little-endian float32 or of bytes"
          }
        },
        "required": ["index", "embedding"]
      },
      {
        "type": "object",
        "properties": {
          "model": {"type": "string"},
          "usage": {"$ref": "#/components/schemas/Usage"},
          "quantization": {"$ref": "#/components/schemas/Quantization"},
          "truncated": {"$ref": "#/components/schemas/Truncated"}
        },
        "required": ["model", "usage", "truncated"]
      },
      {"$ref": "#/components/schemas/OpenAiError"},
      {"$ref": "#/components/schemas/TeiError"}
    ]
  },
  "RerankRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "query": {
            "oneOf": [
              {"type": "string"},
              {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            ]
          },
          "documents": {
            "type": "array",
            "items": {
              "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
              ]
            }
          },
          "top_n": {"type": ["integer", "null"], "minimum": 1},
          "top_k": {"type": ["integer", "null"], "minimum": 1, "description": "Voyage's name of top_n"},
          "truncation": {"type": "boolean", "description": "Voyage's name of truncate"},
          "return_documents": {"type": "boolean"},
          "raw_scores": {"type": "boolean"}
        },
        "required": ["query", "documents"]
      }
    ]
  },
  "Ranking": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "model": {"type": "string"},
      "results": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "index": {"type": "integer"},
            "relevance_score": {"type": "number"},
            "document": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
          },
          "required": ["index", "relevance_score"]
        },
        "description": "Best first"
      },
      "data": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "index": {"type": "integer"},
            "relevance_score": {"type": "number"},
            "document": {"type": "string"}
          },
          "required": ["index", "relevance_score"]
        },
        "description": "In place of results, where the request has top_k or truncation, as Voyage's"
      },
      "usage": {"$ref": "#/components/schemas/Usage"},
      "meta": {
        "type": "object",
        "properties": {
          "api_version": {"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]},
          "billed_units": {
            "type": "object",
            "properties": {"search_units": {"type": "integer"}},
            "required": ["search_units"]
          },
          "tokens": {
            "type": "object",
            "properties": {"input_tokens": {"type": "integer"}},
            "required": ["input_tokens"]
          }
        },
        "required": ["api_version", "billed_units", "tokens"]
      },
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["id", "object", "model", "usage", "meta", "truncated"]
  },
  "OpenAiError": {
    "type": "object",
    "properties": {
      "error": {
        "type": "object",
        "properties": {
          "message": {"type": "string"},
          "type": {"type": "string"},
          "param": {"type": ["string", "null"]},
          "code": {"type": ["string", "null"]}
        },
        "required": ["message", "type", "param", "code"]
      },
      "detail": {"type": "string", "description": "The message again, as Voyage's client reads it"}
    },
    "required": ["error", "detail"]
  },
  "RerankError": {
    "type": "object",
    "properties": {
      "message": {"type": "string"},
      "detail": {"type": "string"},
      "field": {"type": "string"},
      "code": {"type": ["string", "null"]},
      "id": {"type": "string"}
    },
    "required": ["message", "detail", "code", "id"]
  },
  "QuantizeRange": {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": 1000000,
    "default": 1,
    "description": "int8 and uint8 stand for numbers from -r to r"
  },
  "Quantization": {
    "type": "object",
    "description": "For int8 and uint8: the numbers that their ends stand for, and how many numbers were outside",
    "properties": {
      "type": {"type": "string", "enum": ["int8", "uint8"]},
      "min": {"type": "number"},
      "max": {"type": "number"},
      "saturated": {"type": "integer"}
    },
    "required": ["type", "min", "max", "saturated"]
  },
  "CohereEmbedRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "texts": {"type": "array", "items": {"type": "string"}},
      "inputs": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "content": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["text"]}, "text": {"type": "string"}},
                "required": ["type", "text"]
              }
            }
          },
          "required": ["content"]
        }
      },
      "input_type": {"type": "string"},
      "embedding_types": {
        "type": "array",
        "items": {"type": "string", "enum": ["float", "int8", "uint8", "binary", "ubinary", "base64"]}
      },
      "truncate": {"type": "string", "description": "NONE, START or END, the default"},
      "output_dimension": {"type": "integer", "minimum": 1},
      "quantize_range": {"$ref": "#/components/schemas/QuantizeRange"}
    }
  },
  "CohereEmbeddings": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "response_type": {"type": "string", "enum": ["embeddings_by_type", "embeddings_floats"]},
      "embeddings": {
        "oneOf": [
          {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
          {
            "type": "object",
            "properties": {
              "float": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
              "int8": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
              "uint8": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
              "binary": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
              "ubinary": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
              "base64": {"type": "array", "items": {"type": "string"}}
            }
          }
        ]
      },
      "texts": {"type": "array", "items": {"type": "string"}},
      "meta": {
        "type": "object",
        "properties": {
          "api_version": {"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]},
          "billed_units": {
            "type": "object",
            "properties": {"input_tokens": {"type": "integer"}},
            "required": ["input_tokens"]
          }
        },
        "required": ["api_version", "billed_units"]
      },
      "quantization": {"$ref": "#/components/schemas/Quantization"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["id", "response_type", "embeddings", "texts", "meta", "truncated"]
  },
  "CohereChatRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "messages": {"type": "array", "items": {"$ref": "#/components/schemas/ChatMessage"}, "minItems": 1},
      "tools": {"type": "array", "maxItems": 256, "items": {"type": "object"}},
      "stream": {"type": "boolean"},
      "max_tokens": {"type": "integer", "minimum": 1},
      "temperature": {"type": "number", "minimum": 0, "maximum": 2},
      "k": {"type": "integer", "minimum": 0},
      "p": {"type": "number", "minimum": 0, "maximum": 1},
      "seed": {"type": "integer"},
      "stop_sequences": {"type": "array", "items": {"type": "string"}, "maxItems": 32},
      "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
      "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
      "logprobs": {"type": "boolean"},
      "thinking": {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["enabled", "disabled"]}},
        "required": ["type"]
      }
    },
    "required": ["messages"]
  },
  "CohereChat": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "finish_reason": {"type": "string", "enum": ["COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL"]},
      "message": {
        "type": "object",
        "properties": {
          "role": {"type": "string"},
          "tool_plan": {"type": "string"},
          "tool_calls": {
            "type": "array",
            "items": {
              "type": "object",
              "properties": {
                "id": {"type": "string"},
                "type": {"type": "string"},
                "function": {
                  "type": "object",
                  "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}},
                  "required": ["name", "arguments"]
                }
              },
              "required": ["id", "type", "function"]
            }
          },
          "content": {
            "type": "array",
            "items": {
              "type": "object",
              "properties": {
                "type": {"type": "string", "enum": ["text", "thinking"]},
                "text": {"type": "string"},
                "thinking": {"type": "string"}
              },
              "required": ["type"]
            }
          }
        },
        "required": ["role", "content"]
      },
      "logprobs": {"type": "array", "items": {"type": "object"}},
      "usage": {
        "type": "object",
        "properties": {
          "billed_units": {"$ref": "#/components/schemas/CohereTokens"},
          "tokens": {"$ref": "#/components/schemas/CohereTokens"},
          "cached_tokens": {"type": "integer"}
        },
        "required": ["billed_units", "tokens", "cached_tokens"]
      }
    },
    "required": ["id", "finish_reason", "message", "usage"]
  },
  "CohereTokens": {
    "type": "object",
    "properties": {"input_tokens": {"type": "integer"}, "output_tokens": {"type": "integer"}},
    "required": ["input_tokens", "output_tokens"]
  },
  "CohereChatEvent": {
    "type": "object",
    "description": "message-start, content-start, content-delta, content-end, tool-call-start, tool-call-delta, tool-call-end, message-end",
    "properties": {
      "type": {"type": "string"},
      "id": {"type": "string"},
      "index": {"type": "integer"},
      "delta": {"type": "object"},
      "logprobs": {"type": "object"}
    },
    "required": ["type"]
  }
})json";

}  // namespace penstock
