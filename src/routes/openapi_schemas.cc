// The schemas of what all dialects share, of text-embeddings-inference's, and of the server itself:
// models, statistics, files and batches. For routes/openapi.h; routes/schema_notation.h has the
// notation.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiSchemas = R"schemas(
TextOptions = {
  model?: string "Name or alias of a model; default: the first that can do this",
  truncate?: boolean | "NONE"/"START"/"END"/"none"/"start"/"end"/"Start"/"End"/"None",
  truncation_direction?: string "left or right", prompt_name?: string, keep_alive?: KeepAlive,
  cache_salt?: CacheSalt, prompt?: string,
  input_type?: "query"/"search_query"/"document"/"search_document"/"passage"/"classification"/
    "clustering"?
}
Usage = {prompt_tokens: integer, total_tokens: integer}
Truncated = {inputs: integer, tokens: integer, unread_bytes: integer}
  "Truncation: inputs cut, tokens and unread bytes cut off"
Model = {
  id: string, object: string, created: integer, owned_by: string, aliases: [string],
  task: "embedding"/"reranking"/"classification"/"generation"/"tensors"/"", ready: boolean,
  dtype: string, max_tokens: integer, max_batch_tokens: integer, dimensions?: integer,
  chat?: boolean, max_model_len?: integer, context_length?: integer, platform?: string,
  max_batch_size?: integer, lifecycle: Lifecycle
}
Models = {
  object: string, data: [Model],
  models: [{
    name: string, endpoints: ["embed"/"rerank"/"classify"/"chat"], finetuned: boolean,
    context_length: integer
  }] "The same models as Cohere has it; ?endpoint= leaves those of one task"
}
ClassifyRequest = TextOptions & {
  input: string | [string | [string](minItems: 2, maxItems: 2)], raw_scores?: boolean
}
Classification = {
  id: string, object: string, created: integer, model: string,
  data: [{
    object: string, index: integer, label: string, prediction: string, score: number,
    num_classes: integer, probs: [number],
    predictions: [{score: number, label: string}] "Best first"
  }],
  classifications?: [{
    id: string, input: string "The text; of a pair, its first text", prediction: string,
    confidence: number, predictions: [string], confidences: [number],
    labels: {*: {confidence: number}}, classification_type: string
  }] "As Cohere has it, where the request has inputs in place of input",
  usage: Usage, truncated: Truncated
}
TeiEmbedRequest = TextOptions & {
  inputs: (string | [string] | [integer] | [[integer]])
    "A text, texts, token ids, or lists of those",
  normalize?: boolean(default: true), dimensions?: integer(minimum: 1)
}
TeiEmbeddings = [[number]]
TeiEmbedAllRequest = TextOptions & {
  inputs: (string | [string] | [integer] | [[integer]])
    "A text, texts, token ids, or lists of those",
  normalize?: boolean(default: false)
}
TeiTokenEmbeddings = [[[number]]]
TeiRerankRequest = TextOptions & {
  query: string, texts: [string], raw_scores?: boolean, return_text?: boolean
}
TeiRanking = [{index: integer, text?: string, score: number}] "Best first"
TeiPredictRequest = TextOptions & {
  inputs: (string || [string](minItems: 2, maxItems: 2) ||
    [string | [string](minItems: 1, maxItems: 2)])
    "A text, a pair, or a list whose entries are lists of one text or two",
  raw_scores?: boolean
}
TeiPredictions = ([{score: number, label: string}] | [[{score: number, label: string}]])
  "Labels, best first: a list of them, or one for each entry"
TeiSimilarityRequest = {
  model?: string "Name or alias of a model; default: the first that can do this",
  inputs: {source_sentence: string, sentences: [string]}, parameters?: TextOptions
}
TeiSimilarities = [number]
TeiTokenizeRequest = {
  model?: string "Name or alias of a model; default: the first that can do this",
  inputs: string | [string], add_special_tokens?: boolean(default: true), prompt_name?: string
}
TeiTokens = [[{id: integer, text: string, special: boolean, start: integer?, stop: integer?}]]
TeiDecodeRequest = {
  model?: string "Name or alias of a model; default: the first that can do this",
  ids: [integer] | [[integer]], skip_special_tokens?: boolean(default: true)
}
TeiTexts = [string]
RootRequest = TeiEmbedRequest || TeiSimilarityRequest || TeiRerankRequest || TeiPredictRequest ||
  RerankRequest || TgiRequest
RootAnswer = TeiEmbeddings || TeiSimilarities || TeiRanking || TeiPredictions || Ranking ||
  TgiText
VertexRequest = {instances: [RootRequest](minItems: 1)}
VertexAnswer = {predictions: [RootAnswer | string]}
Info = {
  model_id: string, model_sha: string?, model_dtype: string,
  model_type: {
    embedding?: {pooling: string}, generation?: {context_length: integer},
    tensors?: {platform: string}, reranker?: {id2label: {*: string}, label2id: {*: integer}},
    classifier?: {id2label: {*: string}, label2id: {*: integer}}
  } "One of them",
  max_concurrent_requests: integer, max_input_length: integer, max_batch_tokens: integer,
  max_client_batch_size: integer, auto_truncate: boolean, tokenization_workers: integer,
  version: string, sha: null, docker_label: null, server: string, backend: string,
  architecture: string, dimensions: integer, int8_keep?: string,
  models: [{
    id: string, aliases: [string],
    task: "embedding"/"reranking"/"classification"/"generation"/"tensors"/"", ready: boolean,
    dtype: string, max_tokens: integer, max_batch_tokens: integer, dimensions?: integer,
    chat?: boolean, max_model_len?: integer, context_length?: integer, platform?: string,
    max_batch_size?: integer, lifecycle: Lifecycle
  }]
}
BulkRequest = {action: "begin"/"end", id?: string "For end: as begin gave it"}
BulkRun = {
  object: string, id: string, state: "open"/"ended", idle_s_max?: integer, requests?: integer,
  released?: boolean, reason?: string, released_bytes?: integer
}
Index = {
  name: string, version: string, ready: boolean, models: [{id: string, task: string}],
  routes: [string]
}
OpenApi = {*: any}
State = {status: string, reason?: string}
Stats = {
  uptime_s: number, window_s: number, stage_timers: boolean,
  requests?: {
    per_s: number, count: integer, total_s: number, mean_ms: number, p50_ms: number,
    p90_ms: number, p95_ms: number, p99_ms: number, p999_ms: number, max_ms: number
  },
  stages?: [{
    stage: string, percent: number, count: integer, total_s: number, mean_ms: number,
    p50_ms: number, p90_ms: number, p95_ms: number, p99_ms: number, p999_ms: number,
    max_ms: number
  }],
  models: [{
    model: string, ready: boolean, queued_requests: integer, queued_tokens: integer,
    batches: integer, rows: integer, tokens: integer, rows_per_batch: number,
    tokens_per_batch: number, batch_mean_ms: number, tokens_per_s: number, busy_percent: number,
    text?: TextStats, tensors?: TensorStats
  }],
  tokenization: {workers: integer, waiting_tasks: integer, busy_percent: number},
  process: {processors_busy: number, processors_max: number, resident_bytes: integer},
  bottleneck: {name: string, why: string, saturated: boolean, window_s: number}
}
TeiError = {error: string, error_type: string, field?: string}
KeepAlive = number/string?
  "How long the model stays loaded after this: seconds or a text such as 5m; negative: for "
  "ever. Where administrators have keys, others keep it from 60 s to --keep-alive"
CacheSalt = string?(minLength: 1, maxLength: 256)
  "Requests of a key with another one share nothing that is cached"
ModelCall = {model: string}
LoadCall = {model: string, keep_alive?: KeepAlive}
Lifecycle = {
  state: "waiting"/"loading"/"ready"/"parked"/"draining"/"absent"/"failed"
    "parked: its weights are loaded, activations and caches have gone to others",
  error?: string "Given for a model that failed to load",
  version?: integer "Given for a model of a repository",
  refused_version?: {version: integer, error: string}
    "The highest version that was not taken, and why",
  load_percent?: integer "While it is loaded: of the download, then of its weights",
  pinned: boolean, keep_alive_s: number "-1: for ever", idle_s?: number, unload_in_s?: number,
  loads: integer, load_s: number "How long the last load took",
  evictions: integer "Unloads for the memory of others", requests_waiting: integer,
  memory: {weights_bytes: integer, activations_bytes: integer, cache_bytes: integer}
    "Bytes it may take at most; 0 while it is not loaded"
}
ModelState = {id: string, object: string, lifecycle: Lifecycle}
TensorStats = {
  requests: integer, requests_per_s: number, rows_per_s: number, queued_rows: integer,
  queued_bytes: integer, max_batch_size: integer
}
LiveEvent = ({
  version: string, interval_ms: integer, points_max: integer,
  limits: {
    processors: integer, tokenization_workers: integer, models_bytes: integer,
    requests_bytes: integer, caches_bytes: integer, pulls: boolean
  },
  fields: [string], points: [LivePoint]
} || LivePoint || Stats)
  "event: history (first): fields names the numbers of a point; points are those of the last "
  "minutes. event: point, one a second: the numbers. event: stats: as GET /v1/stats."
LivePoint = [number?]
Requests = {
  slow_request_ms: integer, slow_count: integer,
  slow: [{
    unix_ms: integer, ms: number, method: string, route: string, status: integer,
    bytes_in: integer, bytes_out: integer, request_id: string, model?: string, rows?: integer,
    tokens?: integer, stages?: {*: number}
  }],
  errors: [{kind: string, count: integer}] "The sums of failures by kind",
  failures: [{method?: string, route?: string, status: integer, kind: string, count: integer}]
}
FileForm = {purpose: "batch", file: string(format: "binary")}
File = {
  id: string, object: string, bytes: integer, created_at: integer, filename: string,
  purpose: "batch"/"batch_output", status: string
}
Files = {object: string, data: [File], first_id?: string, last_id?: string, has_more: boolean}
FileContent = string
FileDeleted = {id: string, object: string, deleted: boolean}
BatchRequest = {
  input_file_id: string, endpoint: "/v1/embeddings"/"/v1/chat/completions"/"/v1/completions",
  completion_window: "24h", metadata?: {*: string}?
}
Batch = {
  id: string, object: string, endpoint: string,
  errors: {
    object: string, data: [{code: string, message: string, param: string?, line: integer?}]
  }?,
  input_file_id: string, completion_window: string,
  status: "validating"/"in_progress"/"cancelling"/"completed"/"failed"/"expired"/"cancelled",
  output_file_id: string?, error_file_id: string?, created_at: integer,
  in_progress_at?: integer?, expires_at?: integer?, completed_at?: integer?,
  failed_at?: integer?, expired_at?: integer?, cancelling_at?: integer?,
  cancelled_at?: integer?,
  request_counts: {total: integer, completed: integer, failed: integer}, metadata: {*: string}?
}
Batches = {
  object: string, data: [Batch], first_id?: string, last_id?: string, has_more: boolean
}
)schemas";

}  // namespace penstock
