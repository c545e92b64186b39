#include "reply/call_id.h"

#include <string_view>

namespace penstock::reply {
namespace {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
uint64_t Next(uint64_t* state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

}  // namespace

std::string CallId(ToolForm form, uint64_t seed, int index) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool mistral = IsMistral(form);
  std::string id = mistral ? "" : "call_";
  uint64_t state = seed;
  // The index enters between two steps, so that neighbouring seeds share no ids.
  state = Next(&state) + static_cast<uint64_t>(index);
  for (int i = 0; i < (mistral ? 9 : 24); ++i) id += kLetters[Next(&state) % kLetters.size()];
  return id;
}

}  // namespace penstock::reply
