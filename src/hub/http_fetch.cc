#include "hub/http_fetch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "hub/hub_request.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Status Cancelled() { return {StatusCode::kCancelled, "download given up"}; }

// A download of the rest of a file.
struct Transfer {
  HttpReply reply;
  std::FILE* file = nullptr;
  uint64_t resume_from = 0;
  uint64_t bytes_written = 0;  // in the file, resumed ones included
  uint64_t bytes_max = 0;      // of the file
  bool too_large = false;
  std::string write_error;
  const HttpFetch::Progress* progress = nullptr;
  bool cancelled = false;

  // Prepares the file for the server's choice of body: the rest (206), or all of it (200).
  Status Begin(const net::HttpHead& head) {
    reply.status = head.status;
    reply.headers = head.headers;
    if (head.status == 206) {
      const auto range = head.headers.find("content-range");
      const std::string wanted = "bytes " + std::to_string(resume_from) + "-";
      if (range != head.headers.end() && range->second.starts_with(wanted)) return Status::Ok();
      return WriteError("the server sent another range than asked for");
    }
    if (head.status != 200) return Status::Ok();
    bytes_written = 0;
    if (std::fseek(file, 0, SEEK_SET) == 0 && ::ftruncate(::fileno(file), 0) == 0) {
      return Status::Ok();
    }
    return WriteError(std::strerror(errno));
  }
  Status Take(std::string_view data) {
    if (reply.status != 200 && reply.status != 206) return Status::Ok();  // an error's text
    if (data.size() > bytes_max - std::min(bytes_written, bytes_max)) {
      too_large = true;
      return Cancelled();
    }
    if (std::fwrite(data.data(), 1, data.size(), file) != data.size()) {
      return WriteError(std::strerror(errno));
    }
    bytes_written += data.size();
    cancelled = *progress && !(*progress)(bytes_written);
    return cancelled ? Cancelled() : Status::Ok();
  }

 private:
  Status WriteError(std::string why) {
    write_error = std::move(why);
    return Cancelled();
  }
};

}  // namespace

struct HttpFetch::Impl {
  explicit Impl(HttpFetchOptions given)
      : request(std::move(given)), client({request.options().connect_timeout_ms, "", false}) {}

  HubRequest request;
  net::HttpClient client;

  Expected<HttpReply> Small(const std::string& url, size_t bytes_max, bool head) {
    PENSTOCK_ASSIGN_OR_RETURN(net::HttpRequest one, request.To(url));
    one.method = head ? "HEAD" : "GET";
    one.timeout_ms = request.options().request_timeout_ms;
    for (int attempt = 0;; ++attempt) {
      HttpReply reply;
      bool too_large = false;
      const net::HttpSink sink = {[&](const net::HttpHead& got) {
                                    reply.status = got.status;
                                    reply.headers = got.headers;
                                    return Status::Ok();
                                  },
                                  [&](std::string_view data) {
                                    too_large = reply.body.size() + data.size() > bytes_max;
                                    if (!too_large) reply.body += data;
                                    return too_large ? Cancelled() : Status::Ok();
                                  }};
      const net::HttpResult result =
          head ? client.Exchange(one, sink) : client.Follow(one, kRedirectsMax, sink);
      if (too_large) {
        return Status(StatusCode::kPayloadTooLarge, "the reply to " + url + " is larger than " +
                                                        std::to_string(bytes_max) + " bytes");
      }
      if (result.failure == net::HttpFailure::kCancelled) return Cancelled();
      if (result.ok() && !MayPass(reply.status)) return reply;
      if (!request.TryAgain(attempt, result)) {
        if (!result.ok()) return NoAnswer(result);
        return reply;
      }
      if (!request.Wait(attempt, RetryAfterMsOf(reply))) return Cancelled();
    }
  }

  // One attempt at the rest of a file. `again` says whether another may help.
  Status Part(const std::string& url, const std::string& path, uint64_t bytes_total,
              const Progress& progress, uint64_t unknown_bytes_max, bool* again, int* wait_ms,
              net::HttpResult* result) {
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
    PENSTOCK_ASSIGN_OR_RETURN(net::HttpRequest one, request.To(url));
    request.LimitStall(&one);
    if (transfer.resume_from > 0) {
      one.headers.emplace_back("Range", "bytes=" + std::to_string(transfer.resume_from) + "-");
    }
    *result = client.Follow(std::move(one), kRedirectsMax,
                            {[&](const net::HttpHead& head) { return transfer.Begin(head); },
                             [&](std::string_view data) { return transfer.Take(data); }});
    if (transfer.too_large) {
      std::fflush(file.get());
      (void)!::ftruncate(::fileno(file.get()), 0);
      return Status(StatusCode::kPayloadTooLarge,
                    HostOf(url) + " sent more than " + std::to_string(transfer.bytes_max) +
                        " bytes of " + url +
                        (bytes_total > 0 ? ", which is its length"
                                         : ", the most of a file whose length it does not say"));
    }
    if (transfer.cancelled || result->failure == net::HttpFailure::kCancelled) return Cancelled();
    if (!transfer.write_error.empty()) {
      return Status::Internal("cannot write " + path + ": " + transfer.write_error);
    }
    if (std::fflush(file.get()) != 0) {
      return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
    }
    return Verdict(url, path, bytes_total, transfer, again, wait_ms, *result);
  }

  Status Verdict(const std::string& url, const std::string& path, uint64_t bytes_total,
                 const Transfer& transfer, bool* again, int* wait_ms,
                 const net::HttpResult& result) {
    const int status = transfer.reply.status;
    if (!result.ok()) {
      *again = true;
      return NoAnswer(result);
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
  uint64_t bytes_before = 0;
  for (int attempt = 0;; ++attempt) {
    bool again = false;
    int wait_ms = 0;
    net::HttpResult result;
    Status status =
        impl_->Part(url, path, bytes_total, progress, unknown_bytes_max, &again, &wait_ms, &result);
    // Attempts that bring the file further than before do not count against a long download.
    std::error_code ignored;
    const uint64_t bytes = fs::file_size(path, ignored);
    if (!ignored && bytes > bytes_before) attempt = 0;
    if (!ignored) bytes_before = std::max(bytes_before, bytes);
    if (status.ok() || !again || !impl_->request.TryAgain(attempt, result)) return status;
    if (!impl_->request.Wait(attempt, wait_ms)) return Cancelled();
  }
}

}  // namespace penstock::hub
