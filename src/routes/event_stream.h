// Answers a request for text, whole or as server-sent events.
//
// Events: one for each token whose text is certain, as soon as it is; the head is sent when the
// request was taken, so a refusal has its status. While nothing comes (a long prompt), a comment is
// sent every ServerOptions::stream_ping. An error after the head is an event, and the last.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/generate_types.h"
#include "common/status.h"
#include "frontend/wire_names.h"
#include "routes/routes.h"

namespace penstock {

// One text of an answer that is sent whole.
struct GeneratedChoice {
  struct Call {
    std::string id, name, arguments;
  };
  std::string content, reasoning;
  std::vector<Call> calls;
  std::vector<TokenInfo> tokens;  // where log-probabilities are asked for
  FinishReason reason = FinishReason::kStop;
  int stop_string = -1;
  int32_t token_count = 0;
};

struct GeneratedAnswer {
  std::string model;
  std::vector<std::string> prompts;                   // where they are echoed
  std::vector<std::vector<TokenInfo>> prompt_tokens;  // of each prompt, where they are scored
  std::vector<GeneratedChoice> choices;
  GenerateUsage usage;

  void Add(const std::vector<ReplyDelta>& deltas, GeneratedChoice* choice) const;
  GeneratedChoice* At(int32_t choice);
};

// Prints the answers of one API, of one request.
class TextPrinter {
 public:
  virtual ~TextPrinter() = default;
  // The body of a whole answer.
  virtual std::string Whole(const GeneratedAnswer& answer) = 0;
  // Events of a streamed one, appended to *out.
  virtual void Begin(const GenerateBegun& begun, std::string* out) = 0;
  // The tokens of a prompt, which is whole.
  virtual void Prompt(size_t prompt, const std::vector<TokenInfo>& tokens, std::string* out) {
    (void)prompt, (void)tokens, (void)out;
  }
  virtual void Part(const GeneratedPart& part, std::string* out) = 0;
  virtual void End(const ChoiceEnd& end, std::string* out) = 0;
  virtual void Finish(const GenerateEnd& end, std::string* out) = 0;
};

// `names`: native to wire, as for Answer (routes.h).
void AnswerWithText(const RouteCall& call, TextRequest request,
                    std::unique_ptr<TextPrinter> printer, FieldNames names);

}  // namespace penstock
