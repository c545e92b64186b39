// The schemas of files and batches, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiBatchSchemas = R"json({
  "FileForm": {
    "type": "object",
    "properties": {
      "purpose": {"type": "string", "enum": ["batch"]},
      "file": {"type": "string", "format": "binary"}
    },
    "required": ["purpose", "file"]
  },
  "File": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "bytes": {"type": "integer"},
      "created_at": {"type": "integer"},
      "filename": {"type": "string"},
      "purpose": {"type": "string", "enum": ["batch", "batch_output"]},
      "status": {"type": "string"}
    },
    "required": ["id", "object", "bytes", "created_at", "filename", "purpose", "status"]
  },
  "Files": {
    "type": "object",
    "properties": {
      "object": {"type": "string"},
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/File"}},
      "first_id": {"type": "string"},
      "last_id": {"type": "string"},
      "has_more": {"type": "boolean"}
    },
    "required": ["object", "data", "has_more"]
  },
  "FileContent": {"type": "string"},
  "FileDeleted": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "deleted": {"type": "boolean"}
    },
    "required": ["id", "object", "deleted"]
  },
  "BatchRequest": {
    "type": "object",
    "properties": {
      "input_file_id": {"type": "string"},
      "endpoint": {"type": "string", "enum": ["/v1/embeddings", "/v1/chat/completions", "/v1/completions"]},
      "completion_window": {"type": "string", "enum": ["24h"]},
      "metadata": {"type": ["object", "null"], "additionalProperties": {"type": "string"}}
    },
    "required": ["input_file_id", "endpoint", "completion_window"]
  },
  "Batch": {
    "type": "object",
    "properties": {
      "id": {"type": "string"},
      "object": {"type": "string"},
      "endpoint": {"type": "string"},
      "errors": {
        "type": ["object", "null"],
        "properties": {
          "object": {"type": "string"},
          "data": {
            "type": "array",
            "items": {
              "type": "object",
              "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "line": {"type": ["integer", "null"]}
              },
              "required": ["code", "message", "param", "line"]
            }
          }
        },
        "required": ["object", "data"]
      },
      "input_file_id": {"type": "string"},
      "completion_window": {"type": "string"},
      "status": {
        "type": "string",
        "enum": ["validating", "in_progress", "cancelling", "completed", "failed", "expired", "cancelled"]
      },
      "output_file_id": {"type": ["string", "null"]},
      "error_file_id": {"type": ["string", "null"]},
      "created_at": {"type": "integer"},
      "in_progress_at": {"type": ["integer", "null"]},
      "expires_at": {"type": ["integer", "null"]},
      "completed_at": {"type": ["integer", "null"]},
      "failed_at": {"type": ["integer", "null"]},
      "expired_at": {"type": ["integer", "null"]},
      "cancelling_at": {"type": ["integer", "null"]},
      "cancelled_at": {"type": ["integer", "null"]},
      "request_counts": {
        "type": "object",
        "properties": {
          "total": {"type": "integer"},
          "completed": {"type": "integer"},
          "failed": {"type": "integer"}
        },
        "required": ["total", "completed", "failed"]
      },
      "metadata": {"type": ["object", "null"], "additionalProperties": {"type": "string"}}
    },
    "required": ["id", "object", "endpoint", "errors", "input_file_id", "completion_window", "status",
                 "output_file_id", "error_file_id", "created_at", "request_counts", "metadata"]
  },
  "Batches": {
    "type": "object",
    "properties": {
      "object": {"type": "string"},
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/Batch"}},
      "first_id": {"type": "string"},
      "last_id": {"type": "string"},
      "has_more": {"type": "boolean"}
    },
    "required": ["object", "data", "has_more"]
  }
})json";

}  // namespace penstock
