// GGUF files, versions 2 and 3, little-endian: metadata by key, then tensors. Mapped, never copied;
// every offset, count and size is checked against the file before it is used, and nothing is
// allocated by what a header claims, only by what is found.
// Format: github.com/ggml-org/ggml, docs/gguf.md; splitting: the keys split.* as llama.cpp's
// gguf-split writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/gguf_metadata.h"
#include "files/mapped_file.h"
#include "files/tensor_record.h"

namespace penstock::files {

inline constexpr int kGgufRankMax = 4;  // sizes of a tensor, as the format's own implementation
// The specification says 64; some writers go beyond.
inline constexpr size_t kGgufNameBytesMax = 256;
// A huge page: nothing gains by more, and offsets stay far from overflow.
inline constexpr uint64_t kGgufAlignmentMax = 2 << 20;
inline constexpr uint64_t kGgufAlignmentMin = 8;  // the specification's
inline constexpr uint64_t kGgufAlignment = 32;    // where general.alignment is absent
// Files of one model; all stay open. The largest published ones have some dozens.
inline constexpr int64_t kGgufPartsMax = 1024;

// One file.
struct GgufFile {
  uint32_t version = 0;
  uint64_t alignment = kGgufAlignment;
  GgufMetadata metadata;
  // In the order of their bytes. Shapes begin with the slowest size, as everywhere in Penstock; the
  // file has them the other way around.
  std::vector<TensorRecord> tensors;
};

// Everything in the file is a view into `bytes`. kUnsupported names what Penstock does not read:
// versions 1 and above 3, big-endian files, types of tensors other than F32, F16, BF16 and the
// block types of numbers/dtype.h. Of a file that is one of several: this one alone.
Expected<GgufFile> ParseGguf(std::span<const std::byte> bytes);

// A model: one file, or several named NAME-00001-of-00003.gguf and so on, of which `path` may be
// any. Files that are missing, swapped, of another model or there twice are refused.
struct GgufModel {
  static Expected<GgufModel> Open(const std::string& path);

  std::vector<MappedFile> files;  // what all below are views into
  uint32_t version = 0;           // of the first file, as the next two
  uint64_t alignment = kGgufAlignment;
  GgufMetadata metadata;              // the model's
  std::vector<TensorRecord> tensors;  // in the order of the files and of the bytes in each
};

}  // namespace penstock::files
