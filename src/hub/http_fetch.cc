#include "hub/http_fetch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "hub/curl_request.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The results of one transfer; lives on the stack of the call, curl's callbacks fill it.
struct Transfer : CurlReply {
  CURL* curl = nullptr;
  size_t body_bytes_max = 0;
  bool too_large = false;
  // Downloads only:
  std::FILE* file = nullptr;
  uint64_t resume_from = 0;
  uint64_t bytes_written = 0;  // in the file, resumed ones included
  uint64_t bytes_max = 0;      // of the file
  bool started = false;
  std::string write_error;
  const HttpFetch::Progress* progress = nullptr;
  bool cancelled = false;
};

Status Cancelled() { return {StatusCode::kCancelled, "download given up"}; }

size_t OnBody(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.reply.body.size() + bytes > transfer.body_bytes_max) {
    transfer.too_large = true;
    return 0;
  }
  transfer.reply.body.append(data, bytes);
  return bytes;
}

// Prepares the file for the server's choice of body: the rest (206), or all of it (200).
bool StartFile(Transfer& transfer) {
  transfer.started = true;
  if (transfer.reply.status == 206) {
    const auto range = transfer.reply.headers.find("content-range");
    const std::string wanted = "bytes " + std::to_string(transfer.resume_from) + "-";
    if (range == transfer.reply.headers.end() || !range->second.starts_with(wanted)) {
      transfer.write_error = "the server sent another range than asked for";
      return false;
    }
    return true;
  }
  transfer.bytes_written = 0;
  if (std::fseek(transfer.file, 0, SEEK_SET) != 0 || ::ftruncate(::fileno(transfer.file), 0) != 0) {
    transfer.write_error = std::strerror(errno);
    return false;
  }
  return true;
}

size_t OnFileBody(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.started) {
    long status = 0;
    Curl().easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    if (status != 200 && status != 206) return bytes;  // an error's text is of no use here
    if (!StartFile(transfer)) return 0;
  }
  if (bytes > transfer.bytes_max - std::min(transfer.bytes_written, transfer.bytes_max)) {
    transfer.too_large = true;
    return 0;
  }
  if (std::fwrite(data, 1, bytes, transfer.file) != bytes) {
    transfer.write_error = std::strerror(errno);
    return 0;
  }
  transfer.bytes_written += bytes;
  if (*transfer.progress && !(*transfer.progress)(transfer.bytes_written)) {
    transfer.cancelled = true;
    return 0;
  }
  return bytes;
}

}  // namespace

struct HttpFetch::Impl {
  explicit Impl(HttpFetchOptions given) : request(std::move(given)) {}

  ~Impl() {
    if (curl != nullptr) Curl().easy_cleanup(curl);
  }

  CurlRequest request;
  CURL* curl = nullptr;  // from the first request
  char error[CURL_ERROR_SIZE] = {};

  Status Open() {
    if (curl != nullptr) return Status::Ok();
    PENSTOCK_RETURN_IF_ERROR(request.Open());
    curl = Curl().easy_init();
    PENSTOCK_CHECK(curl != nullptr);
    return Status::Ok();
  }

  void Prepare(const std::string& url, Transfer& transfer) {
    transfer.curl = curl;
    request.Prepare(curl, url, &transfer, error);
    Curl().easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  }

  CURLcode Perform(Transfer& transfer) {
    const CURLcode code = Curl().easy_perform(curl);
    long status = 0;
    Curl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    return code;
  }

  Expected<HttpReply> Small(const std::string& url, size_t bytes_max, bool head) {
    PENSTOCK_RETURN_IF_ERROR(Open());
    for (int attempt = 0;; ++attempt) {
      Transfer transfer;
      transfer.body_bytes_max = bytes_max;
      Prepare(url, transfer);
      Curl().easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                         static_cast<long>(request.options().request_timeout_ms));
      Curl().easy_setopt(curl, CURLOPT_FOLLOWLOCATION, head ? 0L : 1L);
      Curl().easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
      Curl().easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
      const CURLcode code = Perform(transfer);
      if (transfer.too_large) {
        return Status(StatusCode::kPayloadTooLarge, "the reply to " + url + " is larger than " +
                                                        std::to_string(bytes_max) + " bytes");
      }
      if (code == CURLE_ABORTED_BY_CALLBACK) return Cancelled();
      if (code == CURLE_OK && !MayPass(transfer.reply.status)) return std::move(transfer.reply);
      if (!request.TryAgain(attempt, code)) {
        if (code != CURLE_OK) return NoAnswer(url, code, error);
        return std::move(transfer.reply);
      }
      if (!request.Wait(attempt, RetryAfterMsOf(transfer.reply))) return Cancelled();
    }
  }

  // One attempt at the rest of a file. `again` says whether another may help.
  Status Part(const std::string& url, const std::string& path, uint64_t bytes_total,
              const Progress& progress, uint64_t unknown_bytes_max, bool* again, int* wait_ms,
              CURLcode* code) {
    *again = false;
    const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "ab"));
    if (!file) {
      return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
    }
    std::error_code ignored;
    Transfer transfer;
    transfer.file = file.get();
    transfer.resume_from = transfer.bytes_written = fs::file_size(path, ignored);
    transfer.progress = &progress;
    transfer.bytes_max = bytes_total > 0 ? bytes_total : unknown_bytes_max;
    if (bytes_total > 0 && transfer.resume_from == bytes_total) return Status::Ok();
    if (bytes_total > 0 && transfer.resume_from > bytes_total) {
      *again = ::ftruncate(::fileno(file.get()), 0) == 0;
      return Status::Internal(path + " was longer than the file on the hub");
    }
    Prepare(url, transfer);
    Curl().easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    request.LimitStall(curl);
    Curl().easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnFileBody);
    const std::string range = std::to_string(transfer.resume_from) + "-";
    if (transfer.resume_from > 0) Curl().easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    *code = Perform(transfer);
    if (transfer.too_large) {
      std::fflush(file.get());
      (void)!::ftruncate(::fileno(file.get()), 0);
      return Status(StatusCode::kPayloadTooLarge,
                    HostOf(url) + " sent more than " + std::to_string(transfer.bytes_max) +
                        " bytes of " + url +
                        (bytes_total > 0 ? ", which is its length"
                                         : ", the most of a file whose length it does not say"));
    }
    if (transfer.cancelled || *code == CURLE_ABORTED_BY_CALLBACK) return Cancelled();
    if (!transfer.write_error.empty()) {
      return Status::Internal("cannot write " + path + ": " + transfer.write_error);
    }
    if (std::fflush(file.get()) != 0) {
      return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
    }
    return Verdict(url, path, bytes_total, transfer, again, wait_ms, *code);
  }

  Status Verdict(const std::string& url, const std::string& path, uint64_t bytes_total,
                 const Transfer& transfer, bool* again, int* wait_ms, CURLcode code) {
    const int status = transfer.reply.status;
    if (code != CURLE_OK) {
      *again = true;
      return NoAnswer(url, code, error);
    }
    if (status == 416) {  // nothing there from where the file stands: it is not the same file
      *again = transfer.resume_from > 0 && ::truncate(path.c_str(), 0) == 0;
    } else if (MayPass(status)) {
      *again = true;
      *wait_ms = RetryAfterMsOf(transfer.reply);
    } else if (status == 200 || status == 206) {
      if (bytes_total == 0 || transfer.bytes_written == bytes_total) return Status::Ok();
      *again = true;
      return Status(StatusCode::kUnavailable, HostOf(url) + " sent " +
                                                  std::to_string(transfer.bytes_written) + " of " +
                                                  std::to_string(bytes_total) + " bytes of " + url);
    }
    return BadStatus(url, transfer.reply);
  }
};

HttpFetch::HttpFetch(HttpFetchOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

HttpFetch::~HttpFetch() = default;

Expected<HttpReply> HttpFetch::Get(const std::string& url, size_t bytes_max) {
  return impl_->Small(url, bytes_max, /*head=*/false);
}

Expected<HttpReply> HttpFetch::Head(const std::string& url) {
  std::string at = url;
  for (size_t hop = 0; hop <= kRedirectsMax; ++hop) {
    auto reply = impl_->Small(at, 1 << 16, /*head=*/true);
    if (!reply.ok()) return reply;
    const auto location = reply->headers.find("location");
    const bool redirect = reply->status >= 300 && reply->status < 400 &&
                          location != reply->headers.end() && location->second.starts_with("/") &&
                          !location->second.starts_with("//");
    if (!redirect) return reply;
    at = at.substr(0, at.find("://") + 3) + HostOf(at) + location->second;
  }
  return Status(StatusCode::kUnavailable, HostOf(url) + " redirects " + url + " in a circle");
}

Status HttpFetch::Download(const std::string& url, const std::string& path, uint64_t bytes_total,
                           const Progress& progress, uint64_t unknown_bytes_max) {
  PENSTOCK_RETURN_IF_ERROR(impl_->Open());
  uint64_t bytes_before = 0;
  for (int attempt = 0;; ++attempt) {
    bool again = false;
    int wait_ms = 0;
    CURLcode code = CURLE_OK;
    Status status =
        impl_->Part(url, path, bytes_total, progress, unknown_bytes_max, &again, &wait_ms, &code);
    // Attempts that bring the file further than before do not count against a long download.
    std::error_code ignored;
    const uint64_t bytes = fs::file_size(path, ignored);
    if (!ignored && bytes > bytes_before) attempt = 0;
    if (!ignored) bytes_before = std::max(bytes_before, bytes);
    if (status.ok() || !again || !impl_->request.TryAgain(attempt, code)) return status;
    if (!impl_->request.Wait(attempt, wait_ms)) return Cancelled();
  }
}

}  // namespace penstock::hub
