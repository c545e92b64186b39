// The schemas of requests and answers of generated text, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiTextSchemas = R"json({
  "Sampling": {
    "type": "object",
    "properties": {
      "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
      "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
      "top_k": {"type": ["integer", "null"], "minimum": -1, "description": "0 or -1: off"},
      "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
      "repetition_penalty": {"type": ["number", "null"], "minimum": 0.01, "maximum": 100},
      "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
      "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
      "seed": {"type": ["integer", "null"]},
      "stop": {
        "oneOf": [
          {"type": "string"},
          {"type": "array", "items": {"type": "string"}, "maxItems": 32},
          {"type": "null"}
        ]
      },
      "include_stop_str_in_output": {"type": "boolean"},
      "stop_token_ids": {"type": ["array", "null"], "items": {"type": "integer"}, "maxItems": 64},
      "ignore_eos": {"type": "boolean"},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"},
      "cache_salt": {"$ref": "#/components/schemas/CacheSalt"},
      "min_tokens": {"type": "integer", "minimum": 0},
      "logit_bias": {
        "type": ["object", "null"],
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
        "description": "Keys are token ids"
      }
    }
  },
  "TextRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/Sampling"},
      {
        "type": "object",
        "properties": {
          "model": {
            "type": "string",
            "description": "Name or alias of a model; default: the first that generates text"
          },
          "stream": {"type": ["boolean", "null"]},
          "stream_options": {
            "type": ["object", "null"],
            "properties": {"include_usage": {"type": "boolean"}}
          },
          "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 16},
          "max_tokens": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "0: completions with echo, the prompt alone"
          },
          "max_completion_tokens": {"type": ["integer", "null"], "minimum": 0}
        }
      }
    ]
  },
  "ChatMessage": {
    "type": "object",
    "properties": {
      "role": {"type": "string"},
      "content": {
        "oneOf": [
          {"type": "string"},
          {"type": "null"},
          {
            "type": "array",
            "items": {
              "oneOf": [
                {"type": "string"},
                {
                  "type": "object",
                  "properties": {"type": {"type": "string"}, "text": {"type": "string"}},
                  "required": ["type"]
                }
              ]
            }
          }
        ]
      },
      "reasoning_content": {"type": ["string", "null"]},
      "reasoning": {"type": ["string", "null"]},
      "tool_calls": {"type": ["array", "null"], "items": {"type": "object"}},
      "tool_call_id": {"type": "string"}
    },
    "required": ["role"]
  },
  "ChatPrompt": {
    "type": "object",
    "properties": {
      "messages": {
        "type": "array",
        "items": {"$ref": "#/components/schemas/ChatMessage"},
        "minItems": 1,
        "maxItems": 4096
      },
      "tools": {
        "type": ["array", "null"],
        "maxItems": 256,
        "items": {
          "type": "object",
          "properties": {
            "type": {"type": "string", "enum": ["function"]},
            "function": {
              "type": "object",
              "properties": {
                "name": {"type": "string"},
                "description": {"type": "string"},
                "parameters": {"type": "object"}
              },
              "required": ["name"]
            }
          },
          "required": ["type", "function"]
        }
      },
      "chat_template_kwargs": {
        "type": ["object", "null"],
        "description": "More variables for the template"
      },
      "reasoning_effort": {"type": ["string", "null"]},
      "add_generation_prompt": {"type": "boolean"},
      "continue_final_message": {"type": "boolean"}
    },
    "required": ["messages"]
  },
  "ChatRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextRequest"},
      {"$ref": "#/components/schemas/ChatPrompt"},
      {
        "type": "object",
        "properties": {
          "logprobs": {"type": ["boolean", "null"]},
          "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
          "tool_choice": {"type": ["string", "null"], "enum": ["none", "auto", null]},
          "parallel_tool_calls": {"type": ["boolean", "null"]},
          "response_format": {
            "type": ["object", "null"],
            "properties": {"type": {"type": "string", "enum": ["text"]}}
          }
        }
      }
    ]
  },
  "TextUsage": {
    "type": "object",
    "properties": {
      "prompt_tokens": {"type": "integer"},
      "completion_tokens": {"type": "integer"},
      "total_tokens": {"type": "integer"},
      "prompt_tokens_details": {
        "type": "object",
        "properties": {
          "cached_tokens": {"type": "integer", "description": "That were not computed again"}
        },
        "required": ["cached_tokens"]
      }
    },
    "required": ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"]
  },
  "TokenLogprob": {
    "type": "object",
    "properties": {
      "token": {"type": "string"},
      "logprob": {"type": "number"},
      "bytes": {"type": "array", "items": {"type": "integer"}},
      "top_logprobs": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "token": {"type": "string"},
            "logprob": {"type": "number"},
            "bytes": {"type": "array", "items": {"type": "integer"}}
          },
          "required": ["token", "logprob", "bytes"]
        }
      }
    },
    "required": ["token", "logprob", "bytes", "top_logprobs"]
  },
  "ChatLogprobs": {
    "type": ["object", "null"],
    "properties": {
      "content": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}},
      "refusal": {"type": "null"}
    },
    "required": ["content", "refusal"]
  },
  "ToolCall": {
    "type": "object",
    "properties": {
      "index": {"type": "integer", "description": "In events alone"},
      "id": {"type": "string"},
      "type": {"type": "string"},
      "function": {
        "type": "object",
        "properties": {
          "name": {"type": "string"},
          "arguments": {"type": "string", "description": "JSON, as the model wrote it"}
        },
        "required": ["arguments"]
      }
    },
    "required": ["function"]
  },
  "ChatCompletion": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "system_fingerprint": {"type": "string"},
      "choices": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "index": {"type": "integer"},
            "message": {
              "type": "object",
              "properties": {
                "role": {"type": "string"},
                "content": {"type": ["string", "null"]},
                "refusal": {"type": "null"},
                "reasoning_content": {"type": "string"},
                "reasoning": {"type": "string"},
                "tool_calls": {"type": "array", "items": {"$ref": "#/components/schemas/ToolCall"}}
              },
              "required": ["role", "content", "refusal"]
            },
            "logprobs": {"$ref": "#/components/schemas/ChatLogprobs"},
            "finish_reason": {"type": "string", "enum": ["stop", "length", "tool_calls"]}
          },
          "required": ["index", "message", "logprobs", "finish_reason"]
        }
      },
      "usage": {"$ref": "#/components/schemas/TextUsage"}
    },
    "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
  },
  "ChatChunk": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "system_fingerprint": {"type": "string"},
      "choices": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "index": {"type": "integer"},
            "delta": {
              "type": "object",
              "properties": {
                "role": {"type": "string"},
                "content": {"type": "string"},
                "reasoning_content": {"type": "string"},
                "reasoning": {"type": "string"},
                "tool_calls": {"type": "array", "items": {"$ref": "#/components/schemas/ToolCall"}}
              }
            },
            "logprobs": {"$ref": "#/components/schemas/ChatLogprobs"},
            "finish_reason": {"type": ["string", "null"]}
          },
          "required": ["index", "delta", "logprobs", "finish_reason"]
        }
      },
      "usage": {"oneOf": [{"$ref": "#/components/schemas/TextUsage"}, {"type": "null"}]}
    },
    "required": ["id", "object", "created", "model", "system_fingerprint", "choices"],
    "description": "An event; the last one is the text [DONE], or an error"
  },
  "CompletionRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextRequest"},
      {
        "type": "object",
        "properties": {
          "prompt": {
            "oneOf": [
              {"type": "string"},
              {"type": "array", "items": {"type": "string"}},
              {"type": "array", "items": {"type": "integer"}},
              {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
            ],
            "description": "A text, texts, token ids, or lists of those"
          },
          "echo": {"type": ["boolean", "null"]},
          "logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
          "add_special_tokens": {"type": "boolean"}
        },
        "required": ["prompt"]
      }
    ]
  },
  "CompletionLogprobs": {
    "type": ["object", "null"],
    "properties": {
      "tokens": {"type": "array", "items": {"type": "string"}},
      "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
      "top_logprobs": {
        "type": "array",
        "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}
      },
      "text_offset": {"type": "array", "items": {"type": "integer"}}
    },
    "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"]
  },
  "CompletionChoice": {
    "type": "object",
    "properties": {
      "index": {"type": "integer"},
      "text": {"type": "string"},
      "logprobs": {"$ref": "#/components/schemas/CompletionLogprobs"},
      "finish_reason": {"type": ["string", "null"]}
    },
    "required": ["index", "text", "logprobs", "finish_reason"]
  },
  "Completion": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "system_fingerprint": {"type": "string"},
      "choices": {"type": "array", "items": {"$ref": "#/components/schemas/CompletionChoice"}},
      "usage": {"$ref": "#/components/schemas/TextUsage"}
    },
    "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
  },
  "CompletionChunk": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "system_fingerprint": {"type": "string"},
      "choices": {"type": "array", "items": {"$ref": "#/components/schemas/CompletionChoice"}},
      "usage": {"oneOf": [{"$ref": "#/components/schemas/TextUsage"}, {"type": "null"}]}
    },
    "required": ["id", "object", "created", "model", "system_fingerprint", "choices"],
    "description": "An event; the last one is the text [DONE], or an error"
  },
  "ApplyTemplateRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/ChatPrompt"},
      {"type": "object", "properties": {"model": {"type": "string"}}}
    ]
  },
  "AppliedTemplate": {
    "type": "object",
    "properties": {"prompt": {"type": "string"}},
    "required": ["prompt"]
  },
  "TgiRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "inputs": {"type": "string"},
      "stream": {"type": "boolean", "description": "Only for POST /"},
      "parameters": {
        "allOf": [
          {"$ref": "#/components/schemas/Sampling"},
          {
            "type": "object",
            "properties": {
              "max_new_tokens": {"type": ["integer", "null"], "minimum": 1, "default": 100},
              "do_sample": {"type": ["boolean", "null"]},
              "return_full_text": {"type": ["boolean", "null"]},
              "details": {"type": "boolean"},
              "top_n_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}
            }
          }
        ]
      }
    },
    "required": ["inputs"]
  },
  "TgiToken": {
    "type": "object",
    "properties": {
      "id": {"type": "integer"},
      "text": {"type": "string"},
      "logprob": {"type": "number"},
      "special": {"type": "boolean"}
    },
    "required": ["id", "text", "logprob", "special"]
  },
  "TgiTopTokens": {"type": "array", "items": {"$ref": "#/components/schemas/TgiToken"}},
  "TgiText": {
    "type": "object",
    "properties": {
      "generated_text": {"type": "string"},
      "details": {
        "type": "object",
        "properties": {
          "finish_reason": {"type": "string", "enum": ["length", "eos_token", "stop_sequence"]},
          "generated_tokens": {"type": "integer"},
          "seed": {"type": ["integer", "null"]},
          "prefill": {"type": "array", "items": {"type": "object"}},
          "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TgiToken"}},
          "top_tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TgiTopTokens"}}
        },
        "required": ["finish_reason", "generated_tokens", "seed", "prefill", "tokens"]
      }
    },
    "required": ["generated_text"]
  },
  "TgiEvent": {
    "type": "object",
    "properties": {
      "index": {"type": "integer"},
      "token": {"$ref": "#/components/schemas/TgiToken"},
      "top_tokens": {"$ref": "#/components/schemas/TgiTopTokens"},
      "generated_text": {"type": ["string", "null"]},
      "details": {
        "type": ["object", "null"],
        "properties": {
          "finish_reason": {"type": "string"},
          "generated_tokens": {"type": "integer"},
          "seed": {"type": ["integer", "null"]}
        }
      }
    },
    "required": ["index", "token", "generated_text", "details"]
  },
  "TextStats": {
    "type": "object",
    "properties": {
      "running": {"type": "integer"},
      "waiting": {"type": "integer"},
      "generated_tokens": {"type": "integer"},
      "prompt_tokens": {"type": "integer"},
      "cached_tokens": {"type": "integer"},
      "generated_tokens_per_s": {"type": "number"},
      "prompt_tokens_per_s": {"type": "number"},
      "first_token_mean_ms": {"type": "number"},
      "inter_token_mean_ms": {"type": "number"},
      "kv": {
        "type": "object",
        "properties": {
          "block_tokens": {"type": "integer"},
          "blocks": {"type": "integer"},
          "blocks_used": {"type": "integer"},
          "blocks_cached": {"type": "integer"},
          "window_blocks": {"type": "integer"},
          "window_blocks_used": {"type": "integer"},
          "window_blocks_cached": {"type": "integer"},
          "bytes": {"type": "integer"},
          "bytes_used": {"type": "integer"},
          "bytes_cached": {"type": "integer"}
        },
        "required": ["block_tokens", "blocks", "blocks_used", "blocks_cached", "bytes",
                     "bytes_used", "bytes_cached"]
      }
    },
    "required": ["running", "waiting", "generated_tokens", "prompt_tokens", "cached_tokens",
                 "generated_tokens_per_s", "prompt_tokens_per_s", "first_token_mean_ms",
                 "inter_token_mean_ms", "kv"]
  }
})json";

}  // namespace penstock
