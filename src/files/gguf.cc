#include "files/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "base/seeded_hash.h"

namespace penstock::files {
namespace {

constexpr std::string_view kMagic = "GGUF";
// Length of the name, count of sizes, type, offset.
constexpr size_t kTensorBytesMin = 8 + 4 + 4 + 8;

// Those that are not read, by their number; withdrawn ones stay named.
constexpr std::pair<uint32_t, const char*> kUnreadTypes[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {9, "Q8_1"},        {10, "Q2_K"},    {11, "Q3_K"},
    {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},     {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"},     {21, "IQ3_S"},      {22, "IQ2_S"},      {23, "IQ4_XS"},  {24, "I8"},
    {25, "I16"},        {26, "I32"},        {27, "I64"},        {28, "F64"},     {29, "IQ1_M"},
    {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},   {34, "TQ1_0"},   {35, "TQ2_0"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {39, "MXFP4"},   {40, "NVFP4"},
    {41, "Q1_0"},
};

Expected<numbers::DType> TypeOfNumber(uint32_t number) {
  if (const std::optional<numbers::DType> dtype = numbers::DTypeOfGguf(number)) return *dtype;
  for (const auto& [unread, name] : kUnreadTypes) {
    if (unread == number) {
      return Status::Unsupported(std::string("is of type ") + name + ", which is not supported");
    }
  }
  return Status::Unsupported("has a type of number " + std::to_string(number) +
                             ", which Penstock does not know");
}

struct ParsedTensor {
  TensorRecord record;  // without its data
  uint64_t offset = 0;  // from the begin of the data
  uint64_t bytes = 0;
};

Status Truncated(const std::string& within) {
  return Status::InvalidArgument("truncated: the file ends within " + within);
}

Status ReadVersion(ByteReader* reader, uint32_t* version) {
  std::span<const std::byte> magic;
  if (!reader->Take(kMagic.size(), &magic)) return Truncated("the header");
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kMagic)).begin())) {
    return Status::InvalidArgument("is not a GGUF file: it does not begin with 'GGUF'");
  }
  if (!reader->Read(version)) return Truncated("the header");
  if (*version == 2 || *version == 3) return Status::Ok();
  if ((*version & 0xffff) == 0 && *version != 0) {
    return Status::Unsupported("is a big-endian GGUF file; only little-endian ones are read");
  }
  return Status::Unsupported("is of GGUF version " + std::to_string(*version) +
                             "; versions 2 and 3 are read");
}

Expected<uint64_t> ReadAlignment(const GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t alignment,
      metadata.GetIntOr("general.alignment", kGgufAlignment, kGgufAlignmentMin, kGgufAlignmentMax));
  if (std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return static_cast<uint64_t>(alignment);
  }
  return Status::InvalidArgument(
      "key 'general.alignment' must be a power of two, but is " + std::to_string(alignment),
      "general.alignment");
}

// The sizes, the type, and the bytes that they take. Errors do not have the tensor's name.
Status ReadShapeAndType(ByteReader* reader, ParsedTensor* tensor) {
  uint32_t rank = 0;
  if (!reader->Read(&rank)) return Truncated("its description");
  if (rank > kGgufRankMax) {
    return Status::InvalidArgument("has " + std::to_string(rank) + " dimensions; at most " +
                                   std::to_string(kGgufRankMax) + " are allowed");
  }
  std::array<uint64_t, kGgufRankMax> sizes = {};
  for (uint32_t i = 0; i < rank; ++i) {
    if (!reader->Read(&sizes[i])) return Truncated("its description");
  }
  uint32_t number = 0;
  if (!reader->Read(&number) || !reader->Read(&tensor->offset)) return Truncated("its description");
  PENSTOCK_ASSIGN_OR_RETURN(tensor->record.dtype, TypeOfNumber(number));
  const numbers::DTypeBlock block = numbers::BlockOf(tensor->record.dtype);
  const uint64_t row = rank > 0 ? sizes[0] : 1;
  if (row % block.elements != 0) {
    return Status::InvalidArgument("has rows of " + std::to_string(row) +
                                   " elements, which are not "
                                   "whole blocks of " +
                                   std::to_string(block.elements) + " as type " +
                                   numbers::DTypeName(tensor->record.dtype) + " has");
  }
  int64_t elements = 1;
  for (uint32_t i = rank; i-- > 0;) {
    if (sizes[i] == 0) return Status::InvalidArgument("has a size of 0");
    if (__builtin_mul_overflow(elements, sizes[i], &elements)) {
      return Status::InvalidArgument("has sizes whose product overflows 64 bits");
    }
    tensor->record.shape.push_back(static_cast<int64_t>(sizes[i]));
  }
  if (__builtin_mul_overflow(static_cast<uint64_t>(elements) / block.elements, block.bytes,
                             &tensor->bytes)) {
    return Status::InvalidArgument("has sizes whose bytes overflow 64 bits");
  }
  return Status::Ok();
}

std::string TensorName(std::string_view name) { return "tensor '" + Shown(name) + "'"; }

Expected<std::vector<ParsedTensor>> ReadTensors(uint64_t count, ByteReader* reader) {
  std::vector<ParsedTensor> tensors;
  SeededSet<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string place = std::to_string(i + 1) + " of " + std::to_string(count);
    std::string_view name;
    if (!reader->ReadString(&name)) return Truncated("the name of tensor " + place);
    if (name.empty() || name.size() > kGgufNameBytesMax) {
      return Status::InvalidArgument("tensor " + place + " has a name of " +
                                     std::to_string(name.size()) + " bytes; from 1 to " +
                                     std::to_string(kGgufNameBytesMax) + " are allowed");
    }
    if (!names.insert(name).second) {
      return Status::InvalidArgument(TensorName(name) + " is there twice");
    }
    ParsedTensor tensor;
    const Status read = ReadShapeAndType(reader, &tensor);
    if (!read.ok()) return read.Annotate(TensorName(name));
    tensor.record.name = name;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Sorts the tensors by their bytes and gives them their views of `data`. Between tensors, and
// behind the last, there may be bytes: writers pad.
Status PlaceTensors(uint64_t alignment, std::span<const std::byte> data,
                    std::vector<ParsedTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(),
            [](const ParsedTensor& a, const ParsedTensor& b) { return a.offset < b.offset; });
  const ParsedTensor* before = nullptr;
  for (ParsedTensor& tensor : *tensors) {
    const std::string name = TensorName(tensor.record.name);
    if (tensor.offset % alignment != 0) {
      return Status::InvalidArgument(name + " begins at byte " + std::to_string(tensor.offset) +
                                     " of the data, which is not a multiple of the alignment, " +
                                     std::to_string(alignment));
    }
    if (tensor.offset > data.size() || tensor.bytes > data.size() - tensor.offset) {
      return Status::InvalidArgument(
          "truncated: " + name + " takes " + std::to_string(tensor.bytes) + " bytes from byte " +
          std::to_string(tensor.offset) + " of the data on, the file has " +
          std::to_string(data.size()) + " bytes of data");
    }
    if (before != nullptr && tensor.offset - before->offset < before->bytes) {
      return Status::InvalidArgument(name + " begins at byte " + std::to_string(tensor.offset) +
                                     " of the data, inside " + TensorName(before->record.name));
    }
    tensor.record.data =
        data.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
    before = &tensor;
  }
  return Status::Ok();
}

}  // namespace

Expected<GgufFile> ParseGguf(std::span<const std::byte> bytes) {
  GgufFile file;
  ByteReader reader(bytes);
  PENSTOCK_RETURN_IF_ERROR(ReadVersion(&reader, &file.version));
  uint64_t tensor_count = 0;
  uint64_t key_count = 0;
  if (!reader.Read(&tensor_count) || !reader.Read(&key_count)) return Truncated("the header");
  if (tensor_count > kTensorsMax) {
    return Status::InvalidArgument("the header claims " + std::to_string(tensor_count) +
                                   " tensors; at most " + std::to_string(kTensorsMax) +
                                   " are allowed");
  }
  if (tensor_count > reader.left() / kTensorBytesMin) {
    return Status::InvalidArgument("truncated: the header claims " + std::to_string(tensor_count) +
                                   " tensors, the file has " + std::to_string(reader.left()) +
                                   " bytes after it");
  }
  PENSTOCK_ASSIGN_OR_RETURN(file.metadata, GgufMetadata::Read(key_count, &reader));
  PENSTOCK_ASSIGN_OR_RETURN(file.alignment, ReadAlignment(file.metadata));
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<ParsedTensor> tensors, ReadTensors(tensor_count, &reader));
  const size_t header = bytes.size() - reader.left();
  const size_t padding = (file.alignment - header % file.alignment) % file.alignment;
  // A file without tensors may end without padding.
  const auto data = reader.rest().subspan(std::min<size_t>(padding, reader.left()));
  PENSTOCK_RETURN_IF_ERROR(PlaceTensors(file.alignment, data, &tensors));
  file.tensors.reserve(tensors.size());
  for (ParsedTensor& tensor : tensors) file.tensors.push_back(std::move(tensor.record));
  return file;
}

}  // namespace penstock::files
