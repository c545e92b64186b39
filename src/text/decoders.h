// Decoders: token strings back into text, whole or as a stream.
//
// A decoder is a chain of steps. Each step turns one token into pieces of text, or holds it back;
// whole texts are decoded through the same steps, so a stream always adds up to the same text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "text/regex.h"

namespace penstock {

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
  virtual ~DecodeStep() = default;
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
std::unique_ptr<DecoderSpec> MakeReplaceDecoder(Regex pattern, std::string content);
std::unique_ptr<DecoderSpec> MakeCtcDecoder(std::string pad, std::string delimiter, bool cleanup);

using DecoderChain = std::vector<std::unique_ptr<DecoderSpec>>;

// A run of tokens through a chain; collects the text.
class DecodeRun {
 public:
  explicit DecodeRun(const DecoderChain& chain);
  void Push(std::string_view token) { PushAt(0, token, false); }
  void Finish();
  // The text so far, which is then forgotten.
  std::string Take() { return std::exchange(text_, {}); }

 private:
  class StepSink;
  void PushAt(size_t step, std::string_view text, bool joins);

  std::vector<std::unique_ptr<DecodeStep>> steps_;
  std::string text_;
};

}  // namespace penstock
