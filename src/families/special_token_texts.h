// The texts of a folder's special tokens (bos_token, eos_token, ...), as transformers gives them to
// chat templates: those of tokenizer_config.json, and of special_tokens_map.json where the former
// has no added_tokens_decoder. The ids of config.json may be others.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::families {

struct SpecialTokenTexts {
  static constexpr size_t kBytesMax = 1024;  // of a text

  // A folder without these files gives nothing. Errors name the file: kInvalidArgument: malformed.
  static Expected<SpecialTokenTexts> OfFolder(const std::string& path);

  // bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token, as far as the
  // files name them; "": the files say null.
  std::map<std::string, std::string, std::less<>> by_name;
  // true: the model lacks the tokens that by_name lacks. false: the tokenizer's class has defaults.
  bool complete = false;
};

}  // namespace penstock::families
