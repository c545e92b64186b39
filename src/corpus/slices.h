// Inputs cut into shards of about equal bytes, so that many processes can work on them without
// asking each other: each finds the bounds of its own shard in the same files.
//
// All files are taken as one sequence of bytes. Shard i of n begins at the first row behind i / n of
// it. Files of lines (text and JSONL in UTF-8) are cut between two lines; others (packed files,
// arrays of JSON, tables, other encodings) go whole to the shard in which most of their first half
// lies. Shards in their order are the inputs in theirs; a shard may be empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/input_format.h"
#include "corpus/row_reader.h"

namespace penstock::corpus {

class ShardedInput {
 public:
  static constexpr int64_t kShardsMax = 1'000'000;

  struct File {
    std::string name;
    int64_t bytes = 0;
    // SHA-256 over its size, its first 16 KiB and its last 16 KiB, in hexadecimal digits: whether
    // another process sees the same file.
    std::string digest;
  };

  // Looks at each file's size, head and end. kInvalidArgument: standard input, or what is no
  // regular file, cannot be cut; kNotFound: it cannot be opened.
  static Expected<ShardedInput> Open(std::vector<std::string> files, const InputOptions& options);

  // The files, or parts of them, of shard `index` of `count`; reads where its bounds are. Errors of
  // FileRows::Open.
  Expected<std::vector<FileSlice>> Shard(int64_t index, int64_t count) const;

  const std::vector<File>& files() const { return files_; }
  int64_t bytes() const { return bytes_; }

 private:
  // Where a shard begins: byte `offset` of a file; file = files().size(): the end of all.
  struct Bound {
    size_t file = 0;
    int64_t offset = 0;
    InputFormat format = InputFormat::kAuto;
  };

  explicit ShardedInput(InputOptions options) : options_(std::move(options)) {}
  Expected<Bound> BoundAt(int64_t index, int64_t count) const;
  // The format of a file that may be cut between lines; nullopt: it may not.
  Expected<std::optional<InputFormat>> FormatToCut(const std::string& name) const;

  InputOptions options_;
  std::vector<File> files_;
  int64_t bytes_ = 0;
};

}  // namespace penstock::corpus
