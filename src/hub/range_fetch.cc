#include "hub/range_fetch.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "hub/curl_request.h"

namespace penstock::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr long kReceiveBytes = 256 << 10;
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

// One connection and the segment it works on.
struct Slot : CurlReply {
  CURL* curl = nullptr;
  PartialFile* file = nullptr;
  size_t segment = 0;
  bool busy = false;
  bool checked = false;  // the head of the reply fits what was asked for
  bool ignored_range = false;
  Status failure;  // of the reply or the disk; ends the download
  char error[CURL_ERROR_SIZE] = {};
};

// The reply is the rest of the segment, of the file as it was announced.
Status CheckHead(const Slot& slot) {
  const auto header = slot.reply.headers.find("content-range");
  const auto range =
      header == slot.reply.headers.end() ? std::nullopt : ParseContentRange(header->second);
  const auto [begin, end] = slot.file->Rest(slot.segment);
  if (!range || range->begin != begin || range->end >= end) {
    return {StatusCode::kUnavailable, "the server sent another range than asked for"};
  }
  if (range->total != 0 && range->total != slot.file->bytes()) {
    return {StatusCode::kUnavailable, "the server says the file has " +
                                          std::to_string(range->total) + " bytes, before it said " +
                                          std::to_string(slot.file->bytes())};
  }
  return Status::Ok();
}

size_t OnRangeBody(char* data, size_t, size_t bytes, void* user) {
  auto& slot = *static_cast<Slot*>(user);
  if (!slot.checked) {
    long status = 0;
    Curl().easy_getinfo(slot.curl, CURLINFO_RESPONSE_CODE, &status);
    slot.ignored_range = status == 200;
    if (slot.ignored_range) return 0;
    if (status != 206) return bytes;  // an error's text is of no use here
    slot.failure = CheckHead(slot);
    if (!slot.failure.ok()) return 0;
    slot.checked = true;
  }
  const auto [at, end] = slot.file->Rest(slot.segment);
  if (bytes > end - at) {
    slot.failure = {StatusCode::kPayloadTooLarge, "the server sent more than the range asked for"};
    return 0;
  }
  slot.failure = slot.file->Write(slot.segment, data, bytes);
  return slot.failure.ok() ? bytes : 0;
}

class RangeDownload {
 public:
  RangeDownload(const HttpFetchOptions& http, const RangeOptions& options, const std::string& url,
                PartialFile* file, const HttpFetch::Progress& progress)
      : request_(http), url_(url), file_(file), progress_(progress) {
    for (size_t i = 0; i < file->segments(); ++i) {
      const auto [begin, end] = file->Rest(i);
      if (begin < end) waiting_.push_back(i);
    }
    connections_ =
        std::min(static_cast<size_t>(std::clamp(options.connections, 1, 16)), waiting_.size());
  }

  ~RangeDownload() {
    for (const auto& slot : slots_) {
      if (slot->busy) Curl().multi_remove_handle(multi_, slot->curl);
      Curl().easy_cleanup(slot->curl);
    }
    if (multi_ != nullptr) Curl().multi_cleanup(multi_);
  }

  Status Run() {
    PENSTOCK_RETURN_IF_ERROR(Open());
    while (busy_ > 0 || !waiting_.empty()) {
      StartMore();
      int running = 0;
      Curl().multi_perform(multi_, &running);
      if (request_.IsCancelled() || (progress_ && !progress_(file_->bytes_done()))) {
        return {StatusCode::kCancelled, "download given up"};
      }
      int left = 0;
      while (const CURLMsg* message = Curl().multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        PENSTOCK_RETURN_IF_ERROR(Finish(message->easy_handle, message->data.result));
      }
      if (busy_ > 0 || !waiting_.empty()) Curl().multi_poll(multi_, nullptr, 0, kPollMs, nullptr);
    }
    return Status::Ok();
  }

 private:
  Status Open() {
    PENSTOCK_RETURN_IF_ERROR(request_.Open());
    multi_ = Curl().multi_init();
    PENSTOCK_CHECK(multi_ != nullptr);
    for (size_t i = 0; i < connections_; ++i) {
      slots_.push_back(std::make_unique<Slot>());
      slots_.back()->curl = Curl().easy_init();
      PENSTOCK_CHECK(slots_.back()->curl != nullptr);
      slots_.back()->file = file_;
    }
    return Status::Ok();
  }
  void StartMore() {
    if (Clock::now() < not_before_) return;
    for (const auto& slot : slots_) {
      if (slot->busy || waiting_.empty() || busy_ >= connections_) continue;
      slot->segment = waiting_.front();
      waiting_.pop_front();
      Start(slot.get());
    }
  }

  void Start(Slot* slot) {
    slot->reply = {};
    slot->header_bytes = 0;
    slot->checked = slot->ignored_range = false;
    slot->failure = Status::Ok();
    request_.Prepare(slot->curl, url_, slot, slot->error);
    request_.LimitStall(slot->curl);
    const auto [begin, end] = file_->Rest(slot->segment);
    const std::string range = std::to_string(begin) + "-" + std::to_string(end - 1);
    Curl().easy_setopt(slot->curl, CURLOPT_RANGE, range.c_str());
    Curl().easy_setopt(slot->curl, CURLOPT_FOLLOWLOCATION, 1L);
    Curl().easy_setopt(slot->curl, CURLOPT_BUFFERSIZE, kReceiveBytes);
    // Over HTTP/2 the ranges would share one connection.
    Curl().easy_setopt(slot->curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Curl().easy_setopt(slot->curl, CURLOPT_WRITEFUNCTION, OnRangeBody);
    Curl().easy_setopt(slot->curl, CURLOPT_WRITEDATA, slot);
    PENSTOCK_CHECK(Curl().multi_add_handle(multi_, slot->curl) == CURLM_OK);
    slot->busy = true;
    ++busy_;
  }

  Status Finish(CURL* curl, CURLcode code) {
    const auto found = std::find_if(slots_.begin(), slots_.end(),
                                    [&](const auto& slot) { return slot->curl == curl; });
    PENSTOCK_CHECK(found != slots_.end());
    Slot& slot = **found;
    Curl().multi_remove_handle(multi_, curl);
    slot.busy = false;
    --busy_;
    long status = 0;
    Curl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    slot.reply.status = static_cast<int>(status);
    if (!slot.failure.ok()) {
      return slot.failure.code() == StatusCode::kInternal ? slot.failure
                                                          : slot.failure.Annotate(HostOf(url_));
    }
    if (slot.ignored_range || (code == CURLE_OK && status == 200)) {
      return Status::Unsupported(HostOf(url_) + " does not send ranges");
    }
    const auto [begin, end] = file_->Rest(slot.segment);
    if (begin == end) {
      attempts_ = 0;
      return Status::Ok();
    }
    waiting_.push_front(slot.segment);
    return Again(slot, code);
  }

  // The segment is not whole: whether, and when, its rest is asked for again.
  Status Again(const Slot& slot, CURLcode code) {
    if (code == CURLE_ABORTED_BY_CALLBACK) return {StatusCode::kCancelled, "download given up"};
    const int status = slot.reply.status;
    const bool bad = status != 206 && status != 0;
    if (code == CURLE_OK && bad && !MayPass(status)) return BadStatus(url_, slot.reply);
    if (file_->bytes_done() > bytes_before_) attempts_ = 0;
    bytes_before_ = file_->bytes_done();
    if (!request_.TryAgain(attempts_, code)) {
      return code != CURLE_OK ? NoAnswer(url_, code, slot.error)
             : bad            ? BadStatus(url_, slot.reply)
                   : Status(StatusCode::kUnavailable, HostOf(url_) + " sends less than asked for");
    }
    if (status == 429) connections_ = std::max<size_t>(1, connections_ / 2);
    const auto now = Clock::now();
    const int wait_ms = request_.WaitMs(attempts_, RetryAfterMsOf(slot.reply));
    // Connections that fail together are one attempt.
    if (now >= not_before_) ++attempts_;
    not_before_ = std::max(not_before_, now + std::chrono::milliseconds(wait_ms));
    return Status::Ok();
  }

  CurlRequest request_;
  const std::string url_;
  PartialFile* const file_;
  const HttpFetch::Progress& progress_;
  CURLM* multi_ = nullptr;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<size_t> waiting_;  // segments
  size_t connections_ = 0;
  size_t busy_ = 0;
  int attempts_ = 0;  // since bytes came last
  uint64_t bytes_before_ = 0;
  Clock::time_point not_before_{};
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
