// The schemas of loading and unloading models, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiModelSchemas = R"json({
  "KeepAlive": {
    "type": ["number", "string", "null"],
    "description": "How long the model stays loaded after this: seconds or a text such as 5m; negative: for ever"
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
      "error": {"type": "string", "description": "Of a model that failed to load"},
      "version": {"type": "integer", "description": "Of a model of a repository"},
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
  }
})json";

}  // namespace penstock
