// The schemas of the Open Inference Protocol, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiKserveSchemas = R"json({
  "KserveError": {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"]
  },
  "KserveDone": {"type": "object"},
  "KserveLive": {
    "type": "object",
    "properties": {"live": {"type": "boolean"}},
    "required": ["live"]
  },
  "KserveReady": {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"]
  },
  "KserveServer": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "version": {"type": "string"},
      "extensions": {"type": "array", "items": {"type": "string"}}
    },
    "required": ["name", "version", "extensions"]
  },
  "KserveShape": {"type": "array", "items": {"type": "integer"}},
  "KserveType": {
    "type": "string",
    "enum": [
      "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16",
      "BF16", "FP32", "FP64", "BYTES"
    ]
  },
  "KserveTensorMetadata": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "datatype": {"$ref": "#/components/schemas/KserveType"},
      "shape": {
        "allOf": [{"$ref": "#/components/schemas/KserveShape"}],
        "description": "-1: any number"
      }
    },
    "required": ["name", "datatype", "shape"]
  },
  "KserveModel": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "versions": {"type": "array", "items": {"type": "string"}},
      "platform": {"type": "string"},
      "inputs": {
        "type": "array", "items": {"$ref": "#/components/schemas/KserveTensorMetadata"}
      },
      "outputs": {
        "type": "array", "items": {"$ref": "#/components/schemas/KserveTensorMetadata"}
      }
    },
    "required": ["name", "versions", "platform", "inputs", "outputs"]
  },
  "KserveConfig": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "platform": {"type": "string"},
      "backend": {"type": "string"},
      "max_batch_size": {"type": "integer", "minimum": 0},
      "input": {"type": "array", "items": {"type": "object"}},
      "output": {"type": "array", "items": {"type": "object"}}
    },
    "additionalProperties": true,
    "required": ["name", "platform", "backend", "max_batch_size", "input", "output"],
    "description": "ModelConfig of Triton"
  },
  "KserveTimes": {
    "type": "object",
    "properties": {
      "count": {"type": "integer", "minimum": 0},
      "ns": {"type": "integer", "minimum": 0}
    },
    "required": ["count", "ns"]
  },
  "KserveStatistics": {
    "type": "object",
    "properties": {
      "model_stats": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string"},
            "version": {"type": "string"},
            "last_inference": {"type": "integer", "description": "ms since 1970; 0: none yet"},
            "inference_count": {"type": "integer", "description": "Rows"},
            "execution_count": {"type": "integer", "description": "Runs of the model"},
            "inference_stats": {
              "type": "object",
              "additionalProperties": {"$ref": "#/components/schemas/KserveTimes"}
            },
            "response_stats": {"type": "object"},
            "batch_stats": {"type": "array", "items": {"type": "object"}},
            "memory_usage": {"type": "array"}
          },
          "required": ["name", "version", "inference_count", "execution_count", "inference_stats"]
        }
      }
    },
    "required": ["model_stats"]
  },
  "KserveParameters": {
    "type": "object",
    "additionalProperties": {
      "oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]
    }
  },
  "KserveInput": {
    "type": "object",
    "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 512},
      "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 64},
      "datatype": {"$ref": "#/components/schemas/KserveType"},
      "parameters": {
        "allOf": [{"$ref": "#/components/schemas/KserveParameters"}],
        "description": "binary_data_size; shared_memory_region, _offset, _byte_size"
      },
      "data": {"type": "array", "description": "All elements, flat or nested as the shape is"}
    },
    "required": ["name", "shape", "datatype"]
  },
  "KserveRequest": {
    "type": "object",
    "properties": {
      "id": {"type": "string", "maxLength": 512},
      "parameters": {
        "allOf": [{"$ref": "#/components/schemas/KserveParameters"}],
        "description": "priority, timeout (microseconds), binary_data_output"
      },
      "inputs": {
        "type": "array", "items": {"$ref": "#/components/schemas/KserveInput"}, "maxItems": 1024
      },
      "outputs": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 512},
            "parameters": {
              "allOf": [{"$ref": "#/components/schemas/KserveParameters"}],
              "description": "binary_data; shared_memory_region, _offset, _byte_size"
            }
          },
          "required": ["name"]
        },
        "maxItems": 1024,
        "description": "Default: all"
      }
    },
    "required": ["inputs"]
  },
  "KserveResponse": {
    "type": "object",
    "properties": {
      "model_name": {"type": "string"},
      "model_version": {"type": "string"},
      "id": {"type": "string"},
      "outputs": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "name": {"type": "string"},
            "datatype": {"$ref": "#/components/schemas/KserveType"},
            "shape": {"$ref": "#/components/schemas/KserveShape"},
            "parameters": {"$ref": "#/components/schemas/KserveParameters"},
            "data": {"type": "array"}
          },
          "required": ["name", "datatype", "shape"]
        }
      }
    },
    "required": ["model_name", "model_version", "outputs"]
  },
  "KserveIndexRequest": {
    "type": "object",
    "properties": {"ready": {"type": "boolean", "description": "Only models that are loaded"}}
  },
  "KserveIndex": {
    "type": "array",
    "items": {
      "type": "object",
      "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "state": {"type": "string", "enum": ["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]},
        "reason": {"type": "string"}
      },
      "required": ["name", "version", "state", "reason"]
    }
  },
  "KserveLoadRequest": {
    "type": "object",
    "properties": {"parameters": {"type": "object", "description": "All are refused"}}
  },
  "KserveRegionRequest": {
    "type": "object",
    "properties": {
      "key": {"type": "string", "description": "The name given to shm_open, without further slashes"},
      "offset": {"type": "integer", "minimum": 0},
      "byte_size": {"type": "integer", "minimum": 1}
    },
    "required": ["key", "byte_size"]
  },
  "KserveRegions": {
    "type": "array",
    "items": {
      "type": "object",
      "properties": {
        "name": {"type": "string"},
        "key": {"type": "string"},
        "offset": {"type": "integer"},
        "byte_size": {"type": "integer"}
      },
      "required": ["name", "key", "offset", "byte_size"]
    }
  }
})json";

}  // namespace penstock
