#include "families/list.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace penstock::families {

// A family is a name here, a row below, and its file.
extern const DecoderFamily kLlama, kMistral, kGranite, kSmollm3, kQwen2, kQwen3, kGemma2, kGemma3,
    kPhi3;
extern const EncoderFamily kBert, kCamembert, kDistilbert, kModernBert, kMpnet, kNomicBert,
    kRoberta, kXlmRoberta;

namespace {

constexpr const DecoderFamily* kDecoders[] = {
    &kLlama, &kMistral, &kGranite, &kSmollm3, &kQwen2, &kQwen3, &kGemma2, &kGemma3, &kPhi3,
};
constexpr const EncoderFamily* kEncoders[] = {
    &kBert, &kCamembert, &kDistilbert, &kModernBert, &kMpnet, &kNomicBert, &kRoberta, &kXlmRoberta,
};

}  // namespace

namespace {

// The rows, and what ScopedFamily adds.
template <typename Family>
std::vector<const Family*>& List();

template <>
std::vector<const DecoderFamily*>& List() {
  static std::vector list(std::begin(kDecoders), std::end(kDecoders));
  return list;
}

template <>
std::vector<const EncoderFamily*>& List() {
  static std::vector list(std::begin(kEncoders), std::end(kEncoders));
  return list;
}

template <typename Family, typename Is>
const Family* FindFamily(Is&& is) {
  const std::vector<const Family*>& list = List<Family>();
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Family* family) { return is(*family); });
  return found == list.end() ? nullptr : *found;
}

}  // namespace

template <typename Family>
std::span<const Family* const> Families() {
  return List<Family>();
}
template std::span<const DecoderFamily* const> Families();
template std::span<const EncoderFamily* const> Families();

const DecoderFamily* DecoderOfModelType(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  return FindFamily<DecoderFamily>([&](const DecoderFamily& family) {
    return model_type == family.model_type || model_type == family.type_with_images;
  });
}

const DecoderFamily* DecoderOfGguf(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  return FindFamily<DecoderFamily>(
      [&](const DecoderFamily& family) { return architecture == family.gguf.name; });
}

const EncoderFamily* EncoderOfModelType(std::string_view model_type) {
  return FindFamily<EncoderFamily>(
      [&](const EncoderFamily& family) { return model_type == family.model_type; });
}

const EncoderFamily* EncoderOfGguf(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  return FindFamily<EncoderFamily>(
      [&](const EncoderFamily& family) { return architecture == family.gguf.name; });
}

std::string DecoderModelTypes() {
  return FamilyNames<DecoderFamily>([](const DecoderFamily& family) { return family.model_type; });
}
std::string DecoderGgufNames() {
  return FamilyNames<DecoderFamily>([](const DecoderFamily& family) { return family.gguf.name; });
}
std::string EncoderModelTypes() {
  return FamilyNames<EncoderFamily>([](const EncoderFamily& family) { return family.model_type; });
}
std::string EncoderGgufNames() {
  return FamilyNames<EncoderFamily>([](const EncoderFamily& family) { return family.gguf.name; });
}

template <typename Family>
ScopedFamily<Family>::ScopedFamily(const Family& family) {
  List<Family>().push_back(&family);
}
template <typename Family>
ScopedFamily<Family>::~ScopedFamily() {
  List<Family>().pop_back();
}
template class ScopedFamily<DecoderFamily>;
template class ScopedFamily<EncoderFamily>;

}  // namespace penstock::families
