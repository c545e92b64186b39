// Prints the answers of one API to requests for text: whole, or in parts as they come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"

namespace penstock::dialects {

// One text of an answer that is sent whole.
struct GeneratedChoice {
  struct Call {
    std::string id, name, arguments;
  };
  std::string content, reasoning;
  std::vector<Call> calls;
  // Where log-probabilities are asked for: all, or those of the content (content_tokens_alone).
  std::vector<api::TokenInfo> tokens;
  generate::FinishReason reason = generate::FinishReason::kStop;
  int stop_string = -1;
  int32_t token_count = 0;
  int32_t reasoning_tokens = 0;
};

struct GeneratedAnswer {
  std::string model;
  std::vector<std::string> prompts;                        // where they are echoed
  std::vector<std::vector<api::TokenInfo>> prompt_tokens;  // of each prompt, where they are scored
  std::vector<GeneratedChoice> choices;
  api::GenerateUsage usage;
  api::GenerateTimes times;

  void Add(const std::vector<reply::ReplyDelta>& deltas, GeneratedChoice* choice) const;
  GeneratedChoice* At(int32_t choice);
};

// Tells the tokens of the content from those of thinking and of calls, part after part. A token
// without text belongs to what its text becomes a part of.
class ContentTokens {
 public:
  // Appends to *out the tokens that are known to be of the content with this part.
  void Add(const api::GeneratedPart& part, std::vector<api::TokenInfo>* out);

 private:
  std::vector<api::TokenInfo> waiting_;
};

// Prints the answers of one API, of one request.
class TextPrinter {
 public:
  virtual ~TextPrinter() = default;
  // Whether a streamed answer is lines of JSON (NDJSON) instead of events.
  virtual bool lines() const { return false; }
  // Headers of the answer, whole or streamed, besides those of its form.
  virtual std::vector<std::pair<std::string, std::string>> headers() const { return {}; }
  // Whether Whole wants the tokens of the content alone.
  virtual bool content_tokens_alone() const { return false; }
  // An error behind the head, the last event. `body`: as the answer to a refused request has it.
  virtual void Error(const Status& status, const std::string& body, std::string* out);
  // The body of a whole answer.
  virtual std::string Whole(const GeneratedAnswer& answer) = 0;
  // Events of a streamed one, appended to *out.
  virtual void Begin(const api::GenerateBegun& begun, std::string* out) = 0;
  // The tokens of a prompt, which is whole.
  virtual void Prompt(size_t prompt, const std::vector<api::TokenInfo>& tokens, std::string* out) {
    (void)prompt, (void)tokens, (void)out;
  }
  virtual void Part(const api::GeneratedPart& part, std::string* out) = 0;
  virtual void End(const api::ChoiceEnd& end, std::string* out) = 0;
  virtual void Finish(const api::GenerateEnd& end, std::string* out) = 0;
};

}  // namespace penstock::dialects
