#include "openvino/onnx_scan.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "files/byte_reader.h"

namespace penstock::openvino {
namespace {

enum class Message {
  kModel,
  kFunction,
  kGraph,
  kMainGraph,  // that of the model: its names are the model's
  kNode,
  kAttribute,
  kSparseTensor,
  kTensor,
  kMainTensor,  // an initializer of the main graph
  kMainInput,
  kMainOutput,
  kExternalEntry,
};

// Field `number` of message `from` is a message `to`.
struct Edge {
  Message from;
  uint32_t number;
  Message to;
};
constexpr std::array kEdges = {
    Edge{Message::kModel, 7, Message::kMainGraph},
    Edge{Message::kModel, 25, Message::kFunction},
    Edge{Message::kFunction, 7, Message::kNode},
    Edge{Message::kMainGraph, 1, Message::kNode},
    Edge{Message::kMainGraph, 5, Message::kMainTensor},
    Edge{Message::kMainGraph, 11, Message::kMainInput},
    Edge{Message::kMainGraph, 12, Message::kMainOutput},
    Edge{Message::kMainGraph, 15, Message::kSparseTensor},
    Edge{Message::kGraph, 1, Message::kNode},
    Edge{Message::kGraph, 5, Message::kTensor},
    Edge{Message::kGraph, 15, Message::kSparseTensor},
    Edge{Message::kNode, 5, Message::kAttribute},
    Edge{Message::kAttribute, 5, Message::kTensor},
    Edge{Message::kAttribute, 6, Message::kGraph},
    Edge{Message::kAttribute, 10, Message::kTensor},
    Edge{Message::kAttribute, 11, Message::kGraph},
    Edge{Message::kAttribute, 22, Message::kSparseTensor},
    Edge{Message::kAttribute, 23, Message::kSparseTensor},
    Edge{Message::kSparseTensor, 1, Message::kTensor},
    Edge{Message::kSparseTensor, 2, Message::kTensor},
    Edge{Message::kTensor, 13, Message::kExternalEntry},
    Edge{Message::kMainTensor, 13, Message::kExternalEntry},
};

constexpr uint32_t kNameOfTensor = 8;
constexpr uint32_t kNameOfValue = 1;
constexpr uint32_t kKeyOfEntry = 1;
constexpr uint32_t kValueOfEntry = 2;

Status Broken(const char* what) {
  return Status::InvalidArgument(fmt::format("no ONNX model: {}", what));
}

// Ten bytes at most, seven bits each.
bool ReadVarint(files::ByteReader* reader, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    uint8_t byte = 0;
    if (!reader->Read(&byte)) return false;
    if (shift < 64) *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Scanner {
 public:
  Expected<OnnxScan> Run(std::span<const std::byte> file) {
    PENSTOCK_RETURN_IF_ERROR(Scan(Message::kModel, file, 0));
    std::erase_if(scan_.inputs, [&](const std::string& name) { return values_.contains(name); });
    return std::move(scan_);
  }

 private:
  Status Scan(Message message, std::span<const std::byte> bytes, size_t depth) {
    if (depth > OnnxScan::kDepthMax) {
      return Broken("its graphs are nested too deep");
    }
    files::ByteReader reader(bytes);
    while (reader.left() > 0) {
      uint64_t tag = 0;
      if (!ReadVarint(&reader, &tag)) return Broken("it is cut short");
      std::span<const std::byte> content;
      uint64_t number = 0;
      switch (tag & 7) {
        case 0:
          if (!ReadVarint(&reader, &number)) return Broken("it is cut short");
          continue;
        case 1:
        case 5:
          if (!reader.Take((tag & 7) == 1 ? 8 : 4, &content)) return Broken("it is cut short");
          continue;
        case 2:
          if (!ReadVarint(&reader, &number) || !reader.Take(number, &content)) {
            return Broken("it is cut short");
          }
          break;
        default:
          return Broken("it has a field of an unknown kind");
      }
      PENSTOCK_RETURN_IF_ERROR(Field(message, tag >> 3, content, depth));
    }
    return Status::Ok();
  }

  Status Field(Message message, uint64_t number, std::span<const std::byte> content, size_t depth) {
    for (const Edge& edge : kEdges) {
      if (edge.from != message || edge.number != number) continue;
      if (edge.to == Message::kExternalEntry) return Entry(content, depth + 1);
      const bool tensor = edge.to == Message::kTensor || edge.to == Message::kMainTensor;
      const size_t before = scan_.external.size();
      if (tensor) entry_ = {};
      PENSTOCK_RETURN_IF_ERROR(Scan(edge.to, content, depth + 1));
      if (tensor && !entry_.location.empty()) scan_.external.push_back(std::move(entry_));
      if (scan_.external.size() > before && before >= OnnxScan::kExternalMax) {
        return Broken("it has too many external tensors");
      }
      return Status::Ok();
    }
    if (message == Message::kMainTensor && number == kNameOfTensor) {
      values_.emplace(Text(content));
    } else if (message == Message::kMainInput && number == kNameOfValue) {
      scan_.inputs.emplace_back(Text(content));
    } else if (message == Message::kMainOutput && number == kNameOfValue) {
      scan_.outputs.emplace_back(Text(content));
    } else if (message == Message::kExternalEntry) {
      if (number == kKeyOfEntry) key_ = Text(content);
      if (number == kValueOfEntry) value_ = Text(content);
    }
    if (scan_.inputs.size() + scan_.outputs.size() > OnnxScan::kNamesMax) {
      return Broken("it has too many inputs and outputs");
    }
    return Status::Ok();
  }

  // A key and its value, in any order.
  Status Entry(std::span<const std::byte> content, size_t depth) {
    key_ = value_ = {};
    PENSTOCK_RETURN_IF_ERROR(Scan(Message::kExternalEntry, content, depth));
    if (key_ == "location") entry_.location = value_;
    if (key_ != "offset" && key_ != "length") return Status::Ok();
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value_.data(), value_.data() + value_.size(), number);
    if (error != std::errc() || end != value_.data() + value_.size()) {
      return Broken("the offset or length of an external tensor is not a number");
    }
    if (key_ == "offset") entry_.offset = number;
    if (key_ == "length") entry_.length = number;
    return Status::Ok();
  }

  OnnxScan scan_;
  std::set<std::string, std::less<>> values_;  // names of initializers
  ExternalData entry_;                         // of the tensor under way
  std::string_view key_, value_;
};

}  // namespace

Expected<OnnxScan> ScanOnnx(std::span<const std::byte> file) { return Scanner().Run(file); }

}  // namespace penstock::openvino
