// Requests for text of the load generator: how long prompts and texts are, and the bytes on the
// wire. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::load {

// Tokens, drawn evenly from min to max.
struct TokenRange {
  static constexpr int kMost = 1 << 20;

  int min = 1;
  int max = 1;

  // "256" or "64-256"; 1 to kMost.
  static Expected<TokenRange> Parse(const std::string& text);
  int Draw(std::mt19937_64* random) const;
};

// How words become tokens in the server's prompts: tokens = fixed + per_word * words. `fixed` is
// what the chat template adds.
struct PromptScale {
  double fixed = 0;
  double per_word = 1;

  int WordsFor(int tokens) const;
};

struct ChatRequestOptions {
  // /v1/completions with the prompt as it is; else /v1/chat/completions with one message.
  bool completions = false;
  std::string model;       // "" = left out
  std::string priority;    // X-Penstock-Priority; "" = left out
  int64_t timeout_ms = 0;  // X-Request-Timeout-Ms; 0 = left out
  bool ignore_eos = true;  // texts are as long as was asked for
  TokenRange prompt_tokens = {256, 256};
  TokenRange output_tokens = {128, 128};
  // Instead of the two ranges: tokens of the next request's prompt and text. May be empty.
  std::function<std::pair<int, int>()> next_tokens = {};
  double prefix_share = 0;  // of a prompt's words, at its begin: the same for all requests
};

// Makes one request after another; equal seeds make equal requests.
class ChatRequests {
 public:
  ChatRequests(const HttpTarget& target, const ChatRequestOptions& options,
               const PromptScale& scale, uint64_t seed)
      : target_(target), options_(options), scale_(scale), seed_(seed), random_(seed) {}

  struct Request {
    std::string bytes;
    int output_tokens = 0;
  };
  // `with_timeout`: as the options say, else without. `large_events`: each token comes with the
  // probabilities of many others, so that a stream has many bytes.
  Request Next(bool with_timeout, bool large_events = false);

 private:
  std::string Prompt(int words);

  const HttpTarget target_;
  const ChatRequestOptions options_;
  const PromptScale scale_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  std::string prefix_;  // of the most words that were wanted
  int prefix_words_ = 0;
};

// Asks the server for one token after prompts of two lengths. kUnavailable: no connection, or an
// answer other than 200, with what it says.
Expected<PromptScale> MeasurePromptScale(const HttpTarget& target,
                                         const ChatRequestOptions& options);

}  // namespace penstock::load
