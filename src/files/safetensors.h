// safetensors files: a JSON header, then raw little-endian tensors. Never copied; every offset is
// checked against the file before a view is handed out. files/tensor_store.h opens them.
// Format: github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/tensor_record.h"

namespace penstock::files {

inline constexpr size_t kSafetensorsHeaderBytesMax = 100 << 20;  // as the reference implementation

// The tensors of a file, in the order of their bytes; views into `bytes`.
Expected<std::vector<TensorRecord>> ParseSafetensors(std::span<const std::byte> bytes);

// model.safetensors.index.json: the name of each tensor and of the file that holds it, which is no
// path.
Expected<std::map<std::string, std::string>> ReadSafetensorsIndex(const std::string& path);

}  // namespace penstock::files
