// What all requests of the hub have in common with libcurl: settings, headers of a reply, which
// failures may pass. For the files of this module that use libcurl.
#pragma once

#include <string>

#include "common/curl_library.h"
#include "common/status.h"
#include "common/transient_error.h"
#include "hub/http_fetch.h"

namespace penstock::hub {

// The begin of a transfer's data: curl's callbacks get a pointer to it.
struct CurlReply {
  HttpReply reply;
  size_t header_bytes = 0;
};

class CurlRequest {
 public:
  explicit CurlRequest(HttpFetchOptions options);
  ~CurlRequest();
  CurlRequest(const CurlRequest&) = delete;
  CurlRequest& operator=(const CurlRequest&) = delete;

  const HttpFetchOptions& options() const { return options_; }

  // Before the first Prepare. kUnsupported: there is no libcurl.
  Status Open();

  // Sets the handle up for `url`; it keeps its connections from one request to the next. `reply`
  // gets status and headers; `error` has CURL_ERROR_SIZE bytes.
  void Prepare(CURL* curl, const std::string& url, CurlReply* reply, char* error);
  // Gives a transfer up that brings too little for too long.
  void LimitStall(CURL* curl) const;

  bool IsCancelled() const { return options_.cancelled && options_.cancelled(); }
  // Waits before the attempt behind number `attempt` (from 0): doubled each time, at least what the
  // server asks for, 30 s at most. False: cancelled meanwhile.
  bool Wait(int attempt, int at_least_ms) const;
  int WaitMs(int attempt, int at_least_ms) const;

  // Whether to try again after attempt number `attempt` (from 0). A host that cannot be reached at
  // all gets a second chance only: without a network the answer should come soon.
  bool TryAgain(int attempt, CURLcode code) const;

 private:
  HttpFetchOptions options_;
  curl_slist* headers_ = nullptr;
  bool told_of_token_ = false;
};

// Whether a reply may be transient.
bool MayPass(int status);

Status NoAnswer(const std::string& url, CURLcode code, const char* detail);
// The error for a file's HTTP status that is not a success.
Status BadStatus(const std::string& url, const HttpReply& reply);
// 0 where the server gave none.
int RetryAfterMsOf(const HttpReply& reply);

}  // namespace penstock::hub
