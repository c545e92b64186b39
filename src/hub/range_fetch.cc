#include "hub/range_fetch.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "hub/hub_request.h"
#include "log/exception_status.h"

namespace penstock::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kPollMs = 100;

// "bytes BEGIN-END/TOTAL"; a total that is not said is 0.
struct ContentRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // the last byte
  uint64_t total = 0;
};

std::optional<ContentRange> ParseContentRange(const std::string& text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  ContentRange range;
  const char* at = text.data() + kUnit.size();
  const char* const end = text.data() + text.size();
  const auto number = [&](uint64_t* value, char behind) {
    const auto read = std::from_chars(at, end, *value);
    if (read.ec != std::errc()) return false;
    at = read.ptr;
    return behind == '\0' ? at == end : at != end && *at++ == behind;
  };
  if (!number(&range.begin, '-') || !number(&range.end, '/')) return std::nullopt;
  if (end - at == 1 && *at == '*') return range;
  if (!number(&range.total, '\0') || range.end < range.begin) return std::nullopt;
  return range;
}

// The threads share one lock: of the file, of what waits, and of what failed.
class RangeDownload {
 public:
  RangeDownload(const HttpFetchOptions& http, const RangeOptions& options, const std::string& url,
                PartialFile* file, const HttpFetch::Progress& progress)
      : request_(http), url_(url), progress_(progress), file_(file) {
    for (size_t i = 0; i < file->segments(); ++i) {
      const auto [begin, end] = file->Rest(i);
      if (begin < end) waiting_.push_back(i);
    }
    connections_ =
        std::min(static_cast<size_t>(std::clamp(options.connections, 1, 16)), waiting_.size());
  }

  Status Run() {
    PENSTOCK_RETURN_IF_ERROR(request_.To(url_).status());
    std::vector<std::thread> threads;
    const size_t count = connections_;
    for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { Work(); });
    {
      std::unique_lock lock(mutex_);
      while (!Over()) {
        changed_.wait_for(lock, std::chrono::milliseconds(kPollMs));
        const uint64_t done = file_->bytes_done();
        lock.unlock();
        const bool stop = request_.IsCancelled() || (progress_ && !progress_(done));
        lock.lock();
        if (stop && failure_.ok()) failure_ = {StatusCode::kCancelled, "download given up"};
      }
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

 private:
  // Under the lock.
  bool Over() const { return !failure_.ok() || (busy_ == 0 && waiting_.empty()); }

  void Work() {
    net::HttpClient client({request_.options().connect_timeout_ms, "", false});
    std::unique_lock lock(mutex_);
    while (!stop_ && !Over()) {
      const bool waits = waiting_.empty() || busy_ >= connections_ || Clock::now() < not_before_;
      if (waits) {
        changed_.wait_for(lock, std::chrono::milliseconds(kPollMs));
        continue;
      }
      const size_t segment = waiting_.front();
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      Fetched fetched;
      try {
        fetched = Fetch(&client, segment);
      } catch (...) {
        fetched.failure = ExceptionStatus();
      }
      lock.lock();
      --busy_;
      Status status = Finish(segment, fetched);
      if (!status.ok() && failure_.ok()) failure_ = std::move(status);
      changed_.notify_all();
    }
  }

  struct Fetched {
    Clock::time_point began = Clock::now();
    HttpReply reply;
    net::HttpResult result;
    bool ignored_range = false;
    Status failure;  // of the reply or the disk; ends the download
  };

  Fetched Fetch(net::HttpClient* client, size_t segment) {
    Fetched fetched;
    uint64_t begin = 0, end = 0;
    {
      const std::lock_guard lock(mutex_);
      std::tie(begin, end) = file_->Rest(segment);
    }
    net::HttpRequest request = *request_.To(url_);
    request_.LimitStall(&request);
    request.cancelled = [this] { return stop_.load(std::memory_order_relaxed); };
    request.headers.emplace_back("Range",
                                 "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1));
    const auto on_head = [&](const net::HttpHead& head) {
      fetched.reply.status = head.status;
      fetched.reply.headers = head.headers;
      fetched.ignored_range = head.status == 200;
      if (head.status == 206) fetched.failure = CheckHead(fetched.reply, begin, end);
      return fetched.ignored_range ? Status::Unsupported("no ranges") : fetched.failure;
    };
    const auto on_body = [&](std::string_view data) {
      if (fetched.reply.status != 206) return Status::Ok();  // an error's text is of no use here
      const std::lock_guard lock(mutex_);
      const auto [at, stop] = file_->Rest(segment);
      fetched.failure = data.size() > stop - at
                            ? Status(StatusCode::kPayloadTooLarge,
                                     "the server sent more than the range asked for")
                            : file_->Write(segment, data.data(), data.size());
      return fetched.failure;
    };
    fetched.result =
        client->Follow(std::move(request), HttpFetch::kRedirectsMax, {on_head, on_body});
    return fetched;
  }

  // The reply is the rest of the segment, of the file as it was announced.
  Status CheckHead(const HttpReply& reply, uint64_t begin, uint64_t end) const {
    const auto header = reply.headers.find("content-range");
    const auto range =
        header == reply.headers.end() ? std::nullopt : ParseContentRange(header->second);
    if (!range || range->begin != begin || range->end >= end) {
      return {StatusCode::kUnavailable, "the server sent another range than asked for"};
    }
    if (range->total != 0 && range->total != file_->bytes()) {
      return {StatusCode::kUnavailable,
              "the server says the file has " + std::to_string(range->total) +
                  " bytes, before it said " + std::to_string(file_->bytes())};
    }
    return Status::Ok();
  }

  Status Finish(size_t segment, const Fetched& fetched) {
    if (!fetched.failure.ok()) {
      return fetched.failure.code() == StatusCode::kInternal
                 ? fetched.failure
                 : Status(fetched.failure).Annotate(HostOf(url_));
    }
    if (fetched.ignored_range) return Status::Unsupported(HostOf(url_) + " does not send ranges");
    const auto [begin, end] = file_->Rest(segment);
    if (begin == end) {
      attempts_ = 0;
      return Status::Ok();
    }
    waiting_.push_front(segment);
    return Again(fetched);
  }

  // The segment is not whole: whether, and when, its rest is asked for again.
  Status Again(const Fetched& fetched) {
    if (fetched.result.failure == net::HttpFailure::kCancelled) {
      return {StatusCode::kCancelled, "download given up"};
    }
    const int status = fetched.reply.status;
    const bool bad = status != 206 && status != 0;
    if (fetched.result.ok() && bad && !MayPass(status)) return BadStatus(url_, fetched.reply);
    if (file_->bytes_done() > bytes_before_) attempts_ = 0;
    bytes_before_ = file_->bytes_done();
    if (!request_.TryAgain(attempts_, fetched.result)) {
      return !fetched.result.ok() ? NoAnswer(fetched.result)
             : bad                ? BadStatus(url_, fetched.reply)
                   : Status(StatusCode::kUnavailable, HostOf(url_) + " sends less than asked for");
    }
    if (status == 429) connections_ = std::max<size_t>(1, connections_ / 2);
    const auto now = Clock::now();
    const int wait_ms = request_.WaitMs(attempts_, RetryAfterMsOf(fetched.reply));
    // Exchanges that were under way when another failed are of the same attempt.
    if (fetched.began >= counted_) {
      ++attempts_;
      counted_ = now;
    }
    not_before_ = std::max(not_before_, now + std::chrono::milliseconds(wait_ms));
    return Status::Ok();
  }

  const HubRequest request_;
  const std::string url_;
  const HttpFetch::Progress& progress_;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  PartialFile* const file_;
  std::deque<size_t> waiting_;  // segments
  size_t connections_ = 0;
  size_t busy_ = 0;
  int attempts_ = 0;  // since bytes came last
  uint64_t bytes_before_ = 0;
  Clock::time_point counted_{};  // when the last attempt was
  Clock::time_point not_before_{};
  Status failure_;
};

}  // namespace

uint64_t SegmentBytes(const RangeOptions& options, uint64_t file_bytes) {
  uint64_t bytes = options.segment_bytes;
  if (bytes == 0) {
    const auto ranges = static_cast<uint64_t>(std::max(options.connections, 1)) * 4;
    bytes = std::clamp(file_bytes / ranges / kMiB * kMiB, 16 * kMiB, 64 * kMiB);
  }
  return std::max(bytes, (file_bytes - 1) / PartialFile::kSegmentsMax + 1);
}

Status DownloadRanges(const HttpFetchOptions& http, const RangeOptions& options,
                      const std::string& url, PartialFile* file,
                      const HttpFetch::Progress& progress) {
  return RangeDownload(http, options, url, file, progress).Run();
}

}  // namespace penstock::hub
