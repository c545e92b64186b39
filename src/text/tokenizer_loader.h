// The loaders of a tokenizer.json's sections, some in files of their own. All refuse unknown types
// by name, and sections over a limit below.
#pragma once

#include "text/json_fields.h"
#include "text/tokenizer_parts.h"

namespace penstock::text {

// Ids and vocabularies above this are refused: a wrong id must not allocate gigabytes.
inline constexpr int64_t kMaxTokenId = (1 << 24) - 1;
// Tokens of a model: bytes of one, and of all (the largest published vocabulary has 3 MB); merges.
inline constexpr size_t kMaxTokenBytes = 64 << 10;
inline constexpr size_t kMaxVocabularyBytes = 64 << 20;
inline constexpr size_t kMaxMerges = 8 << 20;
// Prefixes, suffixes and the like that are put to or looked for in every word.
inline constexpr size_t kMaxAffixBytes = 256;
// Parts in one Sequence, Sequences within Sequences, and parts of a section in all.
inline constexpr size_t kMaxSequenceParts = 64;
inline constexpr int kMaxSequenceDepth = 4;
inline constexpr size_t kMaxStages = 128;

// Where the loader of a section stands: how deep, and how many parts have been read.
class Nesting {
 public:
  Nesting() : stages_(&own_) {}
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  // One level deeper, with the same count.
  explicit Nesting(const Nesting* outer) : depth_(outer->depth_ + 1), stages_(outer->stages_) {}

  // To be called for each part, whatever its type; kUnsupported if they are too many.
  Status Enter(const JsonFields& part) const {
    if (++*stages_ <= kMaxStages) return {};
    return Status::Unsupported("more than " + std::to_string(kMaxStages) + " parts", part.path());
  }
  // To be called for the parts of a Sequence; kUnsupported if it is too long or lies too deep.
  Status EnterSequence(const JsonFields& part, std::string_view name, size_t parts) const {
    if (depth_ < kMaxSequenceDepth && parts <= kMaxSequenceParts) return {};
    return Status::Unsupported("Sequence is too long or too deep", part.PathOf(name));
  }

 private:
  int depth_ = 0;
  size_t own_ = 0;
  size_t* stages_;
};

Expected<std::unique_ptr<Normalizer>> LoadNormalizer(const JsonFields& fields,
                                                     const Nesting& nesting);
Status LoadPreTokenizers(const JsonFields& fields, const Nesting& nesting,
                         std::vector<std::unique_ptr<PreTokenizer>>* out);
Status LoadPostProcessor(const JsonFields& fields, const Nesting& nesting, PostProcessor* out);
Status LoadDecoder(const JsonFields& fields, const Nesting& nesting, DecoderChain* out);

// `byte_level`: pieces come as bytes of text, not yet in the byte-level alphabet.
Expected<std::unique_ptr<TokenizerModel>> LoadModel(const JsonFields& fields, bool byte_level);
// Whether the model can take such pieces.
bool ModelCanReadBytes(const JsonFields& fields);

// The reference's JSON reader is not exact: it divides the digits, as a double, by a power of ten,
// which can be off in the last bit. Sums of such scores tie or do not tie, so the last bit decides
// tokens. The digits are those of the shortest decimal of `exact`, as files write them.
double ReferenceDouble(double exact);

// A string of at most kMaxAffixBytes.
Expected<std::string_view> LoadAffix(const JsonFields& fields, std::string_view name);

// {"String": ".."} or {"Regex": ".."}; *regex_text gets the text of a Regex.
Expected<regex::Regex> LoadPattern(const JsonFields& parent, std::string_view name,
                                   std::string* regex_text);

}  // namespace penstock::text
