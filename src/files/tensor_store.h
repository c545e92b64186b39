// TensorStore: the tensors of a model by name, the same whatever format its files have. Mapped,
// never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"
#include "base/status.h"
#include "files/gguf_metadata.h"
#include "files/mapped_file.h"
#include "files/tensor_record.h"

namespace penstock::files {

struct GgufModel;  // files/gguf.h

// What a GGUF file has besides tensors; of a model in several files, the first one's.
struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 0;
  int64_t parts = 0;  // files of the model
  GgufMetadata metadata;
};

class TensorStore {
 public:
  // A safetensors file.
  static Expected<std::unique_ptr<TensorStore>> OpenFile(const std::string& path);
  // Looks in `folder` for model.safetensors, else model.safetensors.index.json and its shards.
  static Expected<std::unique_ptr<TensorStore>> OpenFolder(const std::string& folder);
  // A GGUF file, with all files of its model if it is one of several (files/gguf.h).
  static Expected<std::unique_ptr<TensorStore>> OpenGguf(const std::string& path);
  static Expected<std::unique_ptr<TensorStore>> Of(GgufModel model);

  // nullptr: no tensor has that name.
  const TensorRecord* Find(std::string_view name) const;
  // In the order of the files and of the bytes in each.
  const std::vector<TensorRecord>& tensors() const { return tensors_; }
  uint64_t bytes_total() const { return bytes_total_; }
  // nullptr: the files are not GGUF.
  const GgufHeader* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  // Once the tensors are read: kUnavailable names a file that was cut meanwhile, whose tensors may
  // be zeros.
  Status Check() const;

 private:
  Status AddSafetensors(const std::string& path);
  Status IndexNames();  // once all files are in, for by_name_ points into tensors_

  std::vector<MappedFile> files_;
  std::optional<GgufHeader> gguf_;  // views into files_
  std::vector<TensorRecord> tensors_;
  SeededMap<std::string_view, size_t> by_name_;  // views into tensors_' names
  uint64_t bytes_total_ = 0;
};

}  // namespace penstock::files
