// The schemas of the Open Inference Protocol, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiKserveSchemas = R"schemas(
KserveError = {error: string}
KserveDone = object
KserveLive = {live: boolean}
KserveReady = {ready: boolean}
KserveServer = {name: string, version: string, extensions: [string]}
KserveShape = [integer]
KserveType = "BOOL"/"UINT8"/"UINT16"/"UINT32"/"UINT64"/"INT8"/"INT16"/"INT32"/"INT64"/"FP16"/
  "BF16"/"FP32"/"FP64"/"BYTES"
KserveTensorMetadata = {
  name: string, datatype: KserveType, shape: KserveShape "-1: any number"
}
KserveModel = {
  name: string, versions: [string], platform: string, inputs: [KserveTensorMetadata],
  outputs: [KserveTensorMetadata]
}
KserveConfig = {
  name: string, platform: string, backend: string, max_batch_size: integer(minimum: 0),
  input: [object], output: [object], *: any
} "ModelConfig of Triton"
KserveTimes = {count: integer(minimum: 0), ns: integer(minimum: 0)}
KserveStatistics = {
  model_stats: [{
    name: string, version: string, last_inference?: integer "ms since 1970; 0: none yet",
    inference_count: integer "Rows", execution_count: integer "Runs of the model",
    inference_stats: {*: KserveTimes}, response_stats?: object, batch_stats?: [object],
    memory_usage?: array
  }]
}
KserveParameters = {*: string | number | boolean | null}
KserveInput = {
  name: string(minLength: 1, maxLength: 512), shape: [integer(minimum: 0)](maxItems: 64),
  datatype: KserveType,
  parameters?: KserveParameters "binary_data_size; shared_memory_region, _offset, _byte_size",
  data?: array "All elements, flat or nested as the shape is"
}
KserveRequest = {
  id?: string(maxLength: 512),
  parameters?: KserveParameters "priority, timeout (microseconds), binary_data_output",
  inputs: [KserveInput](maxItems: 1024),
  outputs?: [{
    name: string(minLength: 1, maxLength: 512),
    parameters?: KserveParameters "binary_data; shared_memory_region, _offset, _byte_size"
  }](maxItems: 1024) "Default: all"
}
KserveResponse = {
  model_name: string, model_version: string, id?: string,
  outputs: [{
    name: string, datatype: KserveType, shape: KserveShape, parameters?: KserveParameters,
    data?: array
  }]
}
KserveIndexRequest = {ready?: boolean "Only models that are loaded"}
KserveIndex = [{
  name: string, version: string, state: "READY"/"LOADING"/"UNLOADING"/"UNAVAILABLE",
  reason: string
}]
KserveLoadRequest = {parameters?: object "All are refused"}
KserveRegionRequest = {
  key: string "The name given to shm_open, without further slashes",
  offset?: integer(minimum: 0), byte_size: integer(minimum: 1)
}
KserveRegions = [{name: string, key: string, offset: integer, byte_size: integer}]
)schemas";

}  // namespace penstock
