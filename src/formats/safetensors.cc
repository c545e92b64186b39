#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <unordered_set>

#include "common/json.h"

namespace penstock {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kRankMax = 16;

static_assert(std::endian::native == std::endian::little, "safetensors are mapped, not converted");

std::optional<DType> DTypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kF64, DType::kI64,
                            DType::kI32, DType::kI8, DType::kU8, DType::kBool}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

// Reads element i of an array that need not be aligned.
template <typename T>
T Load(std::span<const std::byte> data, size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

struct ParsedTensor {
  TensorRecord record;
  uint64_t begin = 0;  // within the data part
  uint64_t end = 0;
};

// The shape, and the number of bytes it asks for.
Expected<uint64_t> ReadShape(const JsonObject& object, TensorRecord* record) {
  PENSTOCK_ASSIGN_OR_RETURN(const simdjson::dom::array shape, object.GetArray("shape", kRankMax));
  uint64_t bytes = DTypeBytes(record->dtype);
  int64_t elements = 1;  // but for sizes of 0: those before or behind one may not overflow either
  for (const simdjson::dom::element item : shape) {
    int64_t size = 0;
    if (item.get(size) != simdjson::SUCCESS || size < 0) {
      return Status::InvalidArgument("'shape' must hold whole numbers from 0", "shape");
    }
    record->shape.push_back(size);
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) ||
        (size > 0 && __builtin_mul_overflow(elements, size, &elements))) {
      return Status::InvalidArgument("'shape' overflows 64 bits", "shape");
    }
  }
  return bytes;
}

Expected<ParsedTensor> ReadTensor(const JsonObject& object, uint64_t data_bytes) {
  ParsedTensor tensor;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string dtype, object.GetString("dtype"));
  const auto known = DTypeNamed(dtype);
  if (!known) return Status::Unsupported("dtype " + dtype + " is not supported", "dtype");
  tensor.record.dtype = *known;
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t bytes, ReadShape(object, &tensor.record));

  PENSTOCK_ASSIGN_OR_RETURN(const simdjson::dom::array offsets, object.GetArray("data_offsets", 2));
  uint64_t bounds[2] = {};
  size_t count = 0;
  for (const simdjson::dom::element item : offsets) {
    if (item.get(bounds[count++]) != simdjson::SUCCESS) {
      return Status::InvalidArgument("'data_offsets' must hold whole numbers from 0",
                                     "data_offsets");
    }
  }
  if (count != 2 || bounds[0] > bounds[1] || bounds[1] > data_bytes) {
    return Status::InvalidArgument("'data_offsets' must be [begin, end] with begin <= end <= " +
                                       std::to_string(data_bytes) + ", the bytes of data",
                                   "data_offsets");
  }
  tensor.begin = bounds[0];
  tensor.end = bounds[1];
  if (bytes != tensor.end - tensor.begin) {
    return Status::InvalidArgument("the shape takes " + std::to_string(bytes) +
                                       " bytes, 'data_offsets' hold " +
                                       std::to_string(tensor.end - tensor.begin),
                                   "data_offsets");
  }
  return tensor;
}

// The tensors must lie end to end and fill the data: the format demands it, and it leaves no room
// for overlaps or hidden bytes.
Status CheckLayout(const std::vector<ParsedTensor>& tensors, uint64_t data_bytes) {
  std::vector<const ParsedTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const ParsedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const ParsedTensor* a, const ParsedTensor* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  uint64_t at = 0;
  for (const ParsedTensor* tensor : sorted) {
    if (tensor->begin != at) {
      return Status::InvalidArgument(
          "tensor '" + tensor->record.name + "' begins at byte " + std::to_string(tensor->begin) +
          (tensor->begin < at ? ", inside the tensor before it, which ends at "
                              : ", not where the tensor before it ends, at ") +
          std::to_string(at));
    }
    at = tensor->end;
  }
  if (at != data_bytes) {
    return Status::InvalidArgument("the tensors end at byte " + std::to_string(at) + " of " +
                                   std::to_string(data_bytes) + " bytes of data");
  }
  return Status::Ok();
}

Expected<std::vector<ParsedTensor>> ParseFile(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.size() < kLengthBytes) {
    return Status::InvalidArgument("truncated: " + std::to_string(bytes.size()) +
                                   " bytes, shorter than the header's length field");
  }
  const auto header_bytes = Load<uint64_t>(bytes, 0);
  if (header_bytes > TensorStore::kHeaderBytesMax) {
    return Status::InvalidArgument("the header claims " + std::to_string(header_bytes) +
                                   " bytes; at most " +
                                   std::to_string(TensorStore::kHeaderBytesMax) + " are allowed");
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return Status::InvalidArgument("truncated: the header claims " + std::to_string(header_bytes) +
                                   " bytes, the file has " +
                                   std::to_string(bytes.size() - kLengthBytes) + " after it");
  }
  const auto data = bytes.subspan(kLengthBytes + static_cast<size_t>(header_bytes));
  auto document =
      JsonDocument::Parse(file.text().substr(kLengthBytes, static_cast<size_t>(header_bytes)));
  if (!document.ok()) return document.status().Annotate("header");
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject header, document->Object());

  std::vector<ParsedTensor> tensors;
  std::unordered_set<std::string_view> names;
  Status status;
  header.ForEach([&](std::string_view name, simdjson::dom::element value) {
    if (!status.ok() || name == "__metadata__") return;
    if (!names.insert(name).second) {
      status = Status::InvalidArgument("tensor '" + std::string(name) + "' is there twice");
      return;
    }
    if (tensors.size() == TensorStore::kTensorsMax) {
      status = Status::InvalidArgument("more than " + std::to_string(TensorStore::kTensorsMax) +
                                       " tensors");
      return;
    }
    simdjson::dom::object object;
    if (value.get(object) != simdjson::SUCCESS) {
      status = Status::InvalidArgument("tensor '" + std::string(name) + "' is not an object");
      return;
    }
    auto tensor = ReadTensor(JsonObject(object), data.size());
    if (!tensor.ok()) {
      status = tensor.status().Annotate("tensor '" + std::string(name) + "'");
      return;
    }
    tensor->record.name = name;
    tensor->record.data = data.subspan(tensor->begin, tensor->end - tensor->begin);
    tensors.push_back(*std::move(tensor));
  });
  PENSTOCK_RETURN_IF_ERROR(status);
  PENSTOCK_RETURN_IF_ERROR(CheckLayout(tensors, data.size()));
  // Writers sort the header by type and name; readers are better served by the order of the bytes.
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const ParsedTensor& a, const ParsedTensor& b) { return a.begin < b.begin; });
  return tensors;
}

// The files model.safetensors.index.json names, each once; tensor name -> file in `weight_map`.
Expected<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, TensorStore::kHeaderBytesMax));
  auto object = document.Object();
  if (!object.ok()) return object.status().Annotate(path);
  auto weight_map = object->GetStringMapOrEmpty("weight_map");
  if (!weight_map.ok()) return weight_map.status().Annotate(path);
  if (weight_map->empty()) {
    return Status::InvalidArgument(path + ": 'weight_map' is missing or empty", "weight_map");
  }
  for (const auto& [tensor, file] : *weight_map) {
    // A name, not a path: an index may not reach outside its folder.
    if (file.empty() || file.find('/') != std::string::npos || file[0] == '.') {
      return Status::InvalidArgument(
          path + ": 'weight_map." + tensor + "' is not the name of a file: '" + file + "'",
          "weight_map");
    }
  }
  return weight_map;
}

}  // namespace

int64_t TensorRecord::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Status TensorRecord::CheckConvertible() const {
  if (ConvertsToF32(dtype)) return Status::Ok();
  return Status::Unsupported("tensor '" + name + "' is " + DTypeName(dtype) +
                             "; weights must be F32, F16, BF16 or F64");
}

Status TensorRecord::CopyToF32(std::span<float> out) const {
  PENSTOCK_CHECK(out.size() == static_cast<size_t>(elements()));
  PENSTOCK_RETURN_IF_ERROR(CheckConvertible());
  ConvertToF32(dtype, data.data(), out.size(), out.data());
  return Status::Ok();
}

Status TensorStore::AddFile(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto parsed = ParseFile(file);
  PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!parsed.ok()) return parsed.status().Annotate(path);
  if (parsed->size() > kTensorsMax - tensors_.size()) {
    return Status::InvalidArgument(path + ": more than " + std::to_string(kTensorsMax) +
                                   " tensors in all files");
  }
  for (ParsedTensor& tensor : *parsed) {
    bytes_total_ += tensor.record.data.size();
    tensors_.push_back(std::move(tensor.record));
  }
  files_.push_back(std::move(file));
  return Status::Ok();
}

Status TensorStore::IndexNames() {
  by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!by_name_.emplace(tensors_[i].name, i).second) {
      return Status::InvalidArgument("tensor '" + tensors_[i].name + "' is in two files");
    }
  }
  return Status::Ok();
}

Expected<std::unique_ptr<TensorStore>> TensorStore::OpenFile(const std::string& path) {
  auto store = std::make_unique<TensorStore>();
  PENSTOCK_RETURN_IF_ERROR(store->AddFile(path));
  PENSTOCK_RETURN_IF_ERROR(store->IndexNames());
  return store;
}

Expected<std::unique_ptr<TensorStore>> TensorStore::OpenFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path root(folder);
  std::error_code ignored;
  if (fs::exists(root / "model.safetensors", ignored)) {
    return OpenFile((root / "model.safetensors").string());
  }
  const std::string index = (root / "model.safetensors.index.json").string();
  if (!fs::exists(index, ignored)) {
    if (fs::exists(root / "pytorch_model.bin", ignored) ||
        fs::exists(root / "pytorch_model.bin.index.json", ignored)) {
      return Status::Unsupported(folder +
                                 " has its weights as pytorch_model.bin only; convert them to "
                                 "model.safetensors");
    }
    return Status::NotFound("neither model.safetensors nor model.safetensors.index.json in " +
                            folder);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto weight_map, ReadIndex(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  auto store = std::make_unique<TensorStore>();
  for (const std::string& name : names) {
    PENSTOCK_RETURN_IF_ERROR(store->AddFile((root / name).string()));
  }
  const Status indexed = store->IndexNames();
  if (!indexed.ok()) return indexed.Annotate(index);
  for (const auto& [tensor, file] : weight_map) {
    if (store->Find(tensor) == nullptr) {
      return Status::InvalidArgument(index + ": tensor '" + tensor + "' is not in " + file);
    }
  }
  return store;
}

Status TensorStore::Check() const {
  for (const MappedFile& file : files_) PENSTOCK_RETURN_IF_ERROR(file.Check());
  return Status::Ok();
}

const TensorRecord* TensorStore::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace penstock
