#include "library/request_call.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/ascii.h"
#include "http/request_begin.h"
#include "log/exception_status.h"

namespace penstock::library {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

Status ReadHeaders(std::string_view lines, http::HttpRequest* request) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = Trimmed(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return Status::InvalidArgument("a header must be 'Name: value'", "headers");
    }
    request->headers.emplace_back(LowerAscii(line.substr(0, colon)),
                                  Trimmed(line.substr(colon + 1)));
  }
  return Status::Ok();
}

// Tells a call that its stream has changed.
class CallWake final : public http::StreamWake {
 public:
  explicit CallWake(std::function<void()> wake) : wake_(std::move(wake)) {}
  void Wake() noexcept override { wake_(); }

 private:
  const std::function<void()> wake_;
};

}  // namespace

// The path of the answer to the call.
class RequestCall::RouteExchange final : public http::Exchange {
 public:
  RouteExchange(std::shared_ptr<RequestCall> call, size_t unread_bytes_max)
      : call_(std::move(call)), unread_bytes_max_(unread_bytes_max) {}

  void Post(Print print) noexcept override {
    if (!answered_.exchange(true)) call_->Answer(std::move(print));
  }

  std::unique_ptr<http::Stream> Begin(http::HttpResponse head,
                                      std::function<void()> ready) override {
    auto buffer = std::make_shared<http::StreamBuffer>(std::move(head), false, unread_bytes_max_,
                                                       std::move(ready));
    auto wake = std::make_shared<CallWake>([call = call_] { call->SetState(PENSTOCK_PART); });
    auto stream = std::make_unique<http::Stream>(buffer, std::move(wake));
    if (answered_.exchange(true)) {
      buffer->Leave();
    } else {
      call_->SetStream(std::move(buffer));
    }
    return stream;
  }

 private:
  const std::shared_ptr<RequestCall> call_;
  const size_t unread_bytes_max_;
  std::atomic<bool> answered_{false};
};

void RequestCall::Start(serving::Router* router, const http::ServerOptions& options,
                        const RouteRequest& asked) {
  auto request = http::NewRequest(options, "this process", Clock::now());
  request_ = request;
  request->method = asked.method;
  request->host = "localhost";
  request->body_bytes = asked.body.size();
  const auto refuse = [&](int status, const std::string& why) {
    http::HttpResponse response = router->OnError(*request, status, why);
    Answer([response = std::move(response)] { return response; });
  };
  if (const Status read = ReadHeaders(asked.headers, request.get()); !read.ok()) {
    return SetFailed(read);
  }
  if (!http::SetTarget(asked.path, request.get())) return refuse(400, "the path is malformed");
  if (!asked.body.empty()) {
    request->headers.emplace_back("content-length", std::to_string(asked.body.size()));
  }
  if (auto refusal = router->OnHeader(request.get())) {
    return Answer([response = *std::move(refusal)] { return response; });
  }
  const auto wrong =
      http::CheckBody(options, *request, asked.body.size(), !asked.body.empty(), false);
  if (wrong) return refuse(wrong->status, wrong->message);
  if (const Status taken = http::TakeBodyMemory(*request, asked.body.size()); !taken.ok()) {
    return refuse(http::MemoryStatus(taken), taken.message());
  }
  auto self = std::static_pointer_cast<RequestCall>(shared_from_this());
  router->OnRequest(request, std::string(asked.body),
                    http::Responder(std::make_shared<RouteExchange>(
                        std::move(self), static_cast<size_t>(options.stream_unread_bytes_max))));
}

void RequestCall::Answer(http::Exchange::Print print) {
  if (print == nullptr) return SetFailed(Status::Internal("the request was lost"));
  {
    const std::lock_guard lock(answer_mutex_);
    print_ = std::move(print);
  }
  SetState(PENSTOCK_ENDED);
}

void RequestCall::SetStream(std::shared_ptr<http::StreamBuffer> stream) {
  bool cancelled = false;
  {
    const std::lock_guard lock(answer_mutex_);
    stream_ = stream;
    cancelled = state() == PENSTOCK_FAILED;
  }
  if (cancelled) stream->Leave();
}

void RequestCall::Stop() {
  if (request_ != nullptr && request_->context.cancel != nullptr)
    request_->context.cancel->Cancel();
  std::shared_ptr<http::StreamBuffer> stream;
  {
    const std::lock_guard lock(answer_mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Leave();
}

void RequestCall::Print() {
  const std::lock_guard lock(answer_mutex_);
  const http::Exchange::Print print = std::exchange(print_, nullptr);
  if (print != nullptr) response_ = print();
}

void RequestCall::Settle() noexcept {
  if (!RunGuarded("answer", [this] { Print(); })) {
    SetFailed({StatusCode::kResourceExhausted, "the answer could not be printed"});
  }
}

int RequestCall::Take(penstock_view* view) {
  bool streams = false;
  {
    const std::lock_guard lock(answer_mutex_);
    streams = stream_ != nullptr;
  }
  if (streams) return TakePart(view);
  Print();
  if (request_ != nullptr && request_->method == "HEAD") response_.body.clear();
  Fill(response_.body, view);
  return PENSTOCK_ENDED;
}

void RequestCall::Fill(const std::string& body, penstock_view* view) {
  if (headers_.empty()) {
    for (const auto& [name, value] : response_.headers) headers_ += name + ": " + value + "\n";
  }
  *view = {.data = body.data(),
           .bytes = static_cast<int64_t>(body.size()),
           .rows = 0,
           .columns = 0,
           .status = response_.status,
           .content_type = response_.content_type,
           .headers = headers_.c_str(),
           .info = nullptr};
}

int RequestCall::TakePart(penstock_view* view) {
  if (state() == PENSTOCK_ENDED) {
    part_ = {};
    Fill(part_.text, view);
    return PENSTOCK_ENDED;
  }
  if (!began_) response_ = stream_->TakeHead();
  began_ = true;
  SetState(PENSTOCK_RUNNING);  // before the buffer is read: what comes later sets it again
  part_ = stream_->Take();
  stream_->Sent(part_);
  if (part_.last) {
    SetTaken();
  } else if (stream_->unread() > 0) {
    SetState(PENSTOCK_PART);  // more than a part was there
  } else if (part_.text.empty()) {
    if (!stream_->aborted() && !stream_->overrun()) return PENSTOCK_RUNNING;
    SetFailed(Status::Internal("the answer broke off"));
  }
  if (state() == PENSTOCK_FAILED) return PENSTOCK_FAILED;
  Fill(part_.text, view);
  return part_.last ? PENSTOCK_ENDED : PENSTOCK_PART;
}

}  // namespace penstock::library
