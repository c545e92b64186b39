#include "models/linear_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace penstock::models {
namespace {

// A whole number of a few digits, the whole of `text`.
std::optional<int32_t> ToLayer(std::string_view text) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text == "-0") return std::nullopt;
  return value;
}

std::optional<LinearKind> ToLinearKind(std::string_view text) {
  for (const LinearKind linear : kLinearKinds) {
    if (text == LinearName(linear)) return linear;
  }
  return std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Expected<TypeOverride> ParseKeptPart(std::string_view text) {
  TypeOverride part;
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) {
    part.layer = ToLayer(text);
    if (!part.layer) part.linear = ToLinearKind(text);
    if (part.layer || part.linear) return part;
  } else {
    part.layer = ToLayer(text.substr(0, dot));
    part.linear = ToLinearKind(text.substr(dot + 1));
    if (part.layer && part.linear) return part;
  }
  return Status::InvalidArgument(
      fmt::format("'{}' is not a layer (0, -1), a linear layer (qkv, attention-out, ff-in, ff-out) "
                  "or linear layer "
                  "of one layer (-1.ff-out)",
                  text));
}

}  // namespace

const char* LinearName(LinearKind linear) {
  switch (linear) {
    case LinearKind::kQkv:
      return "qkv";
    case LinearKind::kAttentionOut:
      return "attention-out";
    case LinearKind::kFfIn:
      return "ff-in";
    case LinearKind::kFfOut:
      return "ff-out";
  }
  return "?";
}

std::string TypeOverride::Text() const {
  if (!linear) return std::to_string(layer.value_or(0));
  return (layer ? std::to_string(*layer) + "." : "") + LinearName(*linear);
}

Expected<std::vector<TypeOverride>> ParseTypeOverrides(std::string_view text) {
  std::vector<TypeOverride> parts;
  while (true) {
    const size_t comma = text.find(',');
    PENSTOCK_ASSIGN_OR_RETURN(parts.emplace_back(), ParseKeptPart(Trimmed(text.substr(0, comma))));
    if (parts.size() > kTypeOverridesMax) {
      return Status(StatusCode::kPayloadTooLarge,
                    fmt::format("more than {} parts are named", kTypeOverridesMax));
    }
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string TypeOverridesText(const std::vector<TypeOverride>& parts) {
  std::string text;
  for (const TypeOverride& part : parts) text += (text.empty() ? "" : ",") + part.Text();
  return text;
}

Status LinearTypes::Check(int32_t layers) const {
  for (const TypeOverride& part : kept) {
    if (!part.layer || (*part.layer >= -layers && *part.layer < layers)) continue;
    return Status::InvalidArgument(
        fmt::format("'{}': the model has {} layers, 0 to {} (or -{} to -1)", part.Text(), layers,
                    layers - 1, layers));
  }
  return Status::Ok();
}

numbers::DType LinearTypes::Of(int32_t layer, int32_t layers, LinearKind linear) const {
  const bool keep = std::any_of(kept.begin(), kept.end(), [&](const TypeOverride& part) {
    return (!part.layer || *part.layer == layer || *part.layer + layers == layer) &&
           (!part.linear || *part.linear == linear);
  });
  return keep ? override_dtype : dtype;
}

}  // namespace penstock::models
