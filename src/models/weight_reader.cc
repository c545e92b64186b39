#include "models/weight_reader.h"

#include <algorithm>

namespace penstock::models {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace

const files::TensorRecord* WeightReader::Find(const std::string& name) const {
  if (const files::TensorRecord* record = store_.Find(std::string(prefix_) + name)) return record;
  return store_.Find(name);
}

Expected<program::TensorView> WeightReader::View(const std::string& name,
                                                 const std::vector<int64_t>& shape) {
  const files::TensorRecord* record = Find(name);
  if (record == nullptr) {
    return Status::InvalidArgument("the weights have no tensor '" + name + "'", name);
  }
  bool fits = record->shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] == -1 ? record->shape[i] > 0 : record->shape[i] == shape[i];
  }
  if (!fits) {
    return Status::InvalidArgument("tensor '" + name + "' has shape " + ShapeText(record->shape) +
                                       ", the configuration asks for " + ShapeText(shape),
                                   name);
  }
  PENSTOCK_RETURN_IF_ERROR(record->CheckConvertible().Annotate("tensor '" + name + "'"));
  const bool matrix = shape.size() == 2;
  if (!matrix && numbers::IsBlockType(record->dtype)) {  // RowsOf cuts vectors anywhere
    return Status::Unsupported("tensor '" + name + "' is a vector of type " +
                                   numbers::DTypeName(record->dtype) + "; only matrices may be",
                               name);
  }
  out_->parameters += static_cast<uint64_t>(record->elements());
  return program::TensorView{record->dtype, matrix ? record->shape[0] : 1, record->shape.back(),
                             record->data.data()};
}

Expected<const program::Table*> WeightReader::ReadTable(const std::string& name,
                                                        const std::vector<int64_t>& shape) {
  PENSTOCK_ASSIGN_OR_RETURN(const program::TensorView view, View(name, shape));
  return Keep(view);
}

const program::Table* WeightReader::Owned(std::unique_ptr<program::Table> table) {
  out_->bytes += table->bytes();
  out_->tables.push_back(std::move(table));
  return out_->tables.back().get();
}

const program::Table* WeightReader::Keep(const program::TensorView& view) {
  return Owned(out_->backend->Keep(view));
}

const program::Table* WeightReader::Keep(int64_t rows, int32_t width,
                                         const program::Backend::FillRows& fill) {
  return Owned(out_->backend->Keep(rows, width, fill));
}

Expected<std::vector<program::LinearRows>> WeightReader::Linears(
    const std::vector<std::string>& names, int32_t out_each, int32_t in) {
  std::vector<program::LinearRows> parts;
  const bool has_bias = Find(names[0] + ".bias") != nullptr;
  for (const std::string& name : names) {
    program::LinearRows& part = parts.emplace_back();
    PENSTOCK_ASSIGN_OR_RETURN(part.weight, View(name + ".weight", {out_each, in}));
    if ((Find(name + ".bias") != nullptr) != has_bias) {
      return Status::Unsupported("'" + name + ".bias': only some of " + names[0] +
                                 "'s group have one");
    }
    if (has_bias) {
      PENSTOCK_ASSIGN_OR_RETURN(part.bias, View(name + ".bias", {out_each}));
    }
  }
  return parts;
}

Expected<std::unique_ptr<program::PackedLinear>> WeightReader::Pack(
    std::span<const program::LinearRows> parts, numbers::DType dtype,
    std::span<const float> factors) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<program::PackedLinear> packed,
                            out_->backend->Pack(parts, {dtype, factors}));
  out_->bytes += packed->bytes();
  return packed;
}

Expected<std::unique_ptr<program::PackedLinear>> WeightReader::Linear(const std::string& name,
                                                                      int32_t out, int32_t in,
                                                                      numbers::DType dtype) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<program::LinearRows> parts, Linears({name}, out, in));
  return Pack(parts, dtype);
}

Expected<program::Norm> WeightReader::ReadNorm(const std::string& name, int32_t width,
                                               float epsilon) {
  const bool old_names = Find(name + ".weight") == nullptr && Find(name + ".gamma") != nullptr;
  const std::string shift = name + (old_names ? ".beta" : ".bias");
  program::Norm norm;
  norm.epsilon = epsilon;
  PENSTOCK_ASSIGN_OR_RETURN(norm.gamma,
                            ReadTable(name + (old_names ? ".gamma" : ".weight"), {width}));
  if (Find(shift) != nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(norm.beta, ReadTable(shift, {width}));
  }
  return norm;
}

std::vector<program::LinearRows> RowsOf(std::span<const program::LinearRows> parts, int64_t first,
                                        int64_t count) {
  std::vector<program::LinearRows> rows;
  for (const program::LinearRows& part : parts) {
    const int64_t begin = std::clamp<int64_t>(first, 0, part.weight.rows);
    const int64_t end = std::clamp<int64_t>(first + count, 0, part.weight.rows);
    if (end > begin) {
      program::LinearRows& cut = rows.emplace_back();
      cut.weight = part.weight.Rows(begin, end - begin);
      if (part.bias.data != nullptr) {
        cut.bias = part.bias;
        cut.bias.data += static_cast<size_t>(begin) * numbers::DTypeBytes(part.bias.dtype);
        cut.bias.columns = end - begin;
      }
    }
    first -= part.weight.rows;
  }
  return rows;
}

}  // namespace penstock::models
