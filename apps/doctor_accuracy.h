// The part of penstock doctor that compares bf16 and int8 with f32: how far results move, whether
// that is advisable, and which parts of the model to keep higher.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "common/status.h"
#include "corpus/row_reader.h"
#include "model_flags.h"

namespace penstock {

struct AccuracyFlags {
  static constexpr int32_t kTexts = 2000;
  static constexpr int32_t kTextsMax = 20'000;  // the work grows with their square

  std::optional<int32_t> count;  // 0: no comparison; nullopt: kTexts, or all of the file
  std::string texts_file;
  InputOptions input;  // how that file is read
  std::string json_file;
  bool try_keep = false;
  bool quiet = false;
};

void AddAccuracyFlags(CommandLine* line, AccuracyFlags* flags);

// The texts of `texts_file`, `count` at most. kPayloadTooLarge: more than kTextsMax.
Expected<std::vector<std::string>> ReadTextsFile(const AccuracyFlags& flags);

// Gets one line of the report; `advisable` false: a type is beyond its limits.
using AccuracyLine = std::function<void(bool advisable, const std::string& text)>;

// Loads the model of `model` as f32, bf16 and int8, one after the other. An error is that of the
// texts, the records' file or of loading.
Status CompareTypes(const ModelOptions& model, const AccuracyFlags& flags,
                    const AccuracyLine& line);

}  // namespace penstock
