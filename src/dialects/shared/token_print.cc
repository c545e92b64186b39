#include "dialects/shared/token_print.h"

#include <algorithm>

#include "base/utf8_check.h"

namespace penstock::dialects {
namespace {

void WriteOne(const api::TokenText& token, JsonWriter* json) {
  json->Field("token", TokenName(token.bytes)).Field("logprob", token.logprob);
  json->Key("bytes").BeginArray();
  for (const char c : token.bytes) json->Int(static_cast<unsigned char>(c));
  json->EndArray();
}

// Characters: all bytes but those that continue one.
size_t Characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The most probable tokens, and the one that was drawn; a text that two tokens share once.
void WriteTop(const api::TokenInfo& token, JsonWriter* json) {
  std::vector<std::string> written;
  const auto write = [&](const api::TokenText& one) {
    std::string name = TokenName(one.bytes);
    if (std::find(written.begin(), written.end(), name) != written.end()) return;
    json->Field(name, one.logprob);
    written.push_back(std::move(name));
  };
  json->BeginObject();
  for (const api::TokenText& one : token.top) write(one);
  write(token);
  json->EndObject();
}

// Where in the prompt's text its tokens are: special ones may not be in it, the first may have a
// space that the text has not, and normalized text is not found, so that its offsets are about
// right.
void WritePromptOffsets(std::span<const api::TokenInfo> tokens, std::string_view text,
                        JsonWriter* json) {
  size_t at = 0, characters = 0;
  for (const api::TokenInfo& token : tokens) {
    json->Uint(characters);
    std::string_view bytes = token.bytes;
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(bytes)) {
      if (token.special) continue;
      if (bytes.starts_with(' ') && rest.starts_with(bytes.substr(1))) bytes.remove_prefix(1);
    }
    const size_t taken = std::min(bytes.size(), rest.size());
    characters += Characters(rest.substr(0, taken));
    at += taken;
  }
}

}  // namespace

std::string TokenName(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return name;
}

void WriteTokenInfo(const api::TokenInfo& token, JsonWriter* json) {
  json->BeginObject();
  WriteOne(token, json);
  json->Key("top_logprobs").BeginArray();
  for (const api::TokenText& one : token.top) {
    json->BeginObject();
    WriteOne(one, json);
    json->EndObject();
  }
  json->EndArray().EndObject();
}

void WriteCompletionLogprobs(const CompletionLogprobs& logprobs, size_t* offset, JsonWriter* json) {
  if (!logprobs.wanted) {
    json->Null();
    return;
  }
  const auto each = [&](auto&& write) {
    for (const api::TokenInfo& token : logprobs.prompt)
      write(token, &token == logprobs.prompt.data());
    for (const api::TokenInfo& token : logprobs.tokens) write(token, false);
  };
  json->BeginObject().Key("tokens").BeginArray();
  each([&](const api::TokenInfo& token, bool) { json->String(TokenName(token.bytes)); });
  json->EndArray().Key("token_logprobs").BeginArray();
  each([&](const api::TokenInfo& token, bool first) {
    if (first) {
      json->Null();
    } else {
      json->Float(token.logprob);
    }
  });
  json->EndArray().Key("top_logprobs").BeginArray();
  each([&](const api::TokenInfo& token, bool first) {
    if (first) {
      json->Null();
    } else {
      WriteTop(token, json);
    }
  });
  json->EndArray().Key("text_offset").BeginArray();
  WritePromptOffsets(logprobs.prompt, logprobs.prompt_text, json);
  if (!logprobs.prompt.empty()) *offset = Characters(logprobs.prompt_text);
  for (const api::TokenInfo& token : logprobs.tokens) {
    json->Uint(*offset);
    *offset += Characters(token.bytes);
  }
  json->EndArray().EndObject();
}

}  // namespace penstock::dialects
