#include "dialects/shared/file_sender.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/ascii.h"
#include "base/regular_file.h"
#include "dialects/shared/event_pump.h"
#include "http/stream.h"
#include "log/log.h"

namespace penstock::dialects {
namespace {

using serving::PrintError;
using serving::RouteCall;

// A piece is a quarter of what may wait for the client; more is read once it has taken half.
constexpr size_t kPieceBytesMax = 256 << 10;

// Beyond every file.
constexpr uint64_t kNumberMax = 1'000'000'000'000'000'000;

std::optional<uint64_t> ReadNumber(std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    if (number < kNumberMax) number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

class FileSender final : public EventPump {
 public:
  FileSender(const RouteCall& call, FileDescriptor file, ByteRange range)
      : EventPump(call.service, call.request->context.priority, api::Service::kLongWorkBytes),
        request_(call.request),
        unread_max_(static_cast<size_t>(call.options->stream_unread_bytes_max)),
        file_(std::move(file)),
        range_(range) {}

  void Start(const http::Responder& respond, http::HttpResponse head) {
    status_ = head.status;
    Hold();
    stream_ = respond.Begin(std::move(head), Waker());
    Waker()();
    Resume();
  }

 private:
  void Drain() override {
    while (stream_ != nullptr) {
      if (stream_->gone() || !request_->context.CheckWanted(Clock::now()).ok()) return Lose();
      if (range_.begin == range_.end) {
        std::exchange(stream_, nullptr)->End({}, status_);
        return;
      }
      if (stream_->CallWhenBelow(std::max<size_t>(1, unread_max_ / 2))) return;
      if (stream_->gone()) return Lose();
      const size_t piece = std::clamp<size_t>(unread_max_ / 4, 1, kPieceBytesMax);
      piece_.resize(std::min<uint64_t>(piece, range_.end - range_.begin));
      const ssize_t got =
          pread(file_.get(), piece_.data(), piece_.size(), static_cast<off_t>(range_.begin));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        LogWarn("a file that is sent cannot be read: {}", got < 0 ? strerror(errno) : "it ended");
        return Lose();
      }
      piece_.resize(static_cast<size_t>(got));
      range_.begin += static_cast<uint64_t>(got);
      if (!stream_->Write(piece_)) return Lose();
    }
  }
  // The connection is closed, so that the client sees that the file is not whole.
  void Lose() noexcept override { stream_.reset(); }

  const std::shared_ptr<const http::HttpRequest> request_;
  const FileDescriptor file_;
  const size_t unread_max_;
  ByteRange range_;  // that is not handed over yet
  int status_ = 200;
  std::string piece_;
  std::unique_ptr<http::Stream> stream_;
};

}  // namespace

Expected<std::optional<ByteRange>> ParseByteRange(std::string_view header, uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const std::optional<ByteRange> whole;
  if (LowerAscii(header.substr(0, kUnit.size())) != kUnit ||
      header.find(',') != std::string_view::npos)
    return whole;
  header.remove_prefix(kUnit.size());
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view first = header.substr(0, dash), last = header.substr(dash + 1);
  const auto begin = ReadNumber(first), end = ReadNumber(last);
  const auto outside = [&] {
    return Status::InvalidArgument(
        fmt::format("the file has {} bytes, none of them in the range", size), "Range");
  };
  if (first.empty()) {  // the last bytes
    if (!end) return whole;
    if (*end == 0 || size == 0) return outside();
    return std::optional(ByteRange{size - std::min(size, *end), size});
  }
  if (!begin || (!last.empty() && !end) || (end && *end < *begin)) return whole;
  if (*begin >= size) return outside();
  return std::optional(ByteRange{*begin, end ? std::min(size, *end + 1) : size});
}

void SendFile(const RouteCall& call, const std::string& path, uint64_t size,
              const char* content_type) {
  // No answer has a validator, so that of If-Range is not met.
  const bool parts = call.request->Header("if-range").empty();
  const auto range = ParseByteRange(parts ? call.request->Header("range") : "", size);
  if (!range.ok()) {
    http::HttpResponse refused =
        PrintError(call.route->error_body, 416, range.status(), call.request->id);
    refused.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
    return call.respond.Send(std::move(refused));
  }
  // What waits to be sent, and the piece that is read.
  if (call.request->context.memory != nullptr) {
    const int64_t bytes =
        call.options->stream_unread_bytes_max + static_cast<int64_t>(kPieceBytesMax);
    const Status taken = call.request->context.memory->Take(bytes);
    if (!taken.ok()) return call.Fail(taken);
  }
  auto file = OpenRegularFile(path);
  if (!file.ok()) return call.Fail(Status::NotFound("the file is gone"));
  const ByteRange sent = range->value_or(ByteRange{0, size});
  const auto sender = std::make_shared<FileSender>(call, *std::move(file), sent);
  http::HttpResponse head;
  head.content_type = content_type;
  head.headers.emplace_back("Accept-Ranges", "bytes");
  if (*range) {
    head.status = 206;
    head.headers.emplace_back("Content-Range",
                              fmt::format("bytes {}-{}/{}", sent.begin, sent.end - 1, size));
  }
  sender->Start(call.respond, std::move(head));
}

}  // namespace penstock::dialects
