// safetensors files: a JSON header, then raw little-endian tensors. Mapped, never copied; every
// offset is checked against the file before a view is handed out.
// Format: github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/dtype.h"
#include "common/status.h"
#include "formats/mapped_file.h"

namespace penstock {

// A tensor inside a mapped file; row-major, data.size() == elements * DTypeBytes(dtype).
struct TensorRecord {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  int64_t elements() const;
  // kUnsupported: the type is not F32, F16, BF16 or F64, as weights must be.
  Status CheckConvertible() const;
  // Converts to float. out.size() == elements(). Errors: those of CheckConvertible.
  Status CopyToF32(std::span<float> out) const;
};

// All tensors of a model: one model.safetensors, or the shards of model.safetensors.index.json.
class TensorStore {
 public:
  static constexpr size_t kHeaderBytesMax = 100 << 20;  // as the reference implementation
  static constexpr size_t kTensorsMax = 1 << 20;

  static Expected<std::unique_ptr<TensorStore>> OpenFile(const std::string& path);
  // Looks in `folder` for model.safetensors, else model.safetensors.index.json and its shards.
  static Expected<std::unique_ptr<TensorStore>> OpenFolder(const std::string& folder);

  // nullptr if there is none of that name.
  const TensorRecord* Find(std::string_view name) const;
  // In the order of the files and of the bytes in each.
  const std::vector<TensorRecord>& tensors() const { return tensors_; }
  uint64_t bytes_total() const { return bytes_total_; }
  // Call once the tensors are read. kUnavailable names a file that was truncated meanwhile, whose
  // tensors may be zeros.
  Status Check() const;

 private:
  Status AddFile(const std::string& path);
  Status IndexNames();  // once all files are in, for by_name_ points into tensors_

  std::vector<MappedFile> files_;
  std::vector<TensorRecord> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views into tensors_' names
  uint64_t bytes_total_ = 0;
};

}  // namespace penstock
