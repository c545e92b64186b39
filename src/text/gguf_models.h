// The models of GGUF tokenizers, from their checked tokens.
#pragma once

#include <memory>

#include "base/status.h"
#include "files/gguf_metadata.h"
#include "text/gguf_pre_kinds.h"
#include "text/gguf_tokens.h"
#include "text/tokenizer_model.h"

namespace penstock::text {

// Bytes of a token of "llama" that others merge to; SentencePiece writes 16 characters at most.
inline constexpr size_t kSentencePieceBytesMax = 256;

// "gpt2": merges are strings, "left right", in the order in which they go.
Expected<std::unique_ptr<TokenizerModel>> MakeGgufBpe(const files::GgufMetadata& metadata,
                                                      const GgufTokens& tokens,
                                                      const GgufPreKind& kind);

// "llama": two neighbouring tokens merge if both together are a token, those of the highest score
// first. A character that is not a token becomes tokens <0xNN>, one a byte. (To SentencePiece such
// a character can still be part of a token. No published vocabulary has one.)
Expected<std::unique_ptr<TokenizerModel>> MakeGgufSentencePiece(const GgufTokens& tokens,
                                                                int32_t unk_id);

// "bert": in the file, U+2581 begins a token that begins a word. The model has such tokens without
// it, and "##" before the others, as in BERT's own vocabulary.
Expected<std::unique_ptr<TokenizerModel>> MakeGgufWordPiece(const GgufTokens& tokens,
                                                            int32_t unk_id);
// How the model spells the token of a file.
std::string WordPieceSpelling(std::string_view text, GgufTokenType type);

// "t5".
Expected<std::unique_ptr<TokenizerModel>> MakeGgufUnigram(const GgufTokens& tokens, int32_t unk_id);

}  // namespace penstock::text
