// The schemas of embeddings and ranking in the dialects of OpenAI, Jina, Voyage and Cohere, and of
// Cohere's chat, for routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiEmbedSchemas = R"schemas(
EmbeddingsRequest = TextOptions & {
  input: (string | [string | {text: string}] | [integer] | [[integer]])
    "A text, texts, token ids, or lists of those",
  encoding_format?: "float"/"base64"?, dimensions?: integer?(minimum: 1), normalize?: boolean?,
  quantize_range?: QuantizeRange,
  embedding_type?: "float"/"base64"/"int8"/"uint8"/"binary"/"ubinary" "Jina's",
  task?: string "Jina's: retrieval.query, retrieval.passage, ...",
  normalized?: boolean "Jina's name of normalize",
  output_dtype?: "float"/"int8"/"uint8"/"binary"/"ubinary"? "Voyage's",
  output_dimension?: integer?(minimum: 1) "Voyage's",
  truncation?: boolean "Voyage's name of truncate"
}
Embeddings = {
  object: string,
  data: [{
    object: string, index: integer,
    embedding: ([number] | string) "Numbers, or base64 of little-endian float32 or of bytes"
  }],
  model: string, usage: Usage, quantization?: Quantization, truncated: Truncated
}
EmbeddingLine = ({
  index: integer,
  embedding: ([number] | string) "Numbers, or base64 of little-endian float32 or of bytes"
} | {model: string, usage: Usage, quantization?: Quantization, truncated: Truncated} |
  OpenAiError | TeiError)
  "A line: an embedding; or the last one, which has the usage, or the error that ended the "
  "answer"
RerankRequest = TextOptions & {
  query: string | {text: string}, documents: [string | {text: string}],
  top_n?: integer?(minimum: 1), top_k?: integer?(minimum: 1) "Voyage's name of top_n",
  truncation?: boolean "Voyage's name of truncate", return_documents?: boolean,
  raw_scores?: boolean
}
Ranking = {
  id: string, object: string, model: string,
  results?: [{index: integer, relevance_score: number, document?: {text: string}}] "Best first",
  data?: [{index: integer, relevance_score: number, document?: string}]
    "In place of results, where the request has top_k or truncation, as Voyage's",
  usage: Usage,
  meta: {
    api_version: {version: string}, billed_units: {search_units: integer},
    tokens: {input_tokens: integer}
  },
  truncated: Truncated
}
OpenAiError = {
  error: {message: string, type: string, param: string?, code: string?},
  detail: string "The message again, as Voyage's client reads it"
}
RerankError = {message: string, detail: string, field?: string, code: string?, id: string}
QuantizeRange = number(exclusiveMinimum: 0, maximum: 1000000, default: 1)
  "int8 and uint8 stand for numbers from -r to r"
Quantization = {type: "int8"/"uint8", min: number, max: number, saturated: integer}
  "For int8 and uint8: the numbers that their ends stand for, and how many numbers were "
  "outside"
CohereEmbedRequest = {
  model?: string, texts?: [string], inputs?: [{content: [{type: "text", text: string}]}],
  input_type?: string, embedding_types?: ["float"/"int8"/"uint8"/"binary"/"ubinary"/"base64"],
  truncate?: string "NONE, START or END, the default", output_dimension?: integer(minimum: 1),
  quantize_range?: QuantizeRange
}
CohereEmbeddings = {
  id: string, response_type: "embeddings_by_type"/"embeddings_floats",
  embeddings: [[number]] | {
    float?: [[number]], int8?: [[integer]], uint8?: [[integer]], binary?: [[integer]],
    ubinary?: [[integer]], base64?: [string]
  },
  texts: [string],
  meta: {api_version: {version: string}, billed_units: {input_tokens: integer}},
  quantization?: Quantization, truncated: Truncated
}
CohereChatRequest = {
  model?: string, messages: [ChatMessage](minItems: 1), tools?: [object](maxItems: 256),
  stream?: boolean, max_tokens?: integer(minimum: 1),
  temperature?: number(minimum: 0, maximum: 2), k?: integer(minimum: 0),
  p?: number(minimum: 0, maximum: 1), seed?: integer, stop_sequences?: [string](maxItems: 32),
  frequency_penalty?: number(minimum: -2, maximum: 2),
  presence_penalty?: number(minimum: -2, maximum: 2), logprobs?: boolean,
  thinking?: {type: "enabled"/"disabled"}
}
CohereChat = {
  id: string, finish_reason: "COMPLETE"/"STOP_SEQUENCE"/"MAX_TOKENS"/"TOOL_CALL",
  message: {
    role: string, tool_plan?: string,
    tool_calls?: [{id: string, type: string, function: {name: string, arguments: string}}],
    content: [{type: "text"/"thinking", text?: string, thinking?: string}]
  },
  logprobs?: [object],
  usage: {billed_units: CohereTokens, tokens: CohereTokens, cached_tokens: integer}
}
CohereTokens = {input_tokens: integer, output_tokens: integer}
CohereChatEvent = {
  type: string, id?: string, index?: integer, delta?: object, logprobs?: object
}
  "message-start, content-start, content-delta, content-end, tool-call-start, "
  "tool-call-delta, tool-call-end, message-end"
)schemas";

}  // namespace penstock
