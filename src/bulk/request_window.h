// Keeps a few requests of a command in flight, so that texts are tokenized and printed while the
// model works, and gives the answers back in the order of the requests. Memory is bounded by the
// window, however long the input is.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "base/status.h"

namespace penstock::bulk {

// The answer of a Service call as a future.
template <typename Response, typename Start>
std::future<Expected<Response>> Ask(Start start) {
  auto promise = std::make_shared<std::promise<Expected<Response>>>();
  auto future = promise->get_future();
  start([promise](Expected<Response> result) { promise->set_value(std::move(result)); });
  return future;
}

template <typename Response, typename Tag>
class RequestWindow {
 public:
  static constexpr size_t kRequests = 3;  // one at the model, one tokenized, one being printed
  // Gets every answer in order, with the tag of its request.
  using Sink = std::function<Status(Response, Tag)>;

  explicit RequestWindow(Sink sink, size_t requests = kRequests)
      : sink_(std::move(sink)), requests_(requests) {}
  // Waits for all answers, as they use objects of the command.
  ~RequestWindow() {
    for (auto& [future, tag] : waiting_) future.wait();
  }

  Status Push(std::future<Expected<Response>> answer, Tag tag) {
    waiting_.emplace_back(std::move(answer), std::move(tag));
    return waiting_.size() < requests_ ? Status::Ok() : PopOne();
  }
  Status Finish() {
    while (!waiting_.empty()) PENSTOCK_RETURN_IF_ERROR(PopOne());
    return Status::Ok();
  }

 private:
  Status PopOne() {
    auto [future, tag] = std::move(waiting_.front());
    waiting_.pop_front();
    PENSTOCK_ASSIGN_OR_RETURN(Response response, future.get());
    return sink_(std::move(response), std::move(tag));
  }

  Sink sink_;
  const size_t requests_;
  std::deque<std::pair<std::future<Expected<Response>>, Tag>> waiting_;
};

}  // namespace penstock::bulk
