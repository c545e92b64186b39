#include "families/special_token_texts.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};
// Classes without defaults of their own.
constexpr std::string_view kGeneric[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};

template <size_t size>
bool IsIn(const std::string_view (&all)[size], std::string_view one) {
  return std::find(std::begin(all), std::end(all), one) != std::end(all);
}

// A string, or an object with its content.
Expected<std::string> ReadText(const JsonObject& object, std::string_view name) {
  if (!object.Find(name)->is_object()) {
    return object.GetString(name, SpecialTokenTexts::kBytesMax);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject token, object.GetObject(name));
  return token.GetString("content", SpecialTokenTexts::kBytesMax);
}

Status ReadTexts(const JsonObject& object, SpecialTokenTexts* texts) {
  Status status;
  object.ForEach([&](std::string_view key, JsonElement) {
    if (!status.ok() || !IsIn(kTokenNames, key)) return;
    auto text = object.Has(key) ? ReadText(object, key) : Expected<std::string>(std::string());
    if (text.ok()) {
      texts->by_name[std::string(key)] = *std::move(text);
    } else {
      status = text.status();
    }
  });
  return status;
}

}  // namespace

Expected<SpecialTokenTexts> SpecialTokenTexts::OfFolder(const std::string& path) {
  SpecialTokenTexts texts;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path at = fs::path(path) / file;
    std::error_code ignored;
    if (!fs::exists(at, ignored)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                              JsonDocument::ParseFile(at.string(), ModelFolder::kConfigBytesMax));
    const auto object = document.Object();
    if (!object.ok()) return object.status().Annotate(file);
    if (const Status read = ReadTexts(*object, &texts); !read.ok()) return read.Annotate(file);
    const auto of_class = object->Find("tokenizer_class");
    std::string_view name;
    texts.complete |= of_class && of_class->Get(&name) && IsIn(kGeneric, name);
    if (object->Has("added_tokens_decoder")) break;
  }
  return texts;
}

}  // namespace penstock::families
