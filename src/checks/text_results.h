// What an encoder, or a decoder that embeds or scores, gives for built-in texts, as `penstock
// doctor` checks it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/model_rows.h"

namespace penstock::checks {

struct TextsSource {
  enum class Again { kOneThread, kPlainKernels };
  std::string name;  // as served, and its path
  std::string backend;
  int32_t layers = 0;
  int32_t dimensions = 0;
  bool unit_length = false;  // of results
  // Results of texts: vectors, or logits.
  std::function<Expected<ModelRows>(const std::vector<std::string>& texts)> rows;
  // The same of the model loaded anew in its place; `rows` is not called any more.
  std::function<Expected<ModelRows>(const std::vector<std::string>& texts, Again how)> rows_again;
};
std::unique_ptr<CheckedResults> TextResultsOf(TextsSource source);

}  // namespace penstock::checks
