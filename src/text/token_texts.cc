#include "text/token_texts.h"

#include <charconv>
#include <vector>

#include "text/byte_level.h"

namespace penstock::text {
namespace {

// U+FFFD, which a decoder writes for bytes that are not a character.
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// "<0xE2>": a byte of its own, as SentencePiece writes it.
std::optional<char> ByteToken(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  int byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

TokenTexts::TokenTexts(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  std::vector<int32_t> ids;
  if (tokenizer->EncodeText("a", &ids).ok() && !ids.empty()) before_ = ids.back();
}

std::string TokenTexts::Bytes(int32_t id) const {
  const std::string_view piece = tokenizer_->IdToToken(id);
  if (tokenizer_->IsSpecial(id)) return std::string(piece);
  if (const auto byte = ByteToken(piece)) return std::string(1, *byte);
  const auto decoder = tokenizer_->NewStreamDecoder(/*skip_special_tokens=*/false);
  if (decoder == nullptr) return std::string(piece);
  if (before_) (void)decoder->Push(*before_);
  std::string text = decoder->Push(id);
  text += decoder->Finish();
  std::string bytes;
  if (text.find(kReplacement) != std::string::npos && ByteLevelToBytes(piece, &bytes)) return bytes;
  return text;
}

}  // namespace penstock::text
