// The types the products of a model's layers take: one for all, and what stays higher.
//
// Errors of int8 are not spread evenly: in most models a few products (often the feed-forward's
// output, or the first and last layers) make most of them. Those can be kept in a higher type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.h"
#include "common/status.h"

namespace penstock {

enum class Product { kQkv, kAttentionOut, kFfIn, kFfOut };
inline constexpr Product kProducts[] = {Product::kQkv, Product::kAttentionOut, Product::kFfIn,
                                        Product::kFfOut};
// "qkv", "attention-out", "ff-in", "ff-out".
const char* ProductName(Product product);

// A layer, a kind of product in every layer, or one product of one layer.
struct KeptPart {
  std::optional<int32_t> layer;  // from 0; negative from the end; none: every layer
  std::optional<Product> product;

  // "2", "-1", "ff-out", "-1.ff-out".
  std::string Text() const;
};

inline constexpr size_t kKeptPartsMax = 1024;

// Parts as KeptPart::Text writes them, with commas between. kInvalidArgument says which part is
// wrong; kPayloadTooLarge: more than kKeptPartsMax.
Expected<std::vector<KeptPart>> ParseKeptParts(std::string_view text);
std::string KeptPartsText(const std::vector<KeptPart>& parts);

struct ProductTypes {
  // NOLINTNEXTLINE(google-explicit-constructor): one type for all is what most callers mean.
  ProductTypes(DType type = DType::kF32) : dtype(type), kept_dtype(type) {}

  // kInvalidArgument: a part names a layer that a model of `layers` layers does not have.
  Status Check(int32_t layers) const;
  // Of a product in layer `layer` of `layers`.
  DType Of(int32_t layer, int32_t layers, Product product) const;

  DType dtype;
  DType kept_dtype;  // of the parts below
  std::vector<KeptPart> kept;
};

}  // namespace penstock
