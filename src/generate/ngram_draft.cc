#include "generate/ngram_draft.h"

#include <algorithm>
#include <bit>

namespace penstock::generate {
namespace {

constexpr size_t kSlotsMax = 1 << 16;
// Before anything is known of a text; it counts as two guesses.
constexpr double kFirstChance = 0.5;
// The weight of the latest guess in the chance, once there were some.
constexpr double kWeight = 0.1;
// Tokens that may be replaced in a row before a source is given up.
constexpr int32_t kMissesMax = 2;

size_t Slots(size_t tokens_max) {
  return std::min(kSlotsMax, std::bit_ceil(std::max<size_t>(64, 2 * tokens_max)));
}

}  // namespace

NgramDraft::NgramDraft(size_t tokens_max) : after_(Slots(tokens_max)), chance_(kFirstChance) {}

int64_t NgramDraft::HeapBytes(size_t tokens_max) {
  return static_cast<int64_t>(Slots(tokens_max) * sizeof(int32_t));
}

// The slot of the kOrder tokens before `end`.
size_t NgramDraft::SlotOf(int32_t end, const Token& token) const {
  uint64_t hash = 0;
  for (int32_t i = end - kOrder; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(token(i))) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash) & (after_.size() - 1);
}

bool NgramDraft::SameBefore(int32_t a, int32_t b, const Token& token) const {
  for (int32_t i = 1; i <= kOrder; ++i) {
    if (token(a - i) != token(b - i)) return false;
  }
  return true;
}

void NgramDraft::Follow(int32_t tokens, const Token& token) {
  for (; tokens_ < tokens; ++tokens_) {
    if (source_ >= 0) {
      const bool came = token(source_) == token(tokens_);
      chance_ +=
          std::max(kWeight, 1 / (3 + static_cast<double>(guesses_++))) * ((came ? 1 : 0) - chance_);
      missed_ = came ? 0 : missed_ + 1;
      source_ = missed_ > kMissesMax ? -1 : source_ + 1;
    }
    // The position after what stood before this token.
    if (tokens_ >= kOrder) after_[SlotOf(tokens_, token)] = tokens_;
  }
  if ((source_ >= 0 && missed_ == 0) || tokens_ < kOrder) return;
  const int32_t found = after_[SlotOf(tokens_, token)];
  if (found == 0 || !SameBefore(found, tokens_, token)) return;
  source_ = found;
  missed_ = 0;
}

void NgramDraft::Guess(int32_t count, const Token& token, std::vector<int32_t>* out) const {
  out->clear();
  for (int32_t i = 0; i < count; ++i) {
    const int32_t at = source_ + i;
    // What is guessed may go on into itself.
    out->push_back(at < tokens_ ? token(at) : (*out)[static_cast<size_t>(at - tokens_)]);
  }
}

}  // namespace penstock::generate
