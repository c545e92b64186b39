// Decoders: token strings back into text, whole or as a stream.
//
// A decoder is a chain of steps. Each step turns one token into pieces of text, or holds it back;
// whole texts are decoded through the same steps, so a stream adds up to the same text, but for
// byte tokens that are not UTF-8 (see DecodeRun).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "regex/regex.h"

namespace penstock::text {

// The state of one decoding run through a step. Not shared between runs.
class DecodeStep {
 public:
  // Takes the tokens a step gives out.
  class Sink {
   public:
    virtual ~Sink() = default;
    // `joins`: continues the token given before instead of starting a new one.
    virtual void Put(std::string_view text, bool joins) = 0;
  };
  // How a step treats a token that comes in parts: some Put, then others that join it.
  enum class Parts {
    kJoins,   // puts the parts together first; gives whole tokens
    kSplits,  // the same, but gives parts
    kPasses,  // gives for each part its part of the result
    kFuses,   // all tokens become one, in parts
  };
  virtual ~DecodeStep() = default;
  virtual Parts parts() const = 0;
  // `pushed_bytes`: the run's count of token bytes, for steps that could turn few bytes into
  // gigabytes.
  virtual void CountsIn(const size_t* pushed_bytes) { (void)pushed_bytes; }
  // Called if tokens come to this step in parts.
  virtual void ExpectParts() {}
  // Called if the steps after this one take parts: a stream wants text as early as possible.
  virtual void OfferParts() {}
  virtual void Push(std::string_view text, bool joins, Sink* sink) = 0;
  virtual void Finish(Sink* sink) = 0;
};

// One kind of step with its settings; immutable.
class DecoderSpec {
 public:
  virtual ~DecoderSpec() = default;
  virtual std::unique_ptr<DecodeStep> NewStep() const = 0;
};

std::unique_ptr<DecoderSpec> MakeJoinWithSpaces();  // when a file has no decoder
std::unique_ptr<DecoderSpec> MakeWordPieceDecoder(std::string prefix, bool cleanup);
std::unique_ptr<DecoderSpec> MakeByteLevelDecoder();
std::unique_ptr<DecoderSpec> MakeMetaspaceDecoder(std::string replacement, bool drop_first);
std::unique_ptr<DecoderSpec> MakeBpeDecoder(std::string suffix);
std::unique_ptr<DecoderSpec> MakeByteFallbackDecoder();
std::unique_ptr<DecoderSpec> MakeFuseDecoder();
std::unique_ptr<DecoderSpec> MakeStripDecoder(std::string content, size_t start, size_t stop);
// Leaves a token as it is where the pattern takes too many steps, or where the result would exceed
// GrowthLimit (work.h) of all tokens so far.
std::unique_ptr<DecoderSpec> MakeReplaceDecoder(regex::Regex pattern, std::string content);
std::unique_ptr<DecoderSpec> MakeCtcDecoder(std::string pad, std::string delimiter, bool cleanup);

using DecoderChain = std::vector<std::unique_ptr<DecoderSpec>>;

// A run of tokens through a chain; collects the text.
class DecodeRun {
 public:
  // `stream`: gives a run of byte tokens out character by character, not once it has ended. The
  // text differs only where the run is not UTF-8: then all of it is U+FFFD, but a stream has given
  // out its leading whole characters.
  explicit DecodeRun(const DecoderChain& chain, bool stream = false);
  DecodeRun(const DecodeRun&) = delete;
  DecodeRun& operator=(const DecodeRun&) = delete;
  void Push(std::string_view token) {
    pushed_bytes_ += token.size();
    PushAt(0, token, false);
  }
  void Finish();
  // Returns and forgets the text so far.
  std::string Take() { return std::exchange(text_, {}); }

 private:
  class StepSink;
  void PushAt(size_t step, std::string_view text, bool joins);

  std::vector<std::unique_ptr<DecodeStep>> steps_;
  size_t pushed_bytes_ = 0;
  std::string text_;
};

}  // namespace penstock::text
