#include "text/decoders.h"

#include <algorithm>
#include <optional>

#include "text/byte_level.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

using Sink = DecodeStep::Sink;

// Most steps work on whole tokens: this base joins parts again, and passes a token on once the next
// one starts.
class WholeTokenStep : public DecodeStep {
 public:
  void Push(std::string_view text, bool joins, Sink* sink) final {
    if (joins && pending_) {
      held_.append(text);
      return;
    }
    Flush(sink);
    if (!may_join_) {
      Token(text, sink);
      return;
    }
    held_ = text;
    pending_ = true;
  }
  void Finish(Sink* sink) final {
    Flush(sink);
    Done(sink);
  }
  Parts parts() const override { return Parts::kJoins; }
  void ExpectParts() final { may_join_ = true; }

 protected:
  virtual void Token(std::string_view token, Sink* sink) = 0;
  virtual void Done(Sink*) {}

 private:
  void Flush(Sink* sink) {
    if (!pending_) return;
    pending_ = false;
    Token(held_, sink);
  }
  std::string held_;
  bool pending_ = false;
  bool may_join_ = false;
};

// A spec whose steps come from a function.
template <typename Make>
class FunctionSpec : public DecoderSpec {
 public:
  explicit FunctionSpec(Make make) : make_(std::move(make)) {}
  std::unique_ptr<DecodeStep> NewStep() const override { return make_(); }

 private:
  Make make_;
};
template <typename Make>
std::unique_ptr<DecoderSpec> SpecOf(Make make) {
  return std::make_unique<FunctionSpec<Make>>(std::move(make));
}

void ReplaceAll(std::string* text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  size_t at = text->find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t last = 0;
  for (; at != std::string::npos; at = text->find(from, last)) {
    out.append(*text, last, at - last);
    out.append(to);
    last = at + from.size();
  }
  out.append(*text, last);
  text->swap(out);
}

// Takes out the spaces that English tokenization put in.
void Cleanup(std::string* text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

class JoinStep : public WholeTokenStep {
 protected:
  void Token(std::string_view token, Sink* sink) override {
    if (!first_) sink->Put(" ", false);
    first_ = false;
    sink->Put(token, false);
  }

 private:
  bool first_ = true;
};

class WordPieceStep : public WholeTokenStep {
 public:
  WordPieceStep(const std::string& prefix, bool cleanup) : prefix_(prefix), cleanup_(cleanup) {}

 protected:
  void Token(std::string_view token, Sink* sink) override {
    std::string text;
    if (first_) {
      text = token;
    } else if (token.starts_with(prefix_)) {
      text = token.substr(prefix_.size());
    } else {
      text = " ";
      text += token;
    }
    first_ = false;
    if (cleanup_) Cleanup(&text);
    sink->Put(text, false);
  }

 private:
  const std::string& prefix_;
  bool cleanup_;
  bool first_ = true;
};

// All tokens become one, byte by byte; bytes wait until they are a whole character.
class ByteLevelStep : public WholeTokenStep {
 public:
  Parts parts() const override { return Parts::kSplits; }

 protected:
  void Token(std::string_view token, Sink* sink) override {
    if (!ByteLevelToBytes(token, &bytes_)) bytes_.append(token);
    for (;;) {
      size_t valid = 0, bad = 0;
      const unicode::Utf8Tail tail = unicode::ScanUtf8(bytes_, &valid, &bad);
      Give(std::string_view(bytes_).substr(0, valid), sink);
      if (tail == unicode::Utf8Tail::kInvalid) Give("\xEF\xBF\xBD", sink);
      bytes_.erase(0, valid + (tail == unicode::Utf8Tail::kInvalid ? bad : 0));
      if (tail != unicode::Utf8Tail::kInvalid) return;
    }
  }
  void Done(Sink* sink) override {
    if (!bytes_.empty()) Give("\xEF\xBF\xBD", sink);
    bytes_.clear();
  }

 private:
  void Give(std::string_view text, Sink* sink) {
    if (text.empty()) return;
    sink->Put(text, started_);
    started_ = true;
  }
  std::string bytes_;
  bool started_ = false;
};

// Looks at one character at a time, so parts need not wait for each other.
class MetaspaceStep : public DecodeStep {
 public:
  MetaspaceStep(const std::string& replacement, bool drop_first)
      : replacement_(replacement), drop_first_(drop_first) {}
  Parts parts() const override { return Parts::kPasses; }

  void Push(std::string_view token, bool joins, Sink* sink) override {
    if (!joins) ++tokens_;
    std::string text(token);
    ReplaceAll(&text, replacement_, tokens_ <= 1 && drop_first_ ? "" : " ");
    sink->Put(text, joins);
  }
  void Finish(Sink*) override {}

 private:
  const std::string& replacement_;
  bool drop_first_;
  size_t tokens_ = 0;
};

// The suffix becomes a space, but nothing in the last token: the text after the first suffix of a
// token waits for the next token.
class BpeStep : public WholeTokenStep {
 public:
  explicit BpeStep(const std::string& suffix) : suffix_(suffix) {}
  Parts parts() const override { return Parts::kSplits; }

 protected:
  void Token(std::string_view token, Sink* sink) override {
    Give(" ", sink);
    const size_t sure =
        suffix_.empty() ? token.size() : std::min(token.find(suffix_), token.size());
    sink->Put(token.substr(0, sure), false);
    held_ = token.substr(sure);
  }
  void Done(Sink* sink) override { Give("", sink); }

 private:
  void Give(std::string_view replacement, Sink* sink) {
    if (held_.empty()) return;
    ReplaceAll(&held_, suffix_, replacement);
    sink->Put(held_, true);
    held_.clear();
  }
  const std::string& suffix_;
  std::string held_;
};

// Neighbouring <0xNN> tokens become one token if their bytes are valid UTF-8, else one
// U+FFFD each: one more byte can spoil all of a run. A whole text holds a run until it ends, as the
// reference does; a stream gives each character out with its last byte, or a text of characters
// outside the vocabulary would show nothing until it ends.
class ByteFallbackStep : public WholeTokenStep {
 public:
  Parts parts() const override { return by_character_ ? Parts::kSplits : Parts::kJoins; }
  void OfferParts() override { by_character_ = true; }

 protected:
  void Token(std::string_view token, Sink* sink) override {
    if (const int byte = ByteOf(token); byte >= 0) {
      bytes_.push_back(char(byte));
      if (by_character_ && bytes_.size() <= 4 && IsValidUtf8(bytes_)) Give(sink);
      return;
    }
    Done(sink);
    sink->Put(token, false);
  }
  void Done(Sink* sink) override {
    if (IsValidUtf8(bytes_)) {
      if (!bytes_.empty()) Give(sink);
    } else {
      for (size_t i = 0; i < bytes_.size(); ++i) sink->Put("\xEF\xBF\xBD", false);
    }
    bytes_.clear();
    started_ = false;
  }

 private:
  static int ByteOf(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; ++i) {
      const char c = token[i];
      // Rust's number parser, which the reference uses, takes a plus sign in front.
      if (i == 3 && c == '+') continue;
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  }
  void Give(Sink* sink) {
    sink->Put(bytes_, started_);
    bytes_.clear();
    started_ = true;
  }
  std::string bytes_;
  bool by_character_ = false;
  bool started_ = false;  // a part of this run is given out
};

class FuseStep : public DecodeStep {
 public:
  Parts parts() const override { return Parts::kFuses; }
  void Push(std::string_view text, bool, Sink* sink) override {
    sink->Put(text, started_);
    started_ = true;
  }
  void Finish(Sink* sink) override {
    if (!started_) sink->Put("", false);
  }

 private:
  bool started_ = false;
};

// Up to `start` characters `content` off the front of a token and up to `stop` off its back.
// Passes text on as soon as it is sure to stay, while parts of one long token still come.
class StripStep : public DecodeStep {
 public:
  StripStep(const std::string& content, size_t start, size_t stop)
      : content_(content), start_(start), stop_(stop) {}
  Parts parts() const override { return Parts::kPasses; }

  void Push(std::string_view text, bool joins, Sink* sink) override {
    if (!joins) {
      End(sink);
      open_ = true;
      given_ = false;
      left_ = start_;
      held_ = 0;
    }
    for (; left_ > 0 && text.starts_with(content_); --left_) text.remove_prefix(content_.size());
    if (!text.empty()) left_ = 0;
    // Holds the last `stop` characters back if they could go; everything before is sure. What is
    // held already is such characters too.
    size_t end = text.size(), last = 0;
    for (; last < stop_ && text.substr(0, end).ends_with(content_); ++last) end -= content_.size();
    if (end > 0) {
      GiveHeld(held_, sink);
      Give(text.substr(0, end), sink);
    } else {
      GiveHeld(held_ - std::min(held_, stop_ - last), sink);
    }
    held_ += last;
  }
  void Finish(Sink* sink) override { End(sink); }

 private:
  void Give(std::string_view text, Sink* sink) {
    if (text.empty()) return;
    sink->Put(text, given_);
    given_ = true;
  }
  void GiveHeld(size_t count, Sink* sink) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += content_;
    Give(text, sink);
    held_ -= count;
  }
  void End(Sink* sink) {
    // The characters still held are at the end of the token: they go.
    if (open_ && !given_) sink->Put("", false);
    open_ = false;
    held_ = 0;
  }
  const std::string& content_;
  size_t start_, stop_;
  bool open_ = false, given_ = false;
  size_t left_ = 0;  // characters that may still go off the front
  size_t held_ = 0;  // characters held back, at most `stop`
};

class ReplaceStep : public WholeTokenStep {
 public:
  ReplaceStep(const regex::Regex& pattern, const std::string& content)
      : pattern_(pattern), content_(content) {}
  void CountsIn(const size_t* pushed_bytes) override { pushed_bytes_ = pushed_bytes; }

 protected:
  void Token(std::string_view token, Sink* sink) override {
    std::vector<regex::ByteRange> matches;
    if (!pattern_.FindAll(token, &matches)) matches.clear();
    const size_t added = matches.size() * content_.size();
    if (made_ + added > GrowthLimit(*pushed_bytes_)) matches.clear();
    if (!matches.empty()) made_ += added;
    std::string text;
    size_t last = 0;
    for (const regex::ByteRange& match : matches) {
      text.append(token.substr(last, match.begin - last));
      text.append(content_);
      last = match.end;
    }
    text.append(token.substr(last));
    sink->Put(text, false);
  }

 private:
  const regex::Regex& pattern_;
  const std::string& content_;
  const size_t* pushed_bytes_ = nullptr;
  size_t made_ = 0;  // bytes of content put into this run
};

class CtcStep : public WholeTokenStep {
 public:
  CtcStep(const std::string& pad, const std::string& delimiter, bool cleanup)
      : pad_(pad), delimiter_(delimiter), cleanup_(cleanup) {}

 protected:
  void Token(std::string_view token, Sink* sink) override {
    if (last_ && *last_ == token) return;
    last_ = token;
    std::string text(token);
    ReplaceAll(&text, pad_, "");
    if (cleanup_) {
      Cleanup(&text);
      ReplaceAll(&text, delimiter_, " ");
    }
    if (!text.empty()) sink->Put(text, false);
  }

 private:
  const std::string& pad_;
  const std::string& delimiter_;
  bool cleanup_;
  std::optional<std::string> last_;
};

}  // namespace

std::unique_ptr<DecoderSpec> MakeJoinWithSpaces() {
  return SpecOf([] { return std::make_unique<JoinStep>(); });
}
std::unique_ptr<DecoderSpec> MakeWordPieceDecoder(std::string prefix, bool cleanup) {
  return SpecOf([prefix = std::move(prefix), cleanup] {
    return std::make_unique<WordPieceStep>(prefix, cleanup);
  });
}
std::unique_ptr<DecoderSpec> MakeByteLevelDecoder() {
  return SpecOf([] { return std::make_unique<ByteLevelStep>(); });
}
std::unique_ptr<DecoderSpec> MakeMetaspaceDecoder(std::string replacement, bool drop_first) {
  return SpecOf([replacement = std::move(replacement), drop_first] {
    return std::make_unique<MetaspaceStep>(replacement, drop_first);
  });
}
std::unique_ptr<DecoderSpec> MakeBpeDecoder(std::string suffix) {
  return SpecOf([suffix = std::move(suffix)] { return std::make_unique<BpeStep>(suffix); });
}
std::unique_ptr<DecoderSpec> MakeByteFallbackDecoder() {
  return SpecOf([] { return std::make_unique<ByteFallbackStep>(); });
}
std::unique_ptr<DecoderSpec> MakeFuseDecoder() {
  return SpecOf([] { return std::make_unique<FuseStep>(); });
}
std::unique_ptr<DecoderSpec> MakeStripDecoder(std::string content, size_t start, size_t stop) {
  return SpecOf([content = std::move(content), start, stop] {
    return std::make_unique<StripStep>(content, start, stop);
  });
}
std::unique_ptr<DecoderSpec> MakeReplaceDecoder(regex::Regex pattern, std::string content) {
  return SpecOf([pattern = std::move(pattern), content = std::move(content)] {
    return std::make_unique<ReplaceStep>(pattern, content);
  });
}
std::unique_ptr<DecoderSpec> MakeCtcDecoder(std::string pad, std::string delimiter, bool cleanup) {
  return SpecOf([pad = std::move(pad), delimiter = std::move(delimiter), cleanup] {
    return std::make_unique<CtcStep>(pad, delimiter, cleanup);
  });
}

// What a step gives goes to the next one, or into the text.
class DecodeRun::StepSink : public DecodeStep::Sink {
 public:
  StepSink(DecodeRun* run, size_t next) : run_(run), next_(next) {}
  void Put(std::string_view text, bool joins) override { run_->PushAt(next_, text, joins); }

 private:
  DecodeRun* run_;
  size_t next_;
};

DecodeRun::DecodeRun(const DecoderChain& chain, bool stream) {
  using Parts = DecodeStep::Parts;
  for (const auto& spec : chain) {
    steps_.push_back(spec->NewStep());
    steps_.back()->CountsIn(&pushed_bytes_);
  }
  bool welcome = true;  // no step after this one holds parts back
  for (auto step = steps_.rbegin(); stream && step != steps_.rend(); ++step) {
    if (welcome) (*step)->OfferParts();
    const Parts kind = (*step)->parts();
    welcome = kind == Parts::kFuses || (kind == Parts::kPasses && welcome);
  }
  bool parts = false;
  for (const auto& step : steps_) {
    if (parts) step->ExpectParts();
    const Parts kind = step->parts();
    parts = kind == Parts::kFuses || kind == Parts::kSplits || (kind == Parts::kPasses && parts);
  }
}

void DecodeRun::PushAt(size_t step, std::string_view text, bool joins) {
  if (step == steps_.size()) {
    text_.append(text);
    return;
  }
  StepSink sink(this, step + 1);
  steps_[step]->Push(text, joins, &sink);
}

void DecodeRun::Finish() {
  for (size_t step = 0; step < steps_.size(); ++step) {
    StepSink sink(this, step + 1);
    steps_[step]->Finish(&sink);
  }
}

}  // namespace penstock::text
