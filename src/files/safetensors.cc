#include "files/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/printable.h"
#include "base/seeded_hash.h"
#include "json/json.h"

namespace penstock::files {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kRankMax = 16;

static_assert(std::endian::native == std::endian::little, "safetensors are mapped, not converted");

// Reads element i of an array that need not be aligned.
template <typename T>
T Load(std::span<const std::byte> data, size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

struct HeaderEntry {
  TensorRecord record;
  uint64_t begin = 0;  // within the data part
  uint64_t end = 0;
};

// The shape, and the number of bytes it asks for.
Expected<uint64_t> ReadShape(const JsonObject& object, TensorRecord* record) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray shape, object.GetArray("shape", kRankMax));
  uint64_t bytes = numbers::DTypeBytes(record->dtype);
  int64_t elements = 1;  // but for sizes of 0: those before or behind one may not overflow either
  for (const JsonElement item : shape) {
    int64_t size = 0;
    if (!item.Get(&size) || size < 0) {
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

Expected<HeaderEntry> ReadTensor(const JsonObject& object, uint64_t data_bytes) {
  HeaderEntry tensor;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string dtype, object.GetString("dtype"));
  const auto known = numbers::DTypeOfSafetensors(dtype);
  if (!known) return Status::Unsupported("dtype " + Shown(dtype) + " is not supported", "dtype");
  tensor.record.dtype = *known;
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t bytes, ReadShape(object, &tensor.record));

  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray offsets, object.GetArray("data_offsets", 2));
  uint64_t bounds[2] = {};
  size_t count = 0;
  for (const JsonElement item : offsets) {
    if (!item.Get(&bounds[count++])) {
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
Status CheckLayout(const std::vector<HeaderEntry>& tensors, uint64_t data_bytes) {
  std::vector<const HeaderEntry*> sorted;
  sorted.reserve(tensors.size());
  for (const HeaderEntry& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  uint64_t at = 0;
  for (const HeaderEntry* tensor : sorted) {
    if (tensor->begin != at) {
      return Status::InvalidArgument("tensor '" + Shown(tensor->record.name) + "' begins at byte " +
                                     std::to_string(tensor->begin) +
                                     (tensor->begin < at
                                          ? ", inside the tensor before it, which ends at "
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

}  // namespace

Expected<std::vector<TensorRecord>> ParseSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    return Status::InvalidArgument("truncated: " + std::to_string(bytes.size()) +
                                   " bytes, shorter than the header's length field");
  }
  const auto header_bytes = Load<uint64_t>(bytes, 0);
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    return Status::InvalidArgument("the header claims " + std::to_string(header_bytes) +
                                   " bytes; at most " + std::to_string(kSafetensorsHeaderBytesMax) +
                                   " are allowed");
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return Status::InvalidArgument("truncated: the header claims " + std::to_string(header_bytes) +
                                   " bytes, the file has " +
                                   std::to_string(bytes.size() - kLengthBytes) + " after it");
  }
  const auto data = bytes.subspan(kLengthBytes + static_cast<size_t>(header_bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto document = JsonDocument::Parse(text.substr(kLengthBytes, static_cast<size_t>(header_bytes)));
  if (!document.ok()) return document.status().Annotate("header");
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject header, document->Object());

  std::vector<HeaderEntry> tensors;
  SeededSet<std::string_view> names;
  Status status;
  header.ForEach([&](std::string_view name, JsonElement value) {
    if (!status.ok() || name == "__metadata__") return;
    if (!names.insert(name).second) {
      status = Status::InvalidArgument("tensor '" + Shown(name) + "' is there twice");
      return;
    }
    if (tensors.size() == kTensorsMax) {
      status = Status::InvalidArgument("more than " + std::to_string(kTensorsMax) + " tensors");
      return;
    }
    JsonObject object;
    if (!value.Get(&object)) {
      status = Status::InvalidArgument("tensor '" + Shown(name) + "' is not an object");
      return;
    }
    auto tensor = ReadTensor(JsonObject(object), data.size());
    if (!tensor.ok()) {
      status = tensor.status().Annotate("tensor '" + Shown(name) + "'");
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
                   [](const HeaderEntry& a, const HeaderEntry& b) { return a.begin < b.begin; });
  std::vector<TensorRecord> records;
  records.reserve(tensors.size());
  for (HeaderEntry& tensor : tensors) records.push_back(std::move(tensor.record));
  return records;
}

Expected<std::map<std::string, std::string>> ReadSafetensorsIndex(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, kSafetensorsHeaderBytesMax));
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
      return Status::InvalidArgument(path + ": 'weight_map." + Shown(tensor) +
                                         "' is not the name of a file: '" + Shown(file) + "'",
                                     "weight_map");
    }
  }
  return weight_map;
}

}  // namespace penstock::files
