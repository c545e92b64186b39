// The schemas of Ollama's routes, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiOllamaSchemas = R"json({
  "OllamaError": {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"]
  },
  "OllamaEmbedRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string", "description": "Name or alias of a model; \":latest\" behind it is passed over"},
      "input": {
        "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Without them the model is only loaded"
      },
      "truncate": {"type": "boolean", "default": true},
      "dimensions": {"type": ["integer", "null"], "minimum": 1},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"},
      "options": {"type": ["object", "null"]}
    },
    "required": ["model"]
  },
  "OllamaEmbeddings": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "embeddings": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
      "total_duration": {"type": "integer", "description": "Nanoseconds"},
      "prompt_eval_count": {"type": "integer"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["model", "embeddings", "total_duration", "prompt_eval_count", "truncated"]
  },
  "OllamaEmbeddingRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "prompt": {"type": "string"},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"},
      "options": {"type": ["object", "null"]}
    },
    "required": ["model"]
  },
  "OllamaEmbedding": {
    "type": "object",
    "properties": {"embedding": {"type": "array", "items": {"type": "number"}}},
    "required": ["embedding"]
  },
  "OllamaTextRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "stream": {"type": "boolean", "default": true},
      "think": {"type": ["boolean", "string", "null"]},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"},
      "logprobs": {"type": "boolean"},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
      "options": {
        "type": ["object", "null"],
        "description": "mirostat, typical_p and tfs_z are refused; names that are not options are listed in X-Penstock-Ignored-Options",
        "properties": {
          "temperature": {"type": "number", "minimum": 0, "maximum": 2},
          "top_p": {"type": "number", "minimum": 0, "maximum": 1},
          "top_k": {"type": "integer", "minimum": -1},
          "min_p": {"type": "number", "minimum": 0, "maximum": 1},
          "repeat_penalty": {"type": "number", "minimum": 0.01, "maximum": 100},
          "repeat_last_n": {"type": "integer", "minimum": -1},
          "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
          "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
          "seed": {"type": "integer"},
          "stop": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
          "num_predict": {"type": "integer", "description": "0 and below: no limit"}
        }
      }
    },
    "required": ["model"]
  },
  "OllamaGenerateRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/OllamaTextRequest"},
      {
        "type": "object",
        "properties": {
          "prompt": {"type": "string", "description": "Without it the model is only loaded, or with keep_alive 0 unloaded"},
          "system": {"type": "string"},
          "raw": {"type": "boolean", "description": "The prompt is taken without a chat template"}
        }
      }
    ]
  },
  "OllamaChatRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/OllamaTextRequest"},
      {
        "type": "object",
        "properties": {
          "messages": {
            "type": "array",
            "maxItems": 4096,
            "items": {
              "type": "object",
              "properties": {
                "role": {"type": "string"},
                "content": {"type": "string"},
                "thinking": {"type": "string"},
                "tool_name": {"type": "string"},
                "tool_calls": {"type": "array", "items": {"type": "object"}}
              },
              "required": ["role"]
            }
          },
          "tools": {"type": ["array", "null"], "maxItems": 256, "items": {"type": "object"}}
        }
      }
    ]
  },
  "OllamaText": {
    "type": "object",
    "description": "The whole, or a line of it; durations are in nanoseconds",
    "properties": {
      "model": {"type": "string"},
      "created_at": {"type": "string"},
      "response": {"type": "string", "description": "/api/generate"},
      "thinking": {"type": "string", "description": "/api/generate"},
      "message": {
        "type": "object",
        "description": "/api/chat",
        "properties": {
          "role": {"type": "string"},
          "content": {"type": "string"},
          "thinking": {"type": "string"},
          "tool_calls": {
            "type": "array",
            "items": {
              "type": "object",
              "properties": {
                "id": {"type": "string"},
                "function": {
                  "type": "object",
                  "properties": {
                    "name": {"type": "string"},
                    "arguments": {"type": "object", "additionalProperties": true}
                  },
                  "required": ["name", "arguments"]
                }
              },
              "required": ["id", "function"]
            }
          }
        },
        "required": ["role", "content"]
      },
      "logprobs": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}},
      "done": {"type": "boolean"},
      "done_reason": {"type": "string", "enum": ["stop", "length", "load", "unload"]},
      "total_duration": {"type": "integer"},
      "load_duration": {"type": "integer", "description": "Until the model was there and the prompt read"},
      "prompt_eval_count": {"type": "integer"},
      "prompt_eval_duration": {"type": "integer"},
      "eval_count": {"type": "integer"},
      "eval_duration": {"type": "integer"}
    },
    "required": ["model", "created_at", "done"]
  },
  "OllamaDetails": {
    "type": "object",
    "properties": {
      "parent_model": {"type": "string"},
      "format": {"type": "string"},
      "family": {"type": "string"},
      "families": {"type": "array", "items": {"type": "string"}},
      "parameter_size": {"type": "string"},
      "quantization_level": {"type": "string"}
    },
    "required": ["parent_model", "format", "family", "families", "parameter_size", "quantization_level"]
  },
  "OllamaModels": {
    "type": "object",
    "properties": {
      "models": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string"},
            "model": {"type": "string"},
            "size": {"type": "integer", "description": "Bytes of weights; 0 while it is not loaded"},
            "digest": {"type": "string", "description": "Digest of the name and the revision, not of the files"},
            "details": {"$ref": "#/components/schemas/OllamaDetails"},
            "modified_at": {"type": "string"}
          },
          "required": ["name", "model", "size", "digest", "details", "modified_at"]
        }
      }
    },
    "required": ["models"]
  },
  "OllamaModel": {
    "type": "object",
    "properties": {
      "license": {"type": "string"},
      "modelfile": {"type": "string"},
      "parameters": {"type": "string"},
      "template": {"type": "string", "description": "The chat template, in Jinja"},
      "details": {"$ref": "#/components/schemas/OllamaDetails"},
      "model_info": {"type": "object"},
      "capabilities": {"type": "array", "items": {"type": "string"}},
      "modified_at": {"type": "string"}
    },
    "required": ["template", "details", "model_info", "capabilities", "modified_at"]
  },
  "OllamaVersion": {
    "type": "object",
    "properties": {
      "version": {"type": "string", "description": "The version of Ollama's API whose routes these are"},
      "penstock": {"type": "string", "description": "The version of Penstock"}
    },
    "required": ["version", "penstock"]
  },
  "OllamaPullRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string", "description": "owner/name, owner/name:QUANT or owner/name/file.gguf; hf.co/ may stand before it"},
      "stream": {"type": "boolean", "default": true}
    },
    "required": ["model"]
  },
  "OllamaPulled": {
    "type": "object",
    "description": "The whole answer, or one line of it",
    "properties": {
      "status": {"type": "string"},
      "digest": {"type": "string", "description": "Digest of the file's name"},
      "total": {"type": "integer", "description": "Bytes of the file"},
      "completed": {"type": "integer"}
    },
    "required": ["status"]
  },
  "LoadedModels": {
    "type": "object",
    "properties": {
      "models": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string"},
            "model": {"type": "string"},
            "size": {"type": "integer"},
            "digest": {"type": "string"},
            "size_vram": {"type": "integer"},
            "details": {"$ref": "#/components/schemas/OllamaDetails"},
            "expires_at": {"type": "string"},
            "context_length": {"type": "integer"},
            "lifecycle": {"$ref": "#/components/schemas/Lifecycle"}
          },
          "required": ["name", "model", "size", "digest", "size_vram", "details", "expires_at", "lifecycle"]
        }
      }
    },
    "required": ["models"]
  }
})json";

}  // namespace penstock
