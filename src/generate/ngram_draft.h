// NgramDraft: guesses the next tokens of a text that repeats what stands in it or in its prompt, as
// edits of code do.
//
// Source: prompt lookup decoding (Saxena, 2023). The last kOrder tokens are looked for earlier in
// the text; what followed them there is the guess. A guess that came true goes on from where it
// was read, also past a token that was replaced. How often guesses come true is learnt whether they
// are used or not, so trying again where they failed costs nothing.
//
// Not thread-safe. Allocates at construction alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace penstock::generate {

class NgramDraft {
 public:
  static constexpr int32_t kOrder = 3;

  // For a text of at most `tokens_max` tokens, prompt included.
  explicit NgramDraft(size_t tokens_max);
  static int64_t HeapBytes(size_t tokens_max);

  // The token at a position of the text.
  using Token = std::function<int32_t(int32_t)>;
  // Takes in the text, which has grown to `tokens`, and looks for a guess of the next one. Takes
  // time by the tokens that are new.
  void Follow(int32_t tokens, const Token& token);
  // The probability that a guessed token is the model's own, given that those before it were.
  // 0 where nothing was guessed.
  double chance() const { return source_ < 0 ? 0 : chance_; }
  // The next `count` tokens, which follow those of the last Follow. There must be a guess.
  void Guess(int32_t count, const Token& token, std::vector<int32_t>* out) const;

 private:
  size_t SlotOf(int32_t end, const Token& token) const;
  bool SameBefore(int32_t a, int32_t b, const Token& token) const;

  // By a hash of kOrder tokens: the position after them, where they stood last; 0: none.
  std::vector<int32_t> after_;
  int32_t tokens_ = 0;   // taken in
  int32_t source_ = -1;  // where the token at tokens_ is read; -1: nowhere
  int32_t missed_ = 0;   // guesses in a row that did not come true
  int64_t guesses_ = 0;  // that came true, or did not
  double chance_;
};

}  // namespace penstock::generate
