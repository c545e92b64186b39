#include "corpus/slices.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/regular_file.h"
#include "base/sha256.h"

namespace penstock::corpus {
namespace {

constexpr size_t kSampleBytes = 16 << 10;
constexpr size_t kScanBytes = 64 << 10;

Status CannotRead(const std::string& name) {
  return {StatusCode::kUnavailable, fmt::format("cannot read {}: {}", name, strerror(errno))};
}

// As many bytes from `offset` on as there are, at most `size`. `name`: for messages.
Expected<std::string> ReadAt(const std::string& name, int fd, int64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t n = pread(fd, bytes.data() + have, size - have,
                            static_cast<off_t>(offset) + static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(name);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

Expected<ShardedInput::File> LookAt(const std::string& name) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(name));
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return CannotRead(name);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string first, ReadAt(name, file.get(), 0, kSampleBytes));
  const int64_t end = std::max<int64_t>(facts.st_size - static_cast<int64_t>(kSampleBytes), 0);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string last, ReadAt(name, file.get(), end, kSampleBytes));
  return ShardedInput::File{name, facts.st_size,
                            Sha256Hex(fmt::format("{}\n", facts.st_size) + first + last)};
}

// The first byte of the first line that begins at `offset` or later; the size of the file if no line does.
Expected<int64_t> LineBegin(const std::string& name, int64_t offset) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(name));
  for (int64_t at = offset - 1;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string block, ReadAt(name, file.get(), at, kScanBytes));
    if (const size_t end = block.find('\n'); end != std::string::npos) {
      return at + static_cast<int64_t>(end) + 1;
    }
    at += static_cast<int64_t>(block.size());
    if (block.size() < kScanBytes) return at;
  }
}

}  // namespace

Expected<ShardedInput> ShardedInput::Open(std::vector<std::string> files,
                                          const InputOptions& options) {
  if (files.empty()) files.emplace_back("-");
  ShardedInput input(options);
  for (const std::string& name : files) {
    if (name == "-") {
      return Status::InvalidArgument("stdin cannot be cut into shards; name files", "FILES");
    }
    PENSTOCK_ASSIGN_OR_RETURN(File file, LookAt(name));
    input.bytes_ += file.bytes;
    input.files_.push_back(std::move(file));
  }
  return input;
}

Expected<std::optional<InputFormat>> ShardedInput::FormatToCut(const std::string& name) const {
  if (options_.encoding != TextEncoding::kUtf8) return std::optional<InputFormat>();
  {
    PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(name));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string head,
                              ReadAt(name, file.get(), 0, kPackedHeadBytes));
    if (IsPacked(head)) return std::optional<InputFormat>();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto rows, FileRows::Open({.file = name}, options_));
  const InputFormat format = rows->format();
  const bool lines = format == InputFormat::kText || format == InputFormat::kJsonl;
  return lines ? std::optional(format) : std::nullopt;
}

Expected<ShardedInput::Bound> ShardedInput::BoundAt(int64_t index, int64_t count) const {
  const auto target = static_cast<int64_t>(static_cast<__int128>(bytes_) * index / count);
  Bound bound;
  int64_t begin = 0;
  while (bound.file < files_.size() && begin + files_[bound.file].bytes <= target) {
    begin += files_[bound.file++].bytes;
  }
  // Empty files at the end belong to the last shard.
  if (index == count) bound.file = files_.size();
  if (bound.file == files_.size() || target == begin) return bound;
  const File& file = files_[bound.file];
  PENSTOCK_ASSIGN_OR_RETURN(const auto format, FormatToCut(file.name));
  if (!format) {
    if (2 * (target - begin) > file.bytes) ++bound.file;
    return bound;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t line, LineBegin(file.name, target - begin));
  if (line >= file.bytes) {
    ++bound.file;
    return bound;
  }
  bound.offset = line;
  bound.format = *format;
  return bound;
}

Expected<std::vector<FileSlice>> ShardedInput::Shard(int64_t index, int64_t count) const {
  PENSTOCK_CHECK(index >= 0 && index < count);
  PENSTOCK_ASSIGN_OR_RETURN(const Bound begin, BoundAt(index, count));
  PENSTOCK_ASSIGN_OR_RETURN(const Bound end, BoundAt(index + 1, count));
  std::vector<FileSlice> slices;
  for (size_t file = begin.file; file < files_.size() && file <= end.file; ++file) {
    FileSlice slice{.file = files_[file].name};
    if (file == begin.file) {
      slice.begin = begin.offset;
      slice.format = begin.format;
    }
    if (file == end.file) {
      if (end.offset == slice.begin) break;
      slice.end = end.offset;
    }
    slices.push_back(std::move(slice));
  }
  return slices;
}

}  // namespace penstock::corpus
