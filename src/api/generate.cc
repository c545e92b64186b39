#include "api/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "api/call_grammar.h"
#include "api/fill_prompt.h"
#include "api/request_checks.h"
#include "api/service_impl.h"
#include "cache/cache_salt.h"
#include "grammar/grammar_compiler.h"
#include "log/exception_status.h"
#include "metrics/stages.h"
#include "reply/call_markup.h"

namespace penstock::api {
namespace {

// A prompt of at least this size is tokenized in a long turn of the worker pool.
constexpr size_t kLongPromptBytes = 256 << 10;

// Printed bytes of a prompt's token with its log-probability and offset, and of each alternative to
// it; and what the heap adds for an entry that is kept.
constexpr int64_t kPrintedLogprobBytes = 48, kPrintedTopBytes = 48, kHeapBytes = 64;

size_t TextBytes(const GeneratePrompt& prompt) {
  if (const auto* const fill = std::get_if<FillPrompt>(&prompt.value)) return FillBytes(*fill);
  const auto* const text = std::get_if<std::string>(&prompt.value);
  return text == nullptr ? 0 : text->size();
}

class GenerateRun : public std::enable_shared_from_this<GenerateRun> {
 public:
  GenerateRun(const GenerateParts& parts, std::shared_ptr<GenerateModel> model,
              std::shared_ptr<TextRequest> request, RequestContext context,
              std::shared_ptr<GenerateFeed> feed, Callback<GenerateEnd> answer)
      : parts_(parts),
        model_(std::move(model)),
        request_(std::move(request)),
        context_(std::move(context)),
        feed_(std::move(feed)),
        answer_(std::move(answer)) {
    if (context_.cancel == nullptr) context_.cancel = std::make_shared<CancelToken>();
    reading_.logprobs = request_->sampling.options.logprobs;
    written_.resize(request_->prompts.size() * static_cast<size_t>(request_->samples));
  }

  void Start() {
    feed_->SetMemory(context_.memory);
    if (metrics::RequestTrace* const trace = context_.trace.get()) {
      trace->SetModel(model_->name());
      trace->SetRows(static_cast<int64_t>(request_->prompts.size()) * request_->samples);
      trace->Enter(metrics::Stage::kTokenize);
    }
    PrepareAll();
  }

  // Has a worker render and tokenize the prompts.
  void PrepareAll() {
    const auto length = IsLong() ? WorkerPool::Length::kLong : WorkerPool::Length::kShort;
    Status taken = parts_.pool->Submit([self = shared_from_this()] { return self->PrepareNext(); },
                                       context_.priority, length);
    if (!taken.ok()) Refuse(std::move(taken));
  }

  // ---- Of the step thread.
  void OnToken(int32_t choice, const generate::GeneratedToken& token, std::string_view text) {
    if (!decoding_) {
      decoding_ = true;
      first_token_ = Clock::now();
      if (context_.trace != nullptr) context_.trace->Enter(metrics::Stage::kDecode);
    }
    const int64_t written = ++written_[static_cast<size_t>(choice)];
    if (written > longest_) {
      longest_ = written;
      if (context_.trace != nullptr) context_.trace->SetTextTokens(longest_);
    }
    if (Status added = feed_->AddToken(choice, token, text); !added.ok()) Fail(std::move(added));
  }
  void OnPrompt(int32_t prompt, std::span<const generate::GeneratedToken> tokens, bool last) {
    feed_->AddPrompt(prompt, tokens, last);
  }
  void OnSampleEnd(int32_t choice, generate::FinishReason reason, std::string_view text,
                   int stop_string) {
    Status added = feed_->AddChoiceEnd(choice, reason, text, stop_string);
    if (!added.ok()) Fail(std::move(added));
  }
  void OnJobEnd(const Status& status, const generate::DecodeUsage& usage) {
    {
      const std::lock_guard lock(mutex_);
      usage_.prompt_tokens += usage.prompt_tokens;
      usage_.cached_tokens += usage.cached_tokens;
      usage_.completion_tokens += usage.completion_tokens;
      if (status_.ok()) status_ = status;
    }
    DropOne();
  }
  // As they come: an answer that is cut off has its line in the log before its jobs have ended.
  void CountTokens(int64_t tokens) const noexcept {
    if (metrics::RequestTrace* const trace = context_.trace.get()) trace->AddTokens(tokens);
  }
  // The first failure is the answer's; the other jobs end within a step.
  void Fail(Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
    }
    context_.cancel->Cancel();
  }

 private:
  bool IsLong() const {
    return next_ < request_->prompts.size() &&
           TextBytes(request_->prompts[next_]) >= kLongPromptBytes;
  }

  // Has the answer held to the calls of its tools, where it has some.
  Status HoldCalls();
  // Has what the answer is held to checked, and compiled by another thread unless it is known.
  Status GetGrammar() {
    if (context_.memory != nullptr) {
      PENSTOCK_RETURN_IF_ERROR(
          context_.memory->Take(static_cast<int64_t>(request_->grammar->bytes())));
    }
    auto pending = std::make_shared<generate::PendingGrammar>();
    // What cannot be held to is an error, but for calls inside of a text.
    const bool required = grammar_.calls == nullptr;
    has_grammar_ = !required;
    // A request that has ended waits for no compiler.
    model_->GetGrammar(
        *std::exchange(request_->grammar, {}),
        [weak = weak_from_this()] {
          const auto self = weak.lock();
          return self != nullptr ? self->context_.CheckWanted(Clock::now())
                                 : Status(StatusCode::kCancelled, "the request has ended");
        },
        [weak = weak_from_this(), pending,
         required](Expected<std::shared_ptr<const grammar::Grammar>> made) {
          const auto self = weak.lock();
          if (self == nullptr) return;
          if (!made.ok() && required) return self->Fail(std::move(made).status());
          // Before the text can begin.
          self->OnGrammar();
          pending->Set(made.ok() ? *std::move(made) : nullptr);
        });
    const std::lock_guard lock(mutex_);
    if (pending->ready()) {
      grammar_.grammar = pending->grammar();
    } else {
      grammar_.pending = std::move(pending);
    }
    return status_;
  }
  // The answer begins once its grammar is there, and its jobs are handed over.
  void OnGrammar() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(has_grammar_, true) || !handed_over_ || left_ == 0) return;
      ++left_;
    }
    try {
      feed_->Begin(std::move(begun_), std::move(reading_));
    } catch (...) {
      Fail(ExceptionStatus());
    }
    DropOne();
  }

  WorkerPool::Turn PrepareNext() {
    Status status;
    try {
      status = context_.CheckWanted(Clock::now());
      if (status.ok() && next_ == 0) status = HoldCalls();
      const size_t count = request_->prompts.size();
      if (status.ok() && next_ < count) {
        status = Prepare(&request_->prompts[next_]);
        ++next_;
      }
      if (status.ok() && next_ < count) {
        return IsLong() ? WorkerPool::Turn::kAgainLong : WorkerPool::Turn::kAgain;
      }
      // Behind the prompts, which may be too long: compiling takes more than they do.
      if (status.ok() && request_->grammar) status = GetGrammar();
      if (status.ok()) {
        SubmitAll();
        return WorkerPool::Turn::kDone;
      }
    } catch (...) {
      status = ExceptionStatus();
    }
    if (!submitting_) Refuse(std::move(status));
    return WorkerPool::Turn::kDone;
  }

  Status Prepare(GeneratePrompt* prompt);
  Expected<std::vector<int32_t>> Tokens(GeneratePrompt* prompt);
  Expected<std::string> RenderChat(ChatPrompt chat);
  Status CheckIds(const GeneratePrompt& prompt, const std::vector<int32_t>& ids) const;
  Status TakeScores(size_t tokens);
  std::optional<int32_t> DefaultTokens(int64_t left) const;
  void AddReplies(reply::ReplyFormat format, std::string_view text);
  void SubmitAll();
  bool IsHandedOver();

  // No job was handed over.
  void Refuse(Status status) {
    jobs_.clear();
    if (const auto answer = std::exchange(answer_, nullptr)) answer(std::move(status));
  }
  // A job has ended, or the hand-over is done; the last one ends the request.
  void DropOne();

  const GenerateParts parts_;
  const std::shared_ptr<GenerateModel> model_;
  const std::shared_ptr<TextRequest> request_;
  RequestContext context_;
  const std::shared_ptr<GenerateFeed> feed_;
  Callback<GenerateEnd> answer_;
  const Clock::time_point begin_ = Clock::now();

  // Used by the worker alone.
  size_t next_ = 0;  // prompt to prepare
  bool submitting_ = false;
  std::vector<std::unique_ptr<generate::DecodeJob>> jobs_;
  GenerateBegun begun_;
  GenerateFeed::Reading reading_;
  std::vector<int32_t> shown_;    // of the prompt being prepared, as DecodeJob has it
  generate::GrammarUse grammar_;  // the same
  int64_t score_bytes_ = 0;       // printed, of all prompts

  // Used by the step thread alone, until the jobs have ended.
  bool decoding_ = false;  // a token has come
  Clock::time_point first_token_;
  std::vector<int64_t> written_;  // tokens of each choice
  int64_t longest_ = 0;           // the most of them

  std::mutex mutex_;
  // All guarded by mutex_.
  size_t left_ = 0;  // jobs under way, and the hand-over
  bool handed_over_ = false;
  bool has_grammar_ = false;  // that was pending, or need not be there for the answer to begin
  Status status_;
  GenerateUsage usage_;
};

// Takes the tokens of one job, which makes the samples of one prompt.
class JobSink final : public generate::DecodeSink {
 public:
  JobSink(std::shared_ptr<GenerateRun> run, int32_t prompt, int32_t samples, size_t tokens)
      : run_(std::move(run)), prompt_(prompt), first_(prompt * samples), unscored_(tokens) {}
  void OnPrompt(std::span<const generate::GeneratedToken> tokens) noexcept override {
    unscored_ -= tokens.size();
    Guarded([&] { run_->OnPrompt(prompt_, tokens, unscored_ == 0); });
  }
  void OnToken(int32_t sample, const generate::GeneratedToken& token,
               std::string_view text) noexcept override {
    run_->CountTokens(1);
    Guarded([&] { run_->OnToken(first_ + sample, token, text); });
  }
  void OnSampleEnd(int32_t sample, generate::FinishReason reason, std::string_view text,
                   int stop_string) noexcept override {
    Guarded([&] { run_->OnSampleEnd(first_ + sample, reason, text, stop_string); });
  }
  void OnEnd(const Status& status, const generate::DecodeUsage& usage) noexcept override {
    // Without memory the run goes with the sink, and the last owner of its callback answers.
    RunGuarded("generation", [&] { run_->OnJobEnd(status, usage); });
  }

 private:
  template <typename Work>
  void Guarded(Work&& work) noexcept {
    if (RunGuarded("generation", std::forward<Work>(work))) return;
    RunGuarded("generation", [this] {
      run_->Fail(MakeStatus(StatusCode::kResourceExhausted, "no memory for the text"));
    });
  }
  const std::shared_ptr<GenerateRun> run_;
  const int32_t prompt_;
  const int32_t first_;  // choice of sample 0
  size_t unscored_;      // tokens of the prompt
};

Status GenerateRun::CheckIds(const GeneratePrompt& prompt, const std::vector<int32_t>& ids) const {
  const int32_t vocabulary = model_->tokenizer().vocab_size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    return Status::InvalidArgument(fmt::format("{}[{}]: {} is not a token id; they are 0 to {}",
                                               prompt.field, i, ids[i], vocabulary - 1),
                                   prompt.field);
  }
  return Status::Ok();
}

Expected<std::string> GenerateRun::RenderChat(ChatPrompt chat) {
  if (!request_->parses_reply) return model_->Render(std::move(chat), context_);
  reply::ReplyFormat format = model_->reply_format(chat);
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, model_->Render(std::move(chat), context_));
  AddReplies(std::move(format), text);
  return text;
}

Expected<std::vector<int32_t>> GenerateRun::Tokens(GeneratePrompt* prompt) {
  if (const auto* const ids = std::get_if<std::vector<int32_t>>(&prompt->value)) {
    PENSTOCK_RETURN_IF_ERROR(CheckIds(*prompt, *ids));
    if (request_->echoes_prompt) begun_.prompts.push_back(model_->tokenizer().Decode(*ids, true));
    return *ids;
  }
  text::EncodeOptions options;
  options.add_special_tokens = prompt->add_special_tokens;
  options.stop = {context_.cancel.get(), context_.deadline};
  if (const auto* const fill = std::get_if<FillPrompt>(&prompt->value)) {
    if (request_->echoes_prompt) begun_.prompts.push_back(fill->prefix);
    std::vector<int32_t> stops;
    auto ids = FillTokens(model_->tokenizer(), *fill, options.stop, &stops);
    sample::SamplingOptions& sampling = request_->sampling.options;
    if (!sampling.ignore_eos) {
      sampling.stop_token_ids.insert(sampling.stop_token_ids.end(), stops.begin(), stops.end());
    }
    return ids;
  }
  std::string rendered;
  ScopedMemory rendered_memory(context_.memory.get());
  const std::string* text = std::get_if<std::string>(&prompt->value);
  if (text == nullptr) {
    // Moved away: what the client wrote is kept no longer than it takes to render it.
    ChatPrompt chat = std::exchange(std::get<ChatPrompt>(prompt->value), ChatPrompt());
    PENSTOCK_ASSIGN_OR_RETURN(rendered, RenderChat(std::move(chat)));
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(rendered, prompt->field, *parts_.options));
    PENSTOCK_RETURN_IF_ERROR(rendered_memory.Take(static_cast<int64_t>(rendered.capacity())));
    text = &rendered;
    options.add_special_tokens = false;
  }
  if (request_->echoes_prompt) begun_.prompts.push_back(*text);
  text::Encoding encoding;
  PENSTOCK_RETURN_IF_ERROR(model_->tokenizer().Encode(*text, options, &encoding));
  return std::move(encoding.ids);
}

// Memory for the scores of a prompt, as they are kept and as they are printed for each of its
// texts.
Status GenerateRun::TakeScores(size_t tokens) {
  const auto count = static_cast<int64_t>(tokens);
  const int64_t others = request_->sampling.options.top_logprobs;
  const int64_t printed =
      count * (kPrintedLogprobBytes + (1 + others) * kPrintedTopBytes) * request_->samples;
  score_bytes_ += printed;
  if (score_bytes_ > parts_.options->response_bytes) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the log-probabilities of the prompts would be about {} bytes; the limit "
                        "is {} (--max-response-bytes)",
                        score_bytes_, parts_.options->response_bytes)};
  }
  if (context_.memory == nullptr) return Status::Ok();
  const auto kept = static_cast<int64_t>(sizeof(TokenInfo) + sizeof(generate::GeneratedToken));
  const auto kept_top = static_cast<int64_t>(sizeof(TokenText) + sizeof(sample::TokenLogprob));
  return context_.memory->Take(count * (kept + kHeapBytes + others * kept_top) + printed);
}

Status GenerateRun::HoldCalls() {
  const bool required = std::exchange(request_->requires_call, false);
  const auto* const chat = std::get_if<ChatPrompt>(&request_->prompts.front().value);
  if (chat == nullptr || request_->tools == nullptr) {
    if (!required) return Status::Ok();
    return Status::InvalidArgument("'tool_choice' needs tools", "tool_choice");
  }
  const reply::ReplyFormat format = model_->reply_format(*chat);
  const CallUse use = required            ? CallUse::kRequired
                      : request_->grammar ? CallUse::kOrAnswer
                                          : CallUse::kInText;
  if (use == CallUse::kInText && !grammar::HasGrammars()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(grammar::GrammarSpec spec,
                            CallGrammar(*request_, format, use, model_->name()));
  if (spec.calls.ways.empty()) return Status::Ok();
  request_->grammar = std::move(spec);
  if (use == CallUse::kInText) {
    const auto markup = reply::CallMarkupOf(format);
    auto triggers =
        std::make_shared<generate::CallTriggers>(generate::CallTriggers{markup->triggers, {}});
    if (markup->names_trigger) triggers->line_begin = CallBegins(request_->grammar->calls);
    grammar_.calls = std::move(triggers);
  }
  return Status::Ok();
}

void GenerateRun::AddReplies(reply::ReplyFormat format, std::string_view text) {
  reply::ReplyOptions options;
  options.format = std::move(format);
  options.format.begins_thinking = reply::PromptOpensThinking(options.format, text);
  grammar_.think_begin = options.format.think_begin;
  grammar_.think_end = options.format.think_end;
  grammar_.begins_thinking = options.format.begins_thinking;
  options.tools = request_->tools;
  options.streams_arguments = request_->streams && !request_->whole_calls;
  if (!request_->parallel_calls) options.limits.calls_max = 1;
  for (int32_t i = 0; i < request_->samples; ++i) {
    // Ids of calls differ from reply to reply.
    options.id_seed = static_cast<uint64_t>(begin_.time_since_epoch().count()) * 131 +
                      reinterpret_cast<uintptr_t>(this) + reading_.replies.size();
    reading_.replies.push_back(options);
  }
  const text::Tokenizer& tokenizer = model_->tokenizer();
  for (const std::string& marker : reply::MarkerTokens(options.format)) {
    const int32_t id = tokenizer.TokenToId(marker);
    if (id >= 0 && tokenizer.IsSpecial(id)) shown_.push_back(id);
  }
}

// The most tokens of a text that the request does not bound. `left`: room in the context.
std::optional<int32_t> GenerateRun::DefaultTokens(int64_t left) const {
  if (request_->max_tokens_default) {
    return static_cast<int32_t>(std::min<int64_t>(*request_->max_tokens_default, left));
  }
  const std::optional<int32_t>& bound = model_->defaults().max_new_tokens;
  if (!bound) return std::nullopt;
  const int32_t most = std::max(*bound, request_->sampling.options.min_tokens);
  return most < left ? std::optional(most) : std::nullopt;
}

Status GenerateRun::Prepare(GeneratePrompt* prompt) {
  shown_.clear();
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Tokens(prompt));
  if (ids.empty()) return Status::InvalidArgument(prompt->field + " has no token", prompt->field);
  const auto tokens = static_cast<int64_t>(ids.size());
  const int32_t context = model_->context();
  if (tokens > context || (tokens == context && !request_->prompt_only)) {
    return Status::InvalidArgument(
        fmt::format("{} has {} tokens; the context of model '{}' holds {}{}", prompt->field, tokens,
                    model_->name(), context,
                    request_->prompt_only ? "" : ", the text to come included"),
        prompt->field);
  }
  if (context_.memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(
        context_.memory->Take(tokens * static_cast<int64_t>(sizeof(int32_t)) +
                              generate::WaitingBytes(request_->sampling.options)));
  }
  auto job = std::make_unique<generate::DecodeJob>();
  job->sampling = request_->sampling.With(model_->defaults());
  auto& most = job->sampling.max_tokens;
  if (request_->prompt_only) {
    most = 1;
    job->sampling.min_tokens = 0;
  }
  if (!most) most = DefaultTokens(context - tokens);
  if (most && !request_->prompt_only && tokens + *most > context) {
    return Status::InvalidArgument(
        fmt::format("max_tokens is {}, and {} has {} tokens: together {}; the context of model "
                    "'{}' holds {}",
                    *most, prompt->field, tokens, tokens + *most, model_->name(), context),
        "max_tokens");
  }
  if (request_->scores_prompt) PENSTOCK_RETURN_IF_ERROR(TakeScores(ids.size()));
  job->scores_prompt = request_->scores_prompt;
  job->prompt_only = request_->prompt_only;
  job->prompt = std::move(ids);
  job->samples = request_->samples;
  job->shown = std::exchange(shown_, {});
  job->grammar = grammar_;
  job->context = context_;
  job->sink = std::make_shared<JobSink>(shared_from_this(), static_cast<int32_t>(next_),
                                        request_->samples, job->prompt.size());
  jobs_.push_back(std::move(job));
  CountTokens(tokens);
  begun_.prompt_tokens += tokens;
  return Status::Ok();
}

void GenerateRun::SubmitAll() {
  begun_.model = request_->model.empty() ? model_->name() : request_->model;
  reading_.model = model_;
  if (metrics::RequestTrace* const trace = context_.trace.get())
    trace->Enter(metrics::Stage::kQueue);
  {
    const std::lock_guard lock(mutex_);
    left_ = 1 + jobs_.size();
  }
  for (const auto& job : jobs_) {
    job->grammar.grammar = grammar_.grammar;
    job->grammar.pending = grammar_.pending;
  }
  submitting_ = true;
  std::vector<std::unique_ptr<generate::DecodeJob>> jobs = std::move(jobs_);
  size_t taken = 0;
  Status status;
  try {
    while (taken < jobs.size() && status.ok()) {
      status = model_->Submit(std::move(jobs[taken]));
      if (status.ok()) ++taken;
    }
    if (status.ok() && IsHandedOver()) feed_->Begin(std::move(begun_), std::move(reading_));
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) Fail(std::move(status));
  for (size_t i = taken; i < jobs.size(); ++i) DropOne();
  DropOne();
}

// Whether the answer begins with it: a grammar that is pending has it begin later.
bool GenerateRun::IsHandedOver() {
  const std::lock_guard lock(mutex_);
  handed_over_ = true;
  return grammar_.pending == nullptr || has_grammar_;
}

void GenerateRun::DropOne() {
  GenerateEnd end;
  {
    const std::lock_guard lock(mutex_);
    if (--left_ > 0) return;
    end.status = std::move(status_);
    end.usage = usage_;
  }
  const auto now = Clock::now();
  end.times.prompt = (decoding_ ? first_token_ : now) - begin_;
  if (decoding_) end.times.decode = now - first_token_;
  if (metrics::RequestTrace* const trace = context_.trace.get()) {
    if (end.status.ok()) trace->SetTokens(end.usage.prompt_tokens + end.usage.completion_tokens);
    trace->Enter(metrics::Stage::kComplete);
  }
  encode::Usage usage;
  usage.prompt_tokens = end.usage.prompt_tokens;
  parts_.metrics->CountTokens(Behaviour::kGenerate, usage, {});
  const auto answer = std::exchange(answer_, nullptr);
  if (!end.status.ok()) return answer(std::move(end.status));
  answer(std::move(end));
}

}  // namespace

Status CheckGenerate(const TextRequest& request, const ServiceOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request.prompts.size(), "prompt", options));
  if (request.samples < 1 || request.samples > TextRequest::kSamplesMax) {
    return Status::InvalidArgument(
        fmt::format("n is {}; it may be 1 to {}", request.samples, TextRequest::kSamplesMax), "n");
  }
  const size_t choices = request.prompts.size() * static_cast<size_t>(request.samples);
  if (choices > TextRequest::kChoicesMax) {
    return Status::InvalidArgument(
        fmt::format("{} prompts with n {} are {} texts; a request may have {}",
                    request.prompts.size(), request.samples, choices, TextRequest::kChoicesMax),
        "prompt");
  }
  for (const GeneratePrompt& prompt : request.prompts) {
    if (const auto* const text = std::get_if<std::string>(&prompt.value)) {
      PENSTOCK_RETURN_IF_ERROR(CheckBytes(*text, prompt.field, options));
    }
    if (const auto* const fill = std::get_if<FillPrompt>(&prompt.value)) {
      const size_t bytes = FillBytes(*fill);
      if (bytes > static_cast<size_t>(options.input_bytes)) {
        return {StatusCode::kPayloadTooLarge,
                fmt::format("{} and what is around it have {} bytes; the limit is {} "
                            "(--max-input-bytes)",
                            prompt.field, bytes, options.input_bytes),
                prompt.field};
      }
    }
  }
  return Status::Ok();
}

void StartGenerate(const GenerateParts& parts, std::shared_ptr<GenerateModel> model,
                   std::shared_ptr<TextRequest> request, RequestContext context,
                   std::shared_ptr<GenerateFeed> feed, Callback<GenerateEnd> answer) {
  std::make_shared<GenerateRun>(parts, std::move(model), std::move(request), std::move(context),
                                std::move(feed), std::move(answer))
      ->Start();
}

namespace {

// Gives a feed its end exactly once, also where memory ran out on the way: the front end waits for
// it.
class FeedEnd {
 public:
  explicit FeedEnd(std::shared_ptr<GenerateFeed> feed) : feed_(std::move(feed)) {}
  ~FeedEnd() { feed_->End({MakeStatus(StatusCode::kInternal, "lost"), {}}); }
  FeedEnd(const FeedEnd&) = delete;
  FeedEnd& operator=(const FeedEnd&) = delete;
  void Push(GenerateEnd end) noexcept { feed_->End(std::move(end)); }

 private:
  const std::shared_ptr<GenerateFeed> feed_;
};

void RenderOne(const GenerateModel& model, RenderRequest* request, const RequestContext& context,
               const ServiceOptions& limits, const Callback<RenderResponse>& answer) {
  if (Status wanted = context.CheckWanted(Clock::now()); !wanted.ok()) {
    return answer(std::move(wanted));
  }
  try {
    auto text = model.Render(std::move(request->chat), context);
    if (!text.ok()) return answer(std::move(text).status());
    RenderResponse response{*std::move(text)};
    if (request->counts_tokens) {
      if (Status small = CheckBytes(response.prompt, "messages", limits); !small.ok()) {
        return answer(std::move(small));
      }
      text::EncodeOptions options;
      options.add_special_tokens = false;  // the template has them
      options.stop = {context.cancel.get(), context.deadline};
      text::Encoding encoding;
      Status encoded = model.tokenizer().Encode(response.prompt, options, &encoding);
      if (!encoded.ok()) return answer(std::move(encoded));
      response.tokens = static_cast<int64_t>(encoding.ids.size());
    }
    answer(std::move(response));
  } catch (...) {
    answer(ExceptionStatus());
  }
}

}  // namespace

void Service::Generate(TextRequest request, RequestContext context,
                       std::shared_ptr<GenerateFeed> feed) {
  auto answer = impl_->Admit<GenerateEnd>(
      Behaviour::kGenerate, context,
      [end = std::make_shared<FeedEnd>(feed)](Expected<GenerateEnd> result) {
        if (result.ok()) return end->Push(*std::move(result));
        end->Push({std::move(result).status(), {}});
      });
  if (!answer) {
    const auto engine = impl_->registry->Find<engine::DecoderEngine>(request.model);
    if (engine.ok()) (*engine)->scheduler().CountRefused(context.priority);
    return;
  }
  if (request.keep_alive) context.keep_alive = request.keep_alive;
  context.cache_salt = cache::JoinCacheSalt(context.cache_salt, request.cache_salt);
  const auto owned = std::make_shared<TextRequest>(std::move(request));
  impl_->WithModel(owned->model, Impl::UseOf(Behaviour::kGenerate), std::move(context), answer,
                   [this, owned, feed = std::move(feed), answer](RequestContext with) {
                     auto model = FindGenerateModel(*impl_->registry, owned->model);
                     if (!model.ok()) return answer(std::move(model).status());
                     if (Status checked = CheckGenerate(*owned, options_); !checked.ok()) {
                       return answer(std::move(checked));
                     }
                     StartGenerate({&impl_->pool, &impl_->metrics, &options_}, *std::move(model),
                                   owned, std::move(with), feed, answer);
                   });
}

void Service::Render(RenderRequest request, RequestContext context, Callback<RenderResponse> done) {
  auto answer = impl_->Admit(Behaviour::kRender, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<RenderRequest>(std::move(request));
  impl_->WithModel(owned->model, Impl::UseOf(Behaviour::kRender), std::move(context), answer,
                   [this, owned, answer](RequestContext with) {
                     auto model = FindGenerateModel(*impl_->registry, owned->model);
                     if (!model.ok()) return answer(std::move(model).status());
                     const Priority priority = with.priority;
                     Status taken = impl_->pool.Submit(
                         [this, answer, model = *std::move(model), owned, with = std::move(with)] {
                           RenderOne(*model, owned.get(), with, options_, answer);
                           return WorkerPool::Turn::kDone;
                         },
                         priority);
                     if (!taken.ok()) answer(std::move(taken));
                   });
}

}  // namespace penstock::api
