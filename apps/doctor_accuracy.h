// The part of penstock doctor that compares bf16 and int8 with f32: how far results move, whether
// that is advisable, and which parts of the model to keep higher.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/service.h"
#include "base/status.h"
#include "checks/accuracy.h"
#include "checks/check.h"
#include "cli/command_line.h"
#include "corpus/row_reader.h"
#include "model_flags.h"

namespace penstock::cli {

struct AccuracyFlags {
  static constexpr int32_t kTexts = 2000;
  static constexpr int32_t kTextsMax = 20'000;  // the work grows with their square

  std::optional<int32_t> count;  // 0: no comparison; nullopt: kTexts, or all of the file
  std::string texts_file;
  corpus::InputOptions input;  // how that file is read
  std::string json_file;
  bool try_keep = false;
  bool quiet = false;
};

// The inputs of a comparison.
struct Workload {
  std::string task;
  std::vector<api::ClassifyInput> inputs;  // embeddings: `first` alone
  size_t lists = 0;                        // reranking: queries, of equally many passages each
};
// Rows of answers in the order of the inputs: vectors or logits.
Expected<checks::ResultRows> AskAll(api::Service* service, const Workload& work);

void AddAccuracyFlags(CommandLine* line, AccuracyFlags* flags);

// The texts of `texts_file`, `count` at most. kPayloadTooLarge: more than kTextsMax.
Expected<std::vector<std::string>> ReadTextsFile(const AccuracyFlags& flags);

// Whether no comparison is asked for, which it says.
bool SkipAccuracy(const AccuracyFlags& flags, const checks::Say& say);

// Says one line for each type; kAdvice: it is beyond its limits. Loads the model of `model` as f32,
// bf16 and int8, one after the other. An error is that of the texts, the records' file or of
// loading.
Status CompareTypes(const runtime::ModelOptions& model, const AccuracyFlags& flags,
                    const checks::Say& say);

}  // namespace penstock::cli
