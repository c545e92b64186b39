// The Tokenizer seam: text to token ids and back, exact to the id and to the offset.
//
// A Tokenizer is built once from a tokenizer.json or a GGUF file and is immutable after that: every
// const method may be called from any number of threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock::text {

// Half-open range of Unicode code points of the text that was given (the way Hugging Face
// `tokenizers` gives offsets to Python). {0, 0} for tokens a template added.
struct TokenOffset {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const TokenOffset&) const = default;
};

enum class TruncationSide { kRight, kLeft };  // which end is cut off
enum class TruncationStrategy { kLongestFirst, kOnlyFirst, kOnlySecond };

struct EncodeOptions {
  bool add_special_tokens = true;
  // Length limit in tokens, special tokens included; 0 = none.
  size_t max_tokens = 0;
  TruncationSide side = TruncationSide::kRight;
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;  // for pairs
  // Fill Encoding::offsets; ids alone are cheaper.
  bool with_offsets = false;
  StopCondition stop;
};

// One encoded text or pair. Vectors have one entry a token; reused buffers keep their capacity.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<uint8_t> special_mask;  // 1 where the template put the token
  std::vector<TokenOffset> offsets;   // empty unless asked for
  std::vector<int8_t> sequence_ids;   // 0 or 1: first or second text; -1 for template tokens
  size_t truncated_tokens = 0;        // tokens cut off by max_tokens
  void Clear();
};

// Turns ids that arrive one by one into text, holding bytes back until they are whole characters.
// The pieces add up to what Decode gives for all the ids, unless a run of byte tokens (<0xNN>) is
// not UTF-8: Decode turns all bytes of such a run into U+FFFD, a stream only those after its
// leading whole characters, which are out by then.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  // The text that this id completes; may be empty.
  virtual std::string Push(int32_t id) = 0;
  // The text still held back (incomplete bytes become U+FFFD).
  virtual std::string Finish() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Parses a tokenizer.json. Unknown component types are refused by name (kUnsupported).
  // The file's own "truncation" and "padding" sections are ignored: limits are the caller's.
  static Expected<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);
  // A tokenizer.json, or a GGUF file (its first bytes tell), whose metadata has a tokenizer.
  static Expected<std::unique_ptr<Tokenizer>> FromFile(const std::string& path);

  // Encodes one text. Invalid UTF-8 is replaced by U+FFFD first, one for each maximal
  // ill-formed subpart (as Python's decode(errors="replace") does). Fails when
  //   - max_tokens is smaller than the template needs (kInvalidArgument);
  //   - the text holds 2^31 bytes or more (kPayloadTooLarge);
  //   - the tokenizer would make more than 64 bytes of each byte and 1 MiB, or its patterns or its
  //     vocabulary take too many steps, which no published one does (kUnprocessable);
  //   - options.stop ends it (kCancelled, kDeadlineExceeded).
  virtual Status Encode(std::string_view text, const EncodeOptions& options,
                        Encoding* out) const = 0;
  virtual Status EncodePair(std::string_view first, std::string_view second,
                            const EncodeOptions& options, Encoding* out) const = 0;

  // The two halves of Encode and EncodePair, for callers that keep the tokens of texts: EncodeText
  // gives all tokens of a text, Combine cuts them to options.max_tokens and puts the template
  // around. `second` null: one text. options.with_offsets must be false.
  virtual Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const = 0;
  // The same, which can be stopped.
  virtual Status EncodeTextUntil(std::string_view text, const StopCondition& stop,
                                 std::vector<int32_t>* ids) const {
    (void)stop;
    return EncodeText(text, ids);
  }
  virtual Status Combine(std::span<const int32_t> first, const std::span<const int32_t>* second,
                         const EncodeOptions& options, Encoding* out) const = 0;

  static constexpr size_t kNoCut = std::string_view::npos;
  // The last byte in [low, high] where the text may be cut in two: the tokens of the left part are
  // the first tokens of the whole, and with `both` those of the right part are the rest. kNoCut: no
  // cut is known.
  virtual size_t CutBefore(std::string_view text, size_t low, size_t high, bool both) const {
    (void)text, (void)low, (void)high, (void)both;
    return kNoCut;
  }

  // Ids outside the vocabulary are skipped, as Hugging Face does.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  std::unique_ptr<StreamDecoder> NewStreamDecoder(bool skip_special_tokens) const {
    return NewStreamDecoder(skip_special_tokens, {});
  }
  // `shown`: special tokens that are not skipped all the same.
  virtual std::unique_ptr<StreamDecoder> NewStreamDecoder(bool skip_special_tokens,
                                                          std::vector<int32_t> shown) const = 0;

  // Ids run from 0 to vocab_size() - 1, added tokens included.
  virtual int32_t vocab_size() const = 0;
  // "" if there is no such id; -1 if there is no such token.
  virtual std::string_view IdToToken(int32_t id) const = 0;
  virtual int32_t TokenToId(std::string_view token) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // Special tokens the template adds around one text, or around a pair.
  virtual size_t special_tokens_single() const = 0;
  virtual size_t special_tokens_pair() const = 0;
  // "WordPiece", "BPE", "Unigram".
  virtual std::string_view model_type() const = 0;
};

}  // namespace penstock::text
