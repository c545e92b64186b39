#include "models/product_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

// A whole number of a few digits, the whole of `text`.
std::optional<int32_t> ToLayer(std::string_view text) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text == "-0") return std::nullopt;
  return value;
}

std::optional<Product> ToProduct(std::string_view text) {
  for (const Product product : kProducts) {
    if (text == ProductName(product)) return product;
  }
  return std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Expected<KeptPart> ParseKeptPart(std::string_view text) {
  KeptPart part;
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) {
    part.layer = ToLayer(text);
    if (!part.layer) part.product = ToProduct(text);
    if (part.layer || part.product) return part;
  } else {
    part.layer = ToLayer(text.substr(0, dot));
    part.product = ToProduct(text.substr(dot + 1));
    if (part.layer && part.product) return part;
  }
  return Status::InvalidArgument(fmt::format(
      "'{}' is no layer (0, -1), product (qkv, attention-out, ff-in, ff-out) or product "
      "of a layer (-1.ff-out)",
      text));
}

}  // namespace

const char* ProductName(Product product) {
  switch (product) {
    case Product::kQkv:
      return "qkv";
    case Product::kAttentionOut:
      return "attention-out";
    case Product::kFfIn:
      return "ff-in";
    case Product::kFfOut:
      return "ff-out";
  }
  return "?";
}

std::string KeptPart::Text() const {
  if (!product) return std::to_string(layer.value_or(0));
  return (layer ? std::to_string(*layer) + "." : "") + ProductName(*product);
}

Expected<std::vector<KeptPart>> ParseKeptParts(std::string_view text) {
  std::vector<KeptPart> parts;
  while (true) {
    const size_t comma = text.find(',');
    PENSTOCK_ASSIGN_OR_RETURN(parts.emplace_back(), ParseKeptPart(Trimmed(text.substr(0, comma))));
    if (parts.size() > kKeptPartsMax) {
      return Status(StatusCode::kPayloadTooLarge,
                    fmt::format("more than {} parts are named", kKeptPartsMax));
    }
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string KeptPartsText(const std::vector<KeptPart>& parts) {
  std::string text;
  for (const KeptPart& part : parts) text += (text.empty() ? "" : ",") + part.Text();
  return text;
}

Status ProductTypes::Check(int32_t layers) const {
  for (const KeptPart& part : kept) {
    if (!part.layer || (*part.layer >= -layers && *part.layer < layers)) continue;
    return Status::InvalidArgument(
        fmt::format("'{}': the model has {} layers, 0 to {} (or -{} to -1)", part.Text(), layers,
                    layers - 1, layers));
  }
  return Status::Ok();
}

DType ProductTypes::Of(int32_t layer, int32_t layers, Product product) const {
  const bool keep = std::any_of(kept.begin(), kept.end(), [&](const KeptPart& part) {
    return (!part.layer || *part.layer == layer || *part.layer + layers == layer) &&
           (!part.product || *part.product == product);
  });
  return keep ? kept_dtype : dtype;
}

}  // namespace penstock
