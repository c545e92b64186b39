// Answers that a model comes with: known_answers.json in its folder says what it must give, and is
// compared each time the model is loaded. Another result refuses the load, so that a version that
// is broken does not take the place of one that works.
//
//   embeds     {"inputs": ["a text", ...], "embeddings": [[0.1, ...], ...]}
//   reranks    {"query": "a text", "documents": ["a text", ...], "scores": [1.5, ...]}
//   generates  {"prompt": "a text", "greedy": " and how it goes on"}
//
// "tolerance" may stand beside: of embeddings, how far the cosine may be below 1; of scores, the
// difference, or its part of a score beyond 1. Without it, it is that of the type the model is
// computed in. Texts are taken as they are, without a prompt; scores are those without a score
// function (raw_scores).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checks/known_answers.h"

namespace penstock::generate {
struct TextModel;  // generate/text_model.h
}  // namespace penstock::generate

namespace penstock::checks {

struct ExpectedAnswers {
  static constexpr const char* kFileName = "known_answers.json";
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr size_t kTextsMax = 64;
  // The bound on all texts together, as each load computes them.
  static constexpr size_t kTokensMax = 4096;
  static constexpr size_t kNewTokensMax = 64;  // of `greedy`

  // Reads the file of the model in the folder at `path`. nullopt: the folder has no such file, or
  // `path` is itself a file. Errors name the file and the field; kInvalidArgument: the file is
  // malformed, has an unknown field, or exceeds the limits above.
  static Expected<std::optional<ExpectedAnswers>> Read(const std::string& path);

  std::vector<std::string> texts;  // inputs, or documents
  std::vector<std::vector<float>> embeddings;
  std::string query;
  std::vector<double> scores;
  std::string prompt, greedy;
  std::optional<double> tolerance;
};

// kInternal: another result, whose message has what was expected and what was found.
// kInvalidArgument: answers that this model does not give. Batches run in turns of `clock`.
Status CompareAnswers(const ExpectedAnswers& expected, const RunnerToCheck& model,
                      CheckClock* clock);
Status CompareAnswers(const ExpectedAnswers& expected, const generate::TextModel& model,
                      CheckClock* clock);

}  // namespace penstock::checks
