// The schemas of loading and unloading models, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiModelSchemas = R"json({
  "KeepAlive": {
    "type": ["number", "string", "null"],
    "description": "How long the model stays loaded after this: seconds or a text such as 5m; negative: for ever. Where administrators have keys, others keep it from 60 s to --keep-alive"
  },
  "CacheSalt": {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 256,
    "description": "Requests of a key with another one share nothing that is cached"
  },
  "ModelCall": {
    "type": "object",
    "properties": {"model": {"type": "string"}},
    "required": ["model"]
  },
  "LoadCall": {
    "type": "object",
    "properties": {
      "model": {"type": "string"},
      "keep_alive": {"$ref": "#/components/schemas/KeepAlive"}
    },
    "required": ["model"]
  },
  "Lifecycle": {
    "type": "object",
    "properties": {
      "state": {
        "type": "string",
        "enum": ["waiting", "loading", "ready", "parked", "draining", "absent", "failed"],
        "description": "parked: its weights are loaded, activations and caches have gone to others"
      },
      "error": {"type": "string", "description": "Given for a model that failed to load"},
      "version": {"type": "integer", "description": "Given for a model of a repository"},
      "refused_version": {
        "type": "object",
        "description": "The highest version that was not taken, and why",
        "properties": {"version": {"type": "integer"}, "error": {"type": "string"}},
        "required": ["version", "error"]
      },
      "load_percent": {"type": "integer", "description": "While it is loaded: of the download, then of its weights"},
      "pinned": {"type": "boolean"},
      "keep_alive_s": {"type": "number", "description": "-1: for ever"},
      "idle_s": {"type": "number"},
      "unload_in_s": {"type": "number"},
      "loads": {"type": "integer"},
      "load_s": {"type": "number", "description": "How long the last load took"},
      "evictions": {"type": "integer", "description": "Unloads for the memory of others"},
      "requests_waiting": {"type": "integer"},
      "memory": {
        "type": "object",
        "description": "Bytes it may take at most; 0 while it is not loaded",
        "properties": {
          "weights_bytes": {"type": "integer"},
          "activations_bytes": {"type": "integer"},
          "cache_bytes": {"type": "integer"}
        },
        "required": ["weights_bytes", "activations_bytes", "cache_bytes"]
      }
    },
    "required": ["state", "pinned", "keep_alive_s", "loads", "load_s", "evictions", "requests_waiting",
                 "memory"]
  },
  "ModelState": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "lifecycle": {"$ref": "#/components/schemas/Lifecycle"}
    },
    "required": ["id", "object", "lifecycle"]
  },
  "TensorStats": {
    "type": "object",
    "properties": {
      "requests": {"type": "integer"},
      "requests_per_s": {"type": "number"},
      "rows_per_s": {"type": "number"},
      "queued_rows": {"type": "integer"},
      "queued_bytes": {"type": "integer"},
      "max_batch_size": {"type": "integer"}
    },
    "required": ["requests", "requests_per_s", "rows_per_s", "queued_rows", "queued_bytes", "max_batch_size"]
  },
  "LiveEvent": {
    "description": "event: history (first): fields names the numbers of a point; points are those of the last minutes. event: point, one a second: the numbers. event: stats: as GET /v1/stats.",
    "anyOf": [
      {
        "type": "object",
        "properties": {
          "version": {"type": "string"},
          "interval_ms": {"type": "integer"},
          "points_max": {"type": "integer"},
          "limits": {
            "type": "object",
            "properties": {
              "processors": {"type": "integer"},
              "tokenization_workers": {"type": "integer"},
              "models_bytes": {"type": "integer"},
              "requests_bytes": {"type": "integer"},
              "caches_bytes": {"type": "integer"},
              "pulls": {"type": "boolean"}
            },
            "required": ["processors", "tokenization_workers", "models_bytes", "requests_bytes", "caches_bytes", "pulls"]
          },
          "fields": {"type": "array", "items": {"type": "string"}},
          "points": {"type": "array", "items": {"$ref": "#/components/schemas/LivePoint"}}
        },
        "required": ["version", "interval_ms", "points_max", "limits", "fields", "points"]
      },
      {"$ref": "#/components/schemas/LivePoint"},
      {"$ref": "#/components/schemas/Stats"}
    ]
  },
  "LivePoint": {"type": "array", "items": {"type": ["number", "null"]}},
  "Requests": {
    "type": "object",
    "properties": {
      "slow_request_ms": {"type": "integer"},
      "slow_count": {"type": "integer"},
      "slow": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "unix_ms": {"type": "integer"},
            "ms": {"type": "number"},
            "method": {"type": "string"},
            "route": {"type": "string"},
            "status": {"type": "integer"},
            "bytes_in": {"type": "integer"},
            "bytes_out": {"type": "integer"},
            "request_id": {"type": "string"},
            "model": {"type": "string"},
            "rows": {"type": "integer"},
            "tokens": {"type": "integer"},
            "stages": {"type": "object", "additionalProperties": {"type": "number"}}
          },
          "required": ["unix_ms", "ms", "method", "route", "status", "bytes_in", "bytes_out", "request_id"]
        }
      },
      "errors": {
        "type": "array",
        "description": "The sums of failures by kind",
        "items": {
          "type": "object",
          "properties": {"kind": {"type": "string"}, "count": {"type": "integer"}},
          "required": ["kind", "count"]
        }
      },
      "failures": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "method": {"type": "string"},
            "route": {"type": "string"},
            "status": {"type": "integer"},
            "kind": {"type": "string"},
            "count": {"type": "integer"}
          },
          "required": ["status", "kind", "count"]
        }
      }
    },
    "required": ["slow_request_ms", "slow_count", "slow", "errors", "failures"]
  }
})json";

}  // namespace penstock
