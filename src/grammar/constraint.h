// The seam to what holds a text to a grammar: a Grammar compiled for one vocabulary, and a
// Constraint for each text that follows it token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace penstock::grammar {

// A set of tokens has a bit for each: bit id % 32 of word id / 32.
constexpr size_t MaskWords(size_t vocabulary) { return (vocabulary + 31) / 32; }
inline bool Allows(std::span<const uint32_t> mask, int32_t id) {
  return (mask[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32) & 1) != 0;
}

// The tokens of a model as the grammar sees them.
struct GrammarVocabulary {
  std::vector<std::string> tokens;  // bytes of each id in the midst of a text; "": never in a text
  std::vector<int32_t> ends;        // tokens that end a text, where the grammar lets it end
  std::vector<uint32_t> spaces;     // the set of those that are whitespace alone; empty: not told
  // Special tokens that are a part of calls, and their texts.
  std::vector<std::pair<int32_t, std::string>> markers;
};

// Follows one text. Not thread-safe. What is called throws nothing.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // What may come next: *allowed has MaskWords(vocabulary) words, all of which are written. Ends
  // are allowed where the text may end. kInternal: nothing may, or memory ran out.
  virtual Status Mask(std::span<uint32_t> allowed) = 0;
  // The next token. kInternal: it is not allowed; kUnprocessable: the grammar is too ambiguous
  // (grammar/follow_budget.h). The constraint is as before.
  virtual Status Accept(int32_t id) = 0;
  // The same for text, whatever its tokens; for RollBack it is one token. Empty text is allowed.
  virtual Status AcceptText(std::string_view text) = 0;
  // The last tokens are taken back, as many as were accepted at most.
  virtual void RollBack(int32_t tokens) = 0;
  // The bytes that must come next, whatever comes after, or the first of them; "" where there is a
  // choice. The state stays.
  virtual std::string Forced() = 0;
};

// Unchanged after it is made; any thread.
class Grammar {
 public:
  virtual ~Grammar() = default;
  // A text at its beginning. kResourceExhausted: no memory.
  virtual Expected<std::unique_ptr<Constraint>> Begin() const = 0;
  virtual const GrammarVocabulary& vocabulary() const = 0;
  // A text has whitespace between its parts, any amount of it.
  virtual bool has_spaces() const { return false; }
  virtual size_t bytes() const = 0;  // about, without the vocabulary
};

}  // namespace penstock::grammar
