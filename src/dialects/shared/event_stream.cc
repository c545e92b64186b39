#include "dialects/shared/event_stream.h"

#include "api/generate_feed.h"
#include "base/int_math.h"
#include "dialects/shared/event_pump.h"
#include "frontend/request_policy.h"
#include "http/stream.h"
#include "http/stream_formats.h"

namespace penstock::dialects {
namespace {

using serving::ErrorBody;
using serving::PrintError;
using serving::RouteCall;

// Printed bytes of a token with its log-probability.
constexpr int64_t kPrintedTokenBytes = 96;
constexpr int64_t kPrintedTextFactor = 2;  // for what JSON escapes; six times for a few characters

int64_t PrintedBytes(const GeneratedAnswer& answer) {
  int64_t bytes = 1024;
  for (const GeneratedChoice& choice : answer.choices) {
    bytes += 256 + kPrintedTextFactor *
                       static_cast<int64_t>(choice.content.size() + 2 * choice.reasoning.size());
    for (const GeneratedChoice::Call& call : choice.calls) {
      bytes += 256 + kPrintedTextFactor * static_cast<int64_t>(call.arguments.size());
    }
    for (const api::TokenInfo& token : choice.tokens) {
      bytes += kPrintedTokenBytes * static_cast<int64_t>(1 + token.top.size());
    }
  }
  // Each text begins with its prompt.
  for (size_t i = 0; i < answer.prompts.size(); ++i) {
    const size_t texts = CeilDiv(answer.choices.size(), answer.prompts.size());
    bytes += kPrintedTextFactor * static_cast<int64_t>(answer.prompts[i].size() * texts);
  }
  return bytes;
}

// Reads a GenerateFeed on a worker, prints, and hands the text to the connection.
//
// The GenerateEnd is the last event and releases everything.
class TextPump final : public EventPump {
 public:
  TextPump(const RouteCall& call, std::unique_ptr<TextPrinter> printer, frontend::FieldNames names)
      : EventPump(call.service, call.request->context.priority, 0),
        service_(call.service),
        request_(call.request),
        respond_(call.respond),
        error_body_(call.route->error_body),
        ping_(call.options->stream_ping),
        names_(std::move(names)),
        printer_(std::move(printer)) {}

  void Start(api::TextRequest request) {
    streams_ = request.streams;
    // The feed holds this object until its end is read.
    feed_ = std::make_shared<api::GenerateFeed>(streams_, Waker());
    Hold();  // early events wait
    try {
      service_->Generate(std::move(request), request_->context, feed_);
    } catch (...) {
      feed_.reset();
      throw;
    }
    Resume();
  }

 private:
  void Drain() override {
    text_.clear();
    items_ = 0;
    while (feed_ != nullptr) {
      auto event = feed_->Next();
      if (!event) break;
      std::visit([this](auto& each) { Take(each); }, *event);
    }
    if (stream_ == nullptr) return;
    if (!text_.empty() && !stream_->Write(text_, items_)) request_->context.cancel->Cancel();
    // The model may be in a long step; the client is told in time.
    Status wanted = request_->context.CheckWanted(
        Clock::now(), "the request's time ran out before all of it was answered");
    if (!wanted.ok() && wanted.code() != StatusCode::kCancelled) EndStream(wanted);
  }

  void Take(const api::GenerateBegun& begun) {
    answer_.model = begun.model;
    answer_.prompts = begun.prompts;
    if (!streams_ || lost_) return;
    http::HttpResponse head;
    head.content_type = printer_->lines() ? http::kNdjsonType : http::kEventStreamType;
    // Proxies neither keep the events nor hold them back.
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");
    AddHeaders(&head);
    if (ping_.count() > 0 && !printer_->lines()) {
      http::AppendEventComment("ping", &head.idle_text);
      head.idle_after = ping_;
    }
    stream_ = respond_.Begin(std::move(head), Waker());
    printer_->Begin(begun, &text_);
  }

  void Take(api::PromptPart& part) {
    if (lost_) return;
    const auto index = static_cast<size_t>(part.prompt);
    if (answer_.prompt_tokens.size() <= index) answer_.prompt_tokens.resize(index + 1);
    std::vector<api::TokenInfo>& tokens = answer_.prompt_tokens[index];
    for (api::TokenInfo& token : part.tokens) tokens.push_back(std::move(token));
    if (!streams_ || !part.last) return;
    ++items_;
    printer_->Prompt(index, tokens, &text_);
    tokens = {};
  }

  void Take(api::GeneratedPart& part) {
    if (lost_) return;
    if (streams_) {
      ++items_;
      return printer_->Part(part, &text_);
    }
    GeneratedChoice* const choice = answer_.At(part.choice);
    answer_.Add(part.deltas, choice);
    if (printer_->content_tokens_alone()) {
      content_tokens_.resize(answer_.choices.size());
      return content_tokens_[static_cast<size_t>(part.choice)].Add(part, &choice->tokens);
    }
    if (part.token) choice->tokens.push_back(*std::move(part.token));
  }

  void Take(const api::ChoiceEnd& end) {
    if (lost_) return;
    if (streams_) return printer_->End(end, &text_);
    GeneratedChoice* const choice = answer_.At(end.choice);
    answer_.Add(end.deltas, choice);
    choice->reason = end.reason;
    choice->stop_string = end.stop_string;
    choice->token_count = end.tokens;
    choice->reasoning_tokens = end.reasoning_tokens;
  }

  void Take(const api::GenerateEnd& end) {
    feed_.reset();
    if (lost_) return;
    if (stream_ != nullptr) return EndStream(end.status, &end);
    if (began_stream_) return;  // ended before
    if (!end.status.ok()) return Refuse(end.status);
    answer_.usage = end.usage;
    answer_.times = end.times;
    if (Status room = TakeMemory(); !room.ok()) return Refuse(room);
    http::HttpResponse response;
    response.body = printer_->Whole(answer_);
    AddHeaders(&response);
    respond_.Send(std::move(response));
  }

  void AddHeaders(http::HttpResponse* response) const {
    for (auto& header : printer_->headers()) response->headers.push_back(std::move(header));
  }

  Status TakeMemory() {
    const int64_t bytes = PrintedBytes(answer_);
    if (bytes > service_->options().response_bytes) {
      return {StatusCode::kPayloadTooLarge,
              "the answer is about " + std::to_string(bytes) + " bytes; the limit is " +
                  std::to_string(service_->options().response_bytes) + " (--max-response-bytes)"};
    }
    RequestMemory* const memory = request_->context.memory.get();
    return memory == nullptr ? Status::Ok() : memory->Take(bytes);
  }

  void Refuse(const Status& status) {
    respond_.Send(PrintError(error_body_, frontend::WithWireNames(status, names_), request_->id));
  }

  // Null `end`: the model still works.
  void EndStream(const Status& status, const api::GenerateEnd* end = nullptr) {
    const auto stream = std::move(stream_);
    began_stream_ = true;
    int http_status = 200;
    if (status.ok()) {
      printer_->Finish(*end, &text_);
    } else {
      const http::HttpResponse error =
          PrintError(error_body_, frontend::WithWireNames(status, names_), request_->id);
      http_status = error.status;
      printer_->Error(status, error.body, &text_);
      request_->context.cancel->Cancel();
    }
    stream->End(text_, http_status);
    text_.clear();
  }

  // Without memory for a part of the answer: the connection is closed, so that the client sees it
  // is not whole.
  void Lose() noexcept override {
    lost_ = true;
    stream_.reset();
    request_->context.cancel->Cancel();
  }

  api::Service* const service_;
  const std::shared_ptr<const http::HttpRequest> request_;
  const http::Responder respond_;
  const ErrorBody error_body_;
  const std::chrono::milliseconds ping_;
  const frontend::FieldNames names_;
  const std::unique_ptr<TextPrinter> printer_;

  // Used by Drain and Lose only.
  std::shared_ptr<api::GenerateFeed> feed_;
  std::unique_ptr<http::Stream> stream_;
  bool streams_ = false;
  bool began_stream_ = false;  // and ended it
  bool lost_ = false;
  std::string text_;  // events that are printed and not handed over
  int64_t items_ = 0;
  GeneratedAnswer answer_;
  std::vector<ContentTokens> content_tokens_;  // of each choice of an answer that is sent whole
};

}  // namespace

void AnswerWithText(const RouteCall& call, api::TextRequest request,
                    std::unique_ptr<TextPrinter> printer, frontend::FieldNames names) {
  names.emplace_back("bulk_run", frontend::kBulkIdHeader);
  std::make_shared<TextPump>(call, std::move(printer), std::move(names))->Start(std::move(request));
}

}  // namespace penstock::dialects
