#include "routes/token_print.h"

#include <simdjson.h>

#include <algorithm>

namespace penstock {
namespace {

void WriteOne(const TokenText& token, JsonWriter* json) {
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
void WriteTop(const TokenInfo& token, JsonWriter* json) {
  std::vector<std::string> written;
  const auto write = [&](const TokenText& one) {
    std::string name = TokenName(one.bytes);
    if (std::find(written.begin(), written.end(), name) != written.end()) return;
    json->Field(name, one.logprob);
    written.push_back(std::move(name));
  };
  json->BeginObject();
  for (const TokenText& one : token.top) write(one);
  write(token);
  json->EndObject();
}

}  // namespace

std::string TokenName(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return name;
}

void WriteTokenInfo(const TokenInfo& token, JsonWriter* json) {
  json->BeginObject();
  WriteOne(token, json);
  json->Key("top_logprobs").BeginArray();
  for (const TokenText& one : token.top) {
    json->BeginObject();
    WriteOne(one, json);
    json->EndObject();
  }
  json->EndArray().EndObject();
}

void WriteCompletionLogprobs(const std::vector<TokenInfo>& tokens, bool wanted, size_t* offset,
                             JsonWriter* json) {
  if (!wanted) {
    json->Null();
    return;
  }
  json->BeginObject().Key("tokens").BeginArray();
  for (const TokenInfo& token : tokens) json->String(TokenName(token.bytes));
  json->EndArray().Key("token_logprobs").BeginArray();
  for (const TokenInfo& token : tokens) json->Float(token.logprob);
  json->EndArray().Key("top_logprobs").BeginArray();
  for (const TokenInfo& token : tokens) WriteTop(token, json);
  json->EndArray().Key("text_offset").BeginArray();
  for (const TokenInfo& token : tokens) {
    json->Uint(*offset);
    *offset += Characters(token.bytes);
  }
  json->EndArray().EndObject();
}

}  // namespace penstock
