// The schemas of generated text: OpenAI's, text-generation-inference's, and Ollama's.
// For routes/openapi.h.
#include "routes/openapi.h"

namespace penstock {

const std::string_view kOpenApiTextSchemas = R"schemas(
Sampling = {
  temperature?: number?(minimum: 0, maximum: 2), top_p?: number?(minimum: 0, maximum: 1),
  top_k?: integer?(minimum: -1) "0 or -1: off", min_p?: number?(minimum: 0, maximum: 1),
  repetition_penalty?: number?(minimum: 0.01, maximum: 100),
  presence_penalty?: number?(minimum: -2, maximum: 2),
  frequency_penalty?: number?(minimum: -2, maximum: 2), seed?: integer?,
  stop?: string | [string](maxItems: 32) | null, include_stop_str_in_output?: boolean,
  stop_token_ids?: [integer]?(maxItems: 64), ignore_eos?: boolean, keep_alive?: KeepAlive,
  cache_salt?: CacheSalt, min_tokens?: integer(minimum: 0),
  logit_bias?: {*: number(minimum: -100, maximum: 100)}? "Keys are token ids"
}
TextRequest = Sampling & {
  model?: string "Name or alias of a model; default: the first that generates text",
  stream?: boolean?, stream_options?: {include_usage?: boolean}?,
  n?: integer?(minimum: 1, maximum: 16),
  max_tokens?: integer?(minimum: 0) "0: completions with echo, the prompt alone",
  max_completion_tokens?: integer?(minimum: 0)
}
ChatMessage = {
  role: string, content?: string | null | [string | {type: string, text?: string}],
  reasoning_content?: string?, reasoning?: string?, tool_calls?: [object]?,
  tool_call_id?: string
}
ChatPrompt = {
  messages: [ChatMessage](minItems: 1, maxItems: 4096),
  tools?: [{
    type: "function", function: {name: string, description?: string, parameters?: object}
  }]?(maxItems: 256),
  chat_template_kwargs?: object? "More variables for the template", reasoning_effort?: string?,
  add_generation_prompt?: boolean, continue_final_message?: boolean
}
ChatRequest = TextRequest & ChatPrompt & {
  logprobs?: boolean?, top_logprobs?: integer?(minimum: 0, maximum: 20),
  tool_choice?: "none"/"auto"?, parallel_tool_calls?: boolean?,
  response_format?: {type?: "text"}?
}
TextUsage = {
  prompt_tokens: integer, completion_tokens: integer, total_tokens: integer,
  prompt_tokens_details: {cached_tokens: integer "That were not computed again"}
}
TokenLogprob = {
  token: string, logprob: number, bytes: [integer],
  top_logprobs: [{token: string, logprob: number, bytes: [integer]}]
}
ChatLogprobs = {content: [TokenLogprob], refusal: null}?
ToolCall = {
  index?: integer "In events alone", id?: string, type?: string,
  function: {name?: string, arguments: string "JSON, as the model wrote it"}
}
ChatCompletion = {
  id: string, object: string, created: integer, model: string, system_fingerprint: string,
  choices: [{
    index: integer,
    message: {
      role: string, content: string?, refusal: null, reasoning_content?: string,
      reasoning?: string, tool_calls?: [ToolCall]
    },
    logprobs: ChatLogprobs, finish_reason: "stop"/"length"/"tool_calls"
  }],
  usage: TextUsage
}
ChatChunk = {
  id: string, object: string, created: integer, model: string, system_fingerprint: string,
  choices: [{
    index: integer,
    delta: {
      role?: string, content?: string, reasoning_content?: string, reasoning?: string,
      tool_calls?: [ToolCall]
    },
    logprobs: ChatLogprobs, finish_reason: string?
  }],
  usage?: TextUsage | null
} "An event; the last one is the text [DONE], or an error"
CompletionRequest = TextRequest & {
  prompt: (string | [string] | [integer] | [[integer]])
    "A text, texts, token ids, or lists of those",
  echo?: boolean?, logprobs?: integer?(minimum: 0, maximum: 20), add_special_tokens?: boolean
}
CompletionLogprobs = {
  tokens: [string], token_logprobs: [number?], top_logprobs: [{*: number}?],
  text_offset: [integer]
}?
CompletionChoice = {
  index: integer, text: string, logprobs: CompletionLogprobs, finish_reason: string?
}
Completion = {
  id: string, object: string, created: integer, model: string, system_fingerprint: string,
  choices: [CompletionChoice], usage: TextUsage
}
CompletionChunk = {
  id: string, object: string, created: integer, model: string, system_fingerprint: string,
  choices: [CompletionChoice], usage?: TextUsage | null
} "An event; the last one is the text [DONE], or an error"
ApplyTemplateRequest = ChatPrompt & {model?: string}
AppliedTemplate = {prompt: string}
TgiRequest = {
  model?: string, inputs: string, stream?: boolean "Only for POST /",
  parameters?: Sampling & {
    max_new_tokens?: integer?(minimum: 1, default: 100), do_sample?: boolean?,
    return_full_text?: boolean?, details?: boolean,
    top_n_tokens?: integer?(minimum: 0, maximum: 20)
  }
}
TgiToken = {id: integer, text: string, logprob: number, special: boolean}
TgiTopTokens = [TgiToken]
TgiText = {
  generated_text: string,
  details?: {
    finish_reason: "length"/"eos_token"/"stop_sequence", generated_tokens: integer,
    seed: integer?, prefill: [object], tokens: [TgiToken], top_tokens?: [TgiTopTokens]
  }
}
TgiEvent = {
  index: integer, token: TgiToken, top_tokens?: TgiTopTokens, generated_text: string?,
  details: {finish_reason?: string, generated_tokens?: integer, seed?: integer?}?
}
TextStats = {
  running: integer, waiting: integer, generated_tokens: integer, prompt_tokens: integer,
  cached_tokens: integer, generated_tokens_per_s: number, prompt_tokens_per_s: number,
  first_token_mean_ms: number, inter_token_mean_ms: number,
  kv: {
    block_tokens: integer, blocks: integer, blocks_used: integer, blocks_cached: integer,
    window_blocks?: integer, window_blocks_used?: integer, window_blocks_cached?: integer,
    bytes: integer, bytes_used: integer, bytes_cached: integer
  }
}
OllamaError = {error: string}
OllamaEmbedRequest = {
  model: string "Name or alias of a model; \":latest\" behind it is passed over",
  input?: (string | [string]) "Without them the model is only loaded",
  truncate?: boolean(default: true), dimensions?: integer?(minimum: 1), keep_alive?: KeepAlive,
  options?: object?
}
OllamaEmbeddings = {
  model: string, embeddings: [[number]], total_duration: integer "Nanoseconds",
  prompt_eval_count: integer, truncated: Truncated
}
OllamaEmbeddingRequest = {
  model: string, prompt?: string, keep_alive?: KeepAlive, options?: object?
}
OllamaEmbedding = {embedding: [number]}
OllamaTextRequest = {
  model: string, stream?: boolean(default: true), think?: boolean/string?,
  keep_alive?: KeepAlive, logprobs?: boolean, top_logprobs?: integer(minimum: 0, maximum: 20),
  options?: {
    temperature?: number(minimum: 0, maximum: 2), top_p?: number(minimum: 0, maximum: 1),
    top_k?: integer(minimum: -1), min_p?: number(minimum: 0, maximum: 1),
    repeat_penalty?: number(minimum: 0.01, maximum: 100), repeat_last_n?: integer(minimum: -1),
    presence_penalty?: number(minimum: -2, maximum: 2),
    frequency_penalty?: number(minimum: -2, maximum: 2), seed?: integer,
    stop?: string | [string], num_predict?: integer "0 and below: no limit"
  }?
    "mirostat, typical_p and tfs_z are refused; names that are not options are listed in "
    "X-Penstock-Ignored-Options"
}
OllamaGenerateRequest = OllamaTextRequest & {
  prompt?: string "Without it the model is only loaded, or with keep_alive 0 unloaded",
  system?: string, raw?: boolean "The prompt is taken without a chat template"
}
OllamaChatRequest = OllamaTextRequest & {
  messages?: [{
    role: string, content?: string, thinking?: string, tool_name?: string, tool_calls?: [object]
  }](maxItems: 4096),
  tools?: [object]?(maxItems: 256)
}
OllamaText = {
  model: string, created_at: string, response?: string "/api/generate",
  thinking?: string "/api/generate",
  message?: {
    role: string, content: string, thinking?: string,
    tool_calls?: [{id: string, function: {name: string, arguments: {*: any}}}]
  } "/api/chat",
  logprobs?: [TokenLogprob], done: boolean, done_reason?: "stop"/"length"/"load"/"unload",
  total_duration?: integer,
  load_duration?: integer "Until the model was there and the prompt read",
  prompt_eval_count?: integer, prompt_eval_duration?: integer, eval_count?: integer,
  eval_duration?: integer
} "The whole, or a line of it; durations are in nanoseconds"
OllamaDetails = {
  parent_model: string, format: string, family: string, families: [string],
  parameter_size: string, quantization_level: string
}
OllamaModels = {
  models: [{
    name: string, model: string, size: integer "Bytes of weights; 0 while it is not loaded",
    digest: string "Digest of the name and the revision, not of the files",
    details: OllamaDetails, modified_at: string
  }]
}
OllamaModel = {
  license?: string, modelfile?: string, parameters?: string,
  template: string "The chat template, in Jinja", details: OllamaDetails, model_info: object,
  capabilities: [string], modified_at: string
}
OllamaVersion = {
  version: string "The version of Ollama's API whose routes these are",
  penstock: string "The version of Penstock"
}
OllamaPullRequest = {
  model: string
    "owner/name, owner/name:QUANT or owner/name/file.gguf; hf.co/ may stand before it",
  stream?: boolean(default: true)
}
OllamaPulled = {
  status: string, digest?: string "Digest of the file's name",
  total?: integer "Bytes of the file", completed?: integer
} "The whole answer, or one line of it"
LoadedModels = {
  models: [{
    name: string, model: string, size: integer, digest: string, size_vram: integer,
    details: OllamaDetails, expires_at: string, context_length?: integer, lifecycle: Lifecycle
  }]
}
)schemas";

}  // namespace penstock
