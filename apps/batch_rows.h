// Rows of penstock batch: what is asked of a model for each, and the line that is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/row_reader.h"
#include "decoder_flags.h"

namespace penstock::cli {

struct BatchSettings {
  std::string model;   // at a server; "" = its default
  bool raw = false;    // prompts go to the model as they are, without its chat template
  std::string system;  // message before the prompt; "" = none
  std::vector<std::string> text_fields;  // of objects; empty: prompt, text, input, content
  std::string join = " ";
  SamplingFlags sampling;
};

struct BatchAsk {
  std::string path, body;
  std::optional<std::string> id;
  std::string custom_id;  // of a request as OpenAI's batches have it
  bool as_it_is = false;  // such a request: its whole answer is written
  Status status;          // not OK: nothing can be asked of this row
};

// A row is one of
//   a prompt              a line of text, or the text fields of an object
//   {"messages": [...]}   a conversation, as /v1/chat/completions has it
//   {"custom_id", "method", "url", "body"}   a request, as OpenAI's batches have it
BatchAsk AskOfRow(const corpus::Row& row, const BatchSettings& settings);

// The line of an answer, with its end. `failed` becomes whether it is an error.
std::string PrintAnswer(const BatchAsk& ask, int64_t index, int http_status,
                        const std::string& body, bool* failed);
// ... of a row for which nothing was asked.
std::string PrintFailure(const BatchAsk& ask, int64_t index, const Status& status);

}  // namespace penstock::cli
