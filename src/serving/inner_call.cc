#include "serving/inner_call.h"

#include <atomic>
#include <utility>

#include "http/stream.h"
#include "log/exception_status.h"
#include "serving/route.h"
#include "threads/byte_budget.h"

namespace penstock::serving {
namespace {

class NoWake final : public http::StreamWake {
  void Wake() noexcept override {}
};

class InnerExchange final : public http::Exchange {
 public:
  explicit InnerExchange(std::function<void(Print)> done) : done_(std::move(done)) {}

  void Post(Print print) noexcept override {
    if (posted_.exchange(true)) return;
    RunGuarded("inner request", [&] { done_(std::move(print)); });
  }

  std::unique_ptr<http::Stream> Begin(http::HttpResponse head,
                                      std::function<void()> ready) override {
    (void)head;
    Post([] {
      return http::HttpResponse{.status = 500, .body = R"({"error":"a stream was begun"})"};
    });
    // What is written is not read.
    auto buffer =
        std::make_shared<http::StreamBuffer>(http::HttpResponse(), false, 1, std::move(ready));
    buffer->Leave();
    return std::make_unique<http::Stream>(std::move(buffer), std::make_shared<NoWake>());
  }

 private:
  const std::function<void(Print)> done_;
  std::atomic<bool> posted_{false};
};

}  // namespace

void CallInner(const InnerParts& parts, const Route* route,
               std::shared_ptr<const http::HttpRequest> request, std::string body,
               std::function<void(http::Exchange::Print)> done) {
  const RouteCall inner{
      parts.service,   parts.metrics,
      parts.options,   route,
      parts.table,     std::move(request),
      std::move(body), http::Responder(std::make_shared<InnerExchange>(std::move(done)))};
  ScopedMemory parsing(inner.request->context.memory.get());
  try {
    const auto bytes = static_cast<int64_t>(inner.body.size());
    const Status taken = parsing.Take(bytes * kParseMemoryPerByte);
    if (!taken.ok()) return inner.Fail(taken);
    route->handle(inner);
  } catch (...) {
    inner.Fail(ExceptionStatus());
  }
}

}  // namespace penstock::serving
