// Texts of many kinds, to compare a model's types on: sentences of varied topics, languages and
// scripts, code, numbers and lists, alone and put together from a few characters to a thousand
// words. All written for Penstock; the same in every run.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::checks {

inline constexpr size_t kVariedTextsMax = 100'000;

// The first `count` texts of an endless sequence; no two are equal. count <= kVariedTextsMax.
std::vector<std::string> VariedTexts(size_t count);

// The sentences they are made of (varied_sentences.cc).
std::span<const std::string_view> VariedSentences();

}  // namespace penstock::checks
