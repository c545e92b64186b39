// The parts of tokenizer_loader.cc that lie in files of their own: one for each section of a
// tokenizer.json. All refuse unknown types by name.
#pragma once

#include "text/json_fields.h"
#include "text/tokenizer_parts.h"

namespace penstock {

// Ids and vocabularies above this are refused: a wrong id must not allocate gigabytes.
inline constexpr int64_t kMaxTokenId = (1 << 24) - 1;
// Parts in one Sequence, and Sequences within Sequences.
inline constexpr size_t kMaxSequenceParts = 64;
inline constexpr int kMaxSequenceDepth = 4;

Expected<std::unique_ptr<Normalizer>> LoadNormalizer(const JsonFields& fields, int depth = 0);
Status LoadPreTokenizers(const JsonFields& fields, std::vector<std::unique_ptr<PreTokenizer>>* out,
                         int depth = 0);
Status LoadPostProcessor(const JsonFields& fields, PostProcessor* out, int depth = 0);
Status LoadDecoder(const JsonFields& fields, DecoderChain* out, int depth = 0);

// `byte_level`: pieces come as bytes of text, not yet in the byte-level alphabet.
Expected<std::unique_ptr<Model>> LoadModel(const JsonFields& fields, bool byte_level);
// Whether the model can take such pieces.
bool ModelCanReadBytes(const JsonFields& fields);

// {"String": ".."} or {"Regex": ".."}; *regex_text gets the text of a Regex.
Expected<Regex> LoadPattern(const JsonFields& parent, std::string_view name,
                            std::string* regex_text);

}  // namespace penstock
