// What all requests of the hub have in common: settings, the token, which failures may pass.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "hub/http_fetch.h"
#include "net/http_client.h"

namespace penstock::hub {

class HubRequest {
 public:
  explicit HubRequest(HttpFetchOptions options) : options_(std::move(options)) {}

  const HttpFetchOptions& options() const { return options_; }

  // kInvalidArgument: it is not a URL of http or https. Any thread.
  Expected<net::HttpRequest> To(const std::string& url) const;
  // Gives an exchange up that brings too little for too long.
  void LimitStall(net::HttpRequest* request) const;

  bool IsCancelled() const { return options_.cancelled && options_.cancelled(); }
  // Waits before the attempt behind number `attempt` (from 0): doubled each time, at least what the
  // server asks for, 30 s at most. False: cancelled meanwhile.
  bool Wait(int attempt, int at_least_ms) const;
  int WaitMs(int attempt, int at_least_ms) const;

  // Whether to try again after attempt number `attempt` (from 0). A host that cannot be reached at
  // all gets a second chance only: without a network the answer should come soon.
  bool TryAgain(int attempt, const net::HttpResult& result) const;

 private:
  const HttpFetchOptions options_;
  mutable std::atomic<bool> told_of_token_{false};
};

// Whether a reply may be transient.
bool MayPass(int status);

Status NoAnswer(const net::HttpResult& result);
// The error for a file's HTTP status that is not a success.
Status BadStatus(const std::string& url, const HttpReply& reply);
// 0 where the server gave none.
int RetryAfterMsOf(const HttpReply& reply);

}  // namespace penstock::hub
