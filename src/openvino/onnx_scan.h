// What Penstock asks of an ONNX file before the runtime reads it: the names that it declares, and
// the files outside it in which its weights are.
//
// Format: github.com/onnx/onnx, onnx/onnx.proto; the encoding is that of protocol buffers
// (protobuf.dev/programming-guides/encoding). Fields that are not asked for are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::openvino {

// A tensor's place in another file.
struct ExternalData {
  std::string location;            // as the file has it: relative to the model's folder
  uint64_t offset = 0;             // bytes
  std::optional<uint64_t> length;  // bytes; nullopt: to the end of the file
};

struct OnnxScan {
  static constexpr size_t kDepthMax = 64;  // messages inside each other
  static constexpr size_t kExternalMax = 1 << 20;
  static constexpr size_t kNamesMax = 1 << 16;

  std::vector<std::string> inputs;  // of the graph, in order, without those that have a value
  std::vector<std::string> outputs;
  std::vector<ExternalData> external;
};

// kInvalidArgument: the file is cut short, its messages are nested deeper than kDepthMax, or there
// are too many names or external tensors.
Expected<OnnxScan> ScanOnnx(std::span<const std::byte> file);

}  // namespace penstock::openvino
