#include "families/decoder_architectures.h"

#include <algorithm>
#include <array>

namespace penstock {
namespace {

constexpr std::array kDecoders = {
    DecoderArchitecture{
        .name = "llama", .model_type = "llama", .gguf = "llama", .interleaved_in_gguf = true},
    DecoderArchitecture{.name = "mistral", .model_type = "mistral", .gguf = ""},
    DecoderArchitecture{
        .name = "granite", .model_type = "granite", .gguf = "granite", .interleaved_in_gguf = true},
    DecoderArchitecture{
        .name = "smollm3", .model_type = "smollm3", .gguf = "smollm3", .interleaved_in_gguf = true},
    DecoderArchitecture{.name = "qwen2", .model_type = "qwen2", .gguf = "qwen2", .qkv_bias = true},
    DecoderArchitecture{.name = "qwen3", .model_type = "qwen3", .gguf = "qwen3", .qk_norm = true},
    DecoderArchitecture{
        .name = "gemma2", .model_type = "gemma2", .gguf = "gemma2", .post_norms = true},
    DecoderArchitecture{.name = "gemma3",
                        .model_type = "gemma3_text",
                        .gguf = "gemma3",
                        .qk_norm = true,
                        .post_norms = true},
    DecoderArchitecture{.name = "phi3", .model_type = "phi3", .gguf = "phi3", .fused = true},
};

const DecoderArchitecture* Find(std::string_view DecoderArchitecture::*name,
                                std::string_view wanted) {
  const auto found = std::find_if(kDecoders.begin(), kDecoders.end(),
                                  [&](const auto& decoder) { return decoder.*name == wanted; });
  return found == kDecoders.end() || wanted.empty() ? nullptr : &*found;
}

std::string Names(std::string_view DecoderArchitecture::*name) {
  std::string names;
  for (const DecoderArchitecture& decoder : kDecoders) {
    if ((decoder.*name).empty()) continue;
    names += (names.empty() ? "" : ", ") + std::string(decoder.*name);
  }
  return names;
}

}  // namespace

const DecoderArchitecture* DecoderOfModelType(std::string_view model_type) {
  return Find(&DecoderArchitecture::model_type,
              model_type == "gemma3" ? "gemma3_text" : model_type);
}

const DecoderArchitecture* DecoderOfGguf(std::string_view architecture) {
  return Find(&DecoderArchitecture::gguf, architecture);
}

std::string DecoderModelTypes() { return Names(&DecoderArchitecture::model_type); }
std::string DecoderGgufNames() { return Names(&DecoderArchitecture::gguf); }

}  // namespace penstock
