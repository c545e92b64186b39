// The families of models that Penstock knows. list.cc has the only list: readers, kinds of models,
// messages and the check of docs/MODELS.md take it from here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "families/decoder_family.h"
#include "families/encoder_family.h"

namespace penstock::families {

// DecoderFamily or EncoderFamily.
template <typename Family>
std::span<const Family* const> Families();

// By config.json's model_type, also DecoderFamily::type_with_images, and by a GGUF file's
// general.architecture. Null if Penstock does not know it.
const DecoderFamily* DecoderOfModelType(std::string_view model_type);
const DecoderFamily* DecoderOfGguf(std::string_view architecture);
const EncoderFamily* EncoderOfModelType(std::string_view model_type);
const EncoderFamily* EncoderOfGguf(std::string_view architecture);

// "llama, mistral, ...", for messages.
std::string DecoderModelTypes();
std::string DecoderGgufNames();
std::string EncoderModelTypes();
std::string EncoderGgufNames();

// What `name` says of each family; "" leaves one out.
template <typename Family>
std::string FamilyNames(std::string_view (*name)(const Family& family)) {
  std::string names;
  for (const Family* family : Families<Family>()) {
    if (name(*family).empty()) continue;
    names += (names.empty() ? "" : ", ") + std::string(name(*family));
  }
  return names;
}

// For tests: a family that is known while this object lives. No other thread may read a model when
// it begins and when it ends.
template <typename Family>
class ScopedFamily {
 public:
  explicit ScopedFamily(const Family& family);
  ~ScopedFamily();
  ScopedFamily(const ScopedFamily&) = delete;
  ScopedFamily& operator=(const ScopedFamily&) = delete;
};

}  // namespace penstock::families
