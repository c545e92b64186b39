// The schemas of requests and answers, for routes/openapi.h. One JSON object; a name here is the
// "request" or "answer" of a RouteDescription, or is referred to by another schema.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiSchemas = R"json({
  "TextOptions": {
    "type": "object",
    "properties": {
      "model": {
        "type": "string",
        "description": "Name or alias of a model; default: the first that can do this"
      },
      "truncate": {
        "oneOf": [
          {"type": "boolean"},
          {
            "type": "string",
            "enum": ["NONE", "START", "END", "none", "start", "end", "Start", "End", "None"]
          }
        ]
      },
      "truncation_direction": {"type": "string", "description": "left or right"},
      "prompt_name": {"type": "string"},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"},
      "cache_salt": {"$ref": "#/components/schemas/CacheSalt"},
      "prompt": {"type": "string"},
      "input_type": {
        "type": ["string", "null"],
        "enum": [
          "query", "search_query", "document", "search_document", "passage", "classification",
          "clustering", null
        ]
      }
    }
  },
  "Usage": {
    "type": "object",
    "properties": {"prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}},
    "required": ["prompt_tokens", "total_tokens"]
  },
  "Truncated": {
    "type": "object",
    "properties": {
      "inputs": {"type": "integer"},
      "tokens": {"type": "integer"},
      "unread_bytes": {"type": "integer"}
    },
    "required": ["inputs", "tokens", "unread_bytes"],
    "description": "Truncation: inputs cut, tokens and unread bytes cut off"
  },
  "Model": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "created": {"type": "integer"},
      "owned_by": {"type": "string"},
      "aliases": {"type": "array", "items": {"type": "string"}},
      "task": {"type": "string", "enum": ["embedding", "reranking", "classification", "generation", "tensors", ""]},
      "ready": {"type": "boolean"},
      "dtype": {"type": "string"},
      "max_tokens": {"type": "integer"},
      "max_batch_tokens": {"type": "integer"},
      "dimensions": {"type": "integer"}, "chat": {"type": "boolean"},
      "max_model_len": {"type": "integer"}, "context_length": {"type": "integer"},
      "platform": {"type": "string"}, "max_batch_size": {"type": "integer"},
      "lifecycle": {"$ref": "#/components/schemas/Lifecycle"}
    },
    "required": [
      "id", "object", "created", "owned_by", "aliases", "task", "ready", "dtype", "max_tokens",
      "max_batch_tokens", "lifecycle"
    ]
  },
  "Models": {
    "type": "object",
    "properties": {
      "object": {"type": "string"},
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}},
      "models": {
        "type": "array",
        "description": "The same models as Cohere has it; ?endpoint= leaves those of one task",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string"},
            "endpoints": {
              "type": "array",
              "items": {"type": "string", "enum": ["embed", "rerank", "classify", "chat"]}
            },
            "finetuned": {"type": "boolean"},
            "context_length": {"type": "integer"}
          },
          "required": ["name", "endpoints", "finetuned", "context_length"]
        }
      }
    },
    "required": ["object", "data", "models"]
  },
  "ClassifyRequest": {
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
                    {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
                  ]
                }
              }
            ]
          },
          "raw_scores": {"type": "boolean"}
        },
        "required": ["input"]
      }
    ]
  },
  "Classification": {
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
            "object": {"type": "string"},
            "index": {"type": "integer"},
            "label": {"type": "string"},
            "prediction": {"type": "string"},
            "score": {"type": "number"},
            "num_classes": {"type": "integer"},
            "probs": {"type": "array", "items": {"type": "number"}},
            "predictions": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {"score": {"type": "number"}, "label": {"type": "string"}},
                "required": ["score", "label"]
              },
              "description": "Best first"
            }
          },
          "required": ["object", "index", "label", "prediction", "score", "num_classes", "probs", "predictions"]
        }
      },
      "classifications": {
        "type": "array",
        "description": "As Cohere has it, where the request has inputs in place of input",
        "items": {
          "type": "object",
          "properties": {
            "id": {"type": "string"},
            "input": {"type": "string", "description": "The text; of a pair, its first text"},
            "prediction": {"type": "string"},
            "confidence": {"type": "number"},
            "predictions": {"type": "array", "items": {"type": "string"}},
            "confidences": {"type": "array", "items": {"type": "number"}},
            "labels": {
              "type": "object",
              "additionalProperties": {
                "type": "object",
                "properties": {"confidence": {"type": "number"}},
                "required": ["confidence"]
              }
            },
            "classification_type": {"type": "string"}
          },
          "required": ["id", "input", "prediction", "confidence", "predictions", "confidences", "labels",
                       "classification_type"]
        }
      },
      "usage": {"$ref": "#/components/schemas/Usage"},
      "truncated": {"$ref": "#/components/schemas/Truncated"}
    },
    "required": ["id", "object", "created", "model", "data", "usage", "truncated"]
  },
  "TeiEmbedRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "inputs": {
            "oneOf": [
              {"type": "string"},
              {"type": "array", "items": {"type": "string"}},
              {"type": "array", "items": {"type": "integer"}},
              {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
            ],
            "description": "A text, texts, token ids, or lists of those"
          },
          "normalize": {"type": "boolean", "default": true},
          "dimensions": {"type": "integer", "minimum": 1}
        },
        "required": ["inputs"]
      }
    ]
  },
  "TeiEmbeddings": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
  "TeiEmbedAllRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "inputs": {
            "oneOf": [
              {"type": "string"},
              {"type": "array", "items": {"type": "string"}},
              {"type": "array", "items": {"type": "integer"}},
              {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
            ],
            "description": "A text, texts, token ids, or lists of those"
          },
          "normalize": {"type": "boolean", "default": false}
        },
        "required": ["inputs"]
      }
    ]
  },
  "TeiTokenEmbeddings": {
    "type": "array",
    "items": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
  },
  "TeiRerankRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "query": {"type": "string"},
          "texts": {"type": "array", "items": {"type": "string"}},
          "raw_scores": {"type": "boolean"},
          "return_text": {"type": "boolean"}
        },
        "required": ["query", "texts"]
      }
    ]
  },
  "TeiRanking": {
    "type": "array",
    "items": {
      "type": "object",
      "properties": {"index": {"type": "integer"}, "text": {"type": "string"}, "score": {"type": "number"}},
      "required": ["index", "score"]
    },
    "description": "Best first"
  },
  "TeiPredictRequest": {
    "allOf": [
      {"$ref": "#/components/schemas/TextOptions"},
      {
        "type": "object",
        "properties": {
          "inputs": {
            "description": "A text, a pair, or a list whose entries are lists of one text or two",
            "anyOf": [
              {"type": "string"},
              {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
              {
                "type": "array",
                "items": {
                  "oneOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}
                  ]
                }
              }
            ]
          },
          "raw_scores": {"type": "boolean"}
        },
        "required": ["inputs"]
      }
    ]
  },
  "TeiPredictions": {
    "oneOf": [
      {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {"score": {"type": "number"}, "label": {"type": "string"}},
          "required": ["score", "label"]
        }
      },
      {
        "type": "array",
        "items": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {"score": {"type": "number"}, "label": {"type": "string"}},
            "required": ["score", "label"]
          }
        }
      }
    ],
    "description": "Labels, best first: a list of them, or one for each entry"
  },
  "TeiSimilarityRequest": {
    "type": "object",
    "properties": {
      "model": {
        "type": "string",
        "description": "Name or alias of a model; default: the first that can do this"
      },
      "inputs": {
        "type": "object",
        "properties": {
          "source_sentence": {"type": "string"},
          "sentences": {"type": "array", "items": {"type": "string"}}
        },
        "required": ["source_sentence", "sentences"]
      },
      "parameters": {"$ref": "#/components/schemas/TextOptions"}
    },
    "required": ["inputs"]
  },
  "TeiSimilarities": {"type": "array", "items": {"type": "number"}},
  "TeiTokenizeRequest": {
    "type": "object",
    "properties": {
      "model": {
        "type": "string",
        "description": "Name or alias of a model; default: the first that can do this"
      },
      "inputs": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
      "add_special_tokens": {"type": "boolean", "default": true},
      "prompt_name": {"type": "string"}
    },
    "required": ["inputs"]
  },
  "TeiTokens": {
    "type": "array",
    "items": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "id": {"type": "integer"},
          "text": {"type": "string"},
          "special": {"type": "boolean"},
          "start": {"type": ["integer", "null"]},
          "stop": {"type": ["integer", "null"]}
        },
        "required": ["id", "text", "special", "start", "stop"]
      }
    }
  },
  "TeiDecodeRequest": {
    "type": "object",
    "properties": {
      "model": {
        "type": "string",
        "description": "Name or alias of a model; default: the first that can do this"
      },
      "ids": {
        "oneOf": [
          {"type": "array", "items": {"type": "integer"}},
          {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
        ]
      },
      "skip_special_tokens": {"type": "boolean", "default": true}
    },
    "required": ["ids"]
  },
  "TeiTexts": {"type": "array", "items": {"type": "string"}},
  "RootRequest": {
    "anyOf": [
      {"$ref": "#/components/schemas/TeiEmbedRequest"},
      {"$ref": "#/components/schemas/TeiSimilarityRequest"},
      {"$ref": "#/components/schemas/TeiRerankRequest"},
      {"$ref": "#/components/schemas/TeiPredictRequest"},
      {"$ref": "#/components/schemas/RerankRequest"},
      {"$ref": "#/components/schemas/TgiRequest"}
    ]
  },
  "RootAnswer": {
    "anyOf": [
      {"$ref": "#/components/schemas/TeiEmbeddings"},
      {"$ref": "#/components/schemas/TeiSimilarities"},
      {"$ref": "#/components/schemas/TeiRanking"},
      {"$ref": "#/components/schemas/TeiPredictions"},
      {"$ref": "#/components/schemas/Ranking"},
      {"$ref": "#/components/schemas/TgiText"}
    ]
  },
  "VertexRequest": {
    "type": "object",
    "properties": {
      "instances": {"type": "array", "items": {"$ref": "#/components/schemas/RootRequest"}, "minItems": 1}
    },
    "required": ["instances"]
  },
  "VertexAnswer": {
    "type": "object",
    "properties": {
      "predictions": {
        "type": "array",
        "items": {"oneOf": [{"$ref": "#/components/schemas/RootAnswer"}, {"type": "string"}]}
      }
    },
    "required": ["predictions"]
  },
  "Info": {
    "type": "object",
    "properties": {
      "model_id": {"type": "string"},
      "model_sha": {"type": ["string", "null"]},
      "model_dtype": {"type": "string"},
      "model_type": {
        "type": "object",
        "properties": {
          "embedding": {"type": "object", "properties": {"pooling": {"type": "string"}}, "required": ["pooling"]},
          "generation": {"type": "object", "properties": {"context_length": {"type": "integer"}}, "required": ["context_length"]},
          "tensors": {"type": "object", "properties": {"platform": {"type": "string"}}, "required": ["platform"]},
          "reranker": {
            "type": "object",
            "properties": {
              "id2label": {"type": "object", "additionalProperties": {"type": "string"}},
              "label2id": {"type": "object", "additionalProperties": {"type": "integer"}}
            },
            "required": ["id2label", "label2id"]
          },
          "classifier": {
            "type": "object",
            "properties": {
              "id2label": {"type": "object", "additionalProperties": {"type": "string"}},
              "label2id": {"type": "object", "additionalProperties": {"type": "integer"}}
            },
            "required": ["id2label", "label2id"]
          }
        },
        "description": "One of them"
      },
      "max_concurrent_requests": {"type": "integer"},
      "max_input_length": {"type": "integer"},
      "max_batch_tokens": {"type": "integer"},
      "max_client_batch_size": {"type": "integer"},
      "auto_truncate": {"type": "boolean"},
      "tokenization_workers": {"type": "integer"},
      "version": {"type": "string"},
      "sha": {"type": "null"},
      "docker_label": {"type": "null"},
      "server": {"type": "string"},
      "backend": {"type": "string"},
      "architecture": {"type": "string"},
      "dimensions": {"type": "integer"},
      "int8_keep": {"type": "string"},
      "models": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "id": {"type": "string"},
            "aliases": {"type": "array", "items": {"type": "string"}},
            "task": {"type": "string", "enum": ["embedding", "reranking", "classification", "generation", "tensors", ""]},
            "ready": {"type": "boolean"},
            "dtype": {"type": "string"},
            "max_tokens": {"type": "integer"},
            "max_batch_tokens": {"type": "integer"},
            "dimensions": {"type": "integer"}, "chat": {"type": "boolean"},
            "max_model_len": {"type": "integer"}, "context_length": {"type": "integer"},
            "platform": {"type": "string"}, "max_batch_size": {"type": "integer"},
            "lifecycle": {"$ref": "#/components/schemas/Lifecycle"}
          },
          "required": ["id", "aliases", "task", "ready", "dtype", "max_tokens", "max_batch_tokens", "lifecycle"]
        }
      }
    },
    "required": [
      "model_id",
      "model_sha",
      "model_dtype",
      "model_type",
      "max_concurrent_requests",
      "max_input_length",
      "max_batch_tokens",
      "max_client_batch_size",
      "auto_truncate",
      "tokenization_workers",
      "version",
      "sha",
      "docker_label",
      "server",
      "backend",
      "architecture",
      "dimensions",
      "models"
    ]
  },
  "BulkRequest": {
    "type": "object",
    "properties": {
      "action": {"type": "string", "enum": ["begin", "end"]},
      "id": {"type": "string", "description": "For end: as begin gave it"}
    },
    "required": ["action"]
  },
  "BulkRun": {
    "type": "object",
    "properties": {
      "object": {"type": "string"},
      "id": {"type": "string"},
      "state": {"type": "string", "enum": ["open", "ended"]},
      "idle_s_max": {"type": "integer"},
      "requests": {"type": "integer"},
      "released": {"type": "boolean"},
      "reason": {"type": "string"},
      "released_bytes": {"type": "integer"}
    },
    "required": ["object", "id", "state"]
  },
  "Index": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "version": {"type": "string"},
      "ready": {"type": "boolean"},
      "models": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {"id": {"type": "string"}, "task": {"type": "string"}},
          "required": ["id", "task"]
        }
      },
      "routes": {"type": "array", "items": {"type": "string"}}
    },
    "required": ["name", "version", "ready", "models", "routes"]
  },
  "OpenApi": {"type": "object", "additionalProperties": true},
  "State": {
    "type": "object",
    "properties": {"status": {"type": "string"}, "reason": {"type": "string"}},
    "required": ["status"]
  },
  "Stats": {
    "type": "object",
    "properties": {
      "uptime_s": {"type": "number"},
      "window_s": {"type": "number"},
      "stage_timers": {"type": "boolean"},
      "requests": {
        "type": "object",
        "properties": {
          "per_s": {"type": "number"},
          "count": {"type": "integer"},
          "total_s": {"type": "number"},
          "mean_ms": {"type": "number"},
          "p50_ms": {"type": "number"},
          "p90_ms": {"type": "number"},
          "p95_ms": {"type": "number"},
          "p99_ms": {"type": "number"},
          "p999_ms": {"type": "number"},
          "max_ms": {"type": "number"}
        },
        "required": [
          "per_s",
          "count",
          "total_s",
          "mean_ms",
          "p50_ms",
          "p90_ms",
          "p95_ms",
          "p99_ms",
          "p999_ms",
          "max_ms"
        ]
      },
      "stages": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "stage": {"type": "string"},
            "percent": {"type": "number"},
            "count": {"type": "integer"},
            "total_s": {"type": "number"},
            "mean_ms": {"type": "number"},
            "p50_ms": {"type": "number"},
            "p90_ms": {"type": "number"},
            "p95_ms": {"type": "number"},
            "p99_ms": {"type": "number"},
            "p999_ms": {"type": "number"},
            "max_ms": {"type": "number"}
          },
          "required": [
            "stage",
            "percent",
            "count",
            "total_s",
            "mean_ms",
            "p50_ms",
            "p90_ms",
            "p95_ms",
            "p99_ms",
            "p999_ms",
            "max_ms"
          ]
        }
      },
      "models": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "model": {"type": "string"},
            "ready": {"type": "boolean"},
            "queued_requests": {"type": "integer"},
            "queued_tokens": {"type": "integer"},
            "batches": {"type": "integer"},
            "rows": {"type": "integer"},
            "tokens": {"type": "integer"},
            "rows_per_batch": {"type": "number"},
            "tokens_per_batch": {"type": "number"},
            "batch_mean_ms": {"type": "number"},
            "tokens_per_s": {"type": "number"},
            "busy_percent": {"type": "number"},
            "text": {"$ref": "#/components/schemas/TextStats"},
            "tensors": {"$ref": "#/components/schemas/TensorStats"}
          },
          "required": [
            "model",
            "ready",
            "queued_requests",
            "queued_tokens",
            "batches",
            "rows",
            "tokens",
            "rows_per_batch",
            "tokens_per_batch",
            "batch_mean_ms",
            "tokens_per_s",
            "busy_percent"
          ]
        }
      },
      "tokenization": {
        "type": "object",
        "properties": {
          "workers": {"type": "integer"},
          "waiting_tasks": {"type": "integer"},
          "busy_percent": {"type": "number"}
        },
        "required": ["workers", "waiting_tasks", "busy_percent"]
      },
      "process": {
        "type": "object",
        "properties": {
          "processors_busy": {"type": "number"},
          "processors_max": {"type": "number"},
          "resident_bytes": {"type": "integer"}
        },
        "required": ["processors_busy", "processors_max", "resident_bytes"]
      },
      "bottleneck": {
        "type": "object",
        "properties": {
          "name": {"type": "string"},
          "why": {"type": "string"},
          "saturated": {"type": "boolean"},
          "window_s": {"type": "number"}
        },
        "required": ["name", "why", "saturated", "window_s"]
      }
    },
    "required": ["uptime_s", "window_s", "stage_timers", "models", "tokenization", "process", "bottleneck"]
  },
  "TeiError": {
    "type": "object",
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}, "field": {"type": "string"}},
    "required": ["error", "error_type"]
  }
})json";

}  // namespace penstock
