// Unpacked of byte_source.h.
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "corpus/byte_source.h"

namespace penstock::corpus {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr int kZstdWindowLogMax = 27;  // 128 MiB; `zstd --long=31` writes more

// A block of the packed bytes, those that were looked at first among them.
class PackedBytes {
 public:
  explicit PackedBytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // Reads a block where none is left; false at the end.
  Expected<bool> Fill() { return !rest().empty() ? true : Read(); }
  // Reads until `size` bytes are there, or the end has come.
  Status FillTo(size_t size) {
    while (rest().size() < size) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
      if (!more) break;
    }
    return Status::Ok();
  }
  std::string_view rest() const { return {block_.get() + begin_, end_ - begin_}; }
  void Consume(size_t size) { begin_ += size; }
  ByteSource* source() { return source_.get(); }
  int64_t disk_bytes() const { return source_->disk_bytes() - static_cast<int64_t>(rest().size()); }

 private:
  Expected<bool> Read() {
    if (block_ == nullptr) block_ = std::make_unique_for_overwrite<char[]>(kBlockBytes);
    std::memmove(block_.get(), block_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    PENSTOCK_ASSIGN_OR_RETURN(const size_t read,
                              source_->Read(block_.get() + end_, kBlockBytes - end_));
    end_ += read;
    return read > 0;
  }

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> block_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(PackedBytes bytes) : bytes_(std::move(bytes)) {}
  Expected<size_t> Read(char* data, size_t size) override {
    if (bytes_.rest().empty()) return bytes_.source()->Read(data, size);
    const size_t n = std::min(size, bytes_.rest().size());
    std::memcpy(data, bytes_.rest().data(), n);
    bytes_.Consume(n);
    return n;
  }
  int64_t disk_bytes() const override { return bytes_.disk_bytes(); }

 private:
  PackedBytes bytes_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(PackedBytes bytes) : bytes_(std::move(bytes)) {}
  ~GzipSource() override { inflateEnd(&stream_); }
  Status Start() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) {
      return {StatusCode::kResourceExhausted, "no memory to unpack gzip"};
    }
    return Status::Ok();
  }

  Expected<size_t> Read(char* data, size_t size) override {
    const auto room = static_cast<uInt>(std::min<size_t>(size, 1 << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(data);
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, bytes_.Fill());
      if (!more && in_member_) return Status::InvalidArgument("the gzip data are cut off");
      if (!more) return 0;
      PENSTOCK_RETURN_IF_ERROR(Inflate());
    }
    return room - stream_.avail_out;
  }
  int64_t disk_bytes() const override { return bytes_.disk_bytes(); }

 private:
  Status Inflate() {
    if (!in_member_ && members_ > 0) inflateReset(&stream_);
    in_member_ = true;
    const std::string_view in = bytes_.rest();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    bytes_.Consume(in.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      in_member_ = false;
      ++members_;
      return Status::Ok();
    }
    if (result == Z_OK || result == Z_BUF_ERROR) return Status::Ok();
    if (result == Z_MEM_ERROR) return {StatusCode::kResourceExhausted, "no memory to unpack gzip"};
    const std::string_view reason = stream_.msg != nullptr ? stream_.msg : "zlib says no more";
    if (members_ > 0 && reason == "incorrect header check") {
      return Status::InvalidArgument("after the gzip data come bytes that are not gzip");
    }
    return Status::InvalidArgument(fmt::format("the gzip data are damaged: {}", reason));
  }

  PackedBytes bytes_;
  z_stream stream_{};
  bool in_member_ = false;
  size_t members_ = 0;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(PackedBytes bytes) : bytes_(std::move(bytes)) {}
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  Status Start() {
    context_ = ZSTD_createDCtx();
    if (context_ == nullptr ||
        ZSTD_isError(ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kZstdWindowLogMax))) {
      return {StatusCode::kResourceExhausted, "no memory to unpack zstd"};
    }
    return Status::Ok();
  }

  Expected<size_t> Read(char* data, size_t size) override {
    ZSTD_outBuffer out{data, size, 0};
    while (out.pos == 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, bytes_.Fill());
      if (!more && wanted_ == 0) return 0;
      ZSTD_inBuffer in{bytes_.rest().data(), bytes_.rest().size(), 0};
      const bool at_begin = wanted_ == 0;
      wanted_ = ZSTD_decompressStream(context_, &out, &in);
      if (ZSTD_isError(wanted_)) return Failure(ZSTD_getErrorCode(wanted_), at_begin);
      bytes_.Consume(in.pos);
      if (wanted_ == 0) ++frames_;
      // The decoder may hold back output that found no room before; without more there is nothing
      // left.
      if (!more && out.pos == 0 && wanted_ != 0)
        return Status::InvalidArgument("the zstd data are cut off");
    }
    return out.pos;
  }
  int64_t disk_bytes() const override { return bytes_.disk_bytes(); }

 private:
  Status Failure(ZSTD_ErrorCode code, bool at_begin) const {
    switch (code) {
      case ZSTD_error_memory_allocation:
        return {StatusCode::kResourceExhausted, "no memory to unpack zstd"};
      case ZSTD_error_frameParameter_windowTooLarge:
        return {StatusCode::kPayloadTooLarge,
                fmt::format("the zstd data need a window over {} MiB; pack them without --long",
                            (size_t{1} << kZstdWindowLogMax) >> 20)};
      case ZSTD_error_prefix_unknown:
        if (frames_ > 0 && at_begin) {
          return Status::InvalidArgument("after the zstd data come bytes that are not zstd");
        }
        [[fallthrough]];
      default:
        return Status::InvalidArgument(
            fmt::format("the zstd data are damaged: {}", ZSTD_getErrorString(code)));
    }
  }

  PackedBytes bytes_;
  ZSTD_DCtx* context_ = nullptr;
  size_t wanted_ = 0;  // 0 between frames
  size_t frames_ = 0;
};

bool IsGzip(std::string_view head) { return head.starts_with("\x1f\x8b"); }

bool IsZstd(std::string_view head) {
  if (head.size() < 4) return false;
  const bool skippable =
      (head[0] & '\xf0') == '\x50' && head.substr(1, 3) == "\x2a\x4d\x18";  // pzstd begins so
  return skippable || head.starts_with("\x28\xb5\x2f\xfd");
}

template <typename Source>
Expected<std::unique_ptr<ByteSource>> Started(PackedBytes bytes) {
  auto source = std::make_unique<Source>(std::move(bytes));
  PENSTOCK_RETURN_IF_ERROR(source->Start());
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace

bool IsPacked(std::string_view head) { return IsGzip(head) || IsZstd(head); }

Expected<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> packed) {
  PackedBytes bytes(std::move(packed));
  PENSTOCK_RETURN_IF_ERROR(bytes.FillTo(kPackedHeadBytes));
  if (IsGzip(bytes.rest())) return Started<GzipSource>(std::move(bytes));
  if (IsZstd(bytes.rest())) return Started<ZstdSource>(std::move(bytes));
  return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(bytes)));
}

}  // namespace penstock::corpus
