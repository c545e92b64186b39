// A call that asks a route of the server, without connections: the answer as the server would send
// it, whole or in parts.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/server_options.h"
#include "http/stream.h"
#include "library/call.h"
#include "serving/router.h"

namespace penstock::library {

// What is asked.
struct RouteRequest {
  std::string_view method;   // "POST"
  std::string_view path;     // with its query
  std::string_view headers;  // lines "Name: value"
  std::string_view body;
};

class RequestCall final : public Call {
 public:
  using Call::Call;

  // Once. Refusals are answers, as those of a server.
  void Start(serving::Router* router, const http::ServerOptions& options,
             const RouteRequest& asked);

 private:
  class RouteExchange;

  void Settle() noexcept override;
  int Take(penstock_view* view) override;
  // Makes response_ of print_, once.
  void Print();
  int TakePart(penstock_view* view);
  // `body`: of response_, or a part of its stream.
  void Fill(const std::string& body, penstock_view* view);
  void Stop() override;
  void Answer(http::Exchange::Print print);
  void SetStream(std::shared_ptr<http::StreamBuffer> stream);

  // What the service works for.
  std::shared_ptr<http::HttpRequest> request_;
  std::mutex answer_mutex_;
  http::Exchange::Print print_;                 // guarded by answer_mutex_; null for a stream
  std::shared_ptr<http::StreamBuffer> stream_;  // guarded by answer_mutex_; set once
  http::HttpResponse response_;                 // guarded by answer_mutex_ until it is printed
  // What the thread has that takes the result.
  std::string headers_;  // those of response_, as lines
  bool began_ = false;   // response_ has the head of the stream
  http::StreamBuffer::Batch part_;
};

}  // namespace penstock::library
