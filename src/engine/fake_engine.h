// For tests: an EncoderEngine without files. Words are tokens; a test can work out its results.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/encoder_engine.h"

namespace penstock::engine {

// Splits at spaces. A word "tN" is id N; any other word 4 + bytes % 96. 100 ids; 0 = [CLS],
// 1 = [SEP]. [CLS] a [SEP] and [CLS] a [SEP] b [SEP], b of type 1.
class FakeTokenizer : public text::Tokenizer {
 public:
  explicit FakeTokenizer(bool with_template = true) : with_template_(with_template) {}

  Status Encode(std::string_view text, const text::EncodeOptions& options,
                text::Encoding* out) const override {
    return EncodeBoth(text, nullptr, options, out);
  }
  Status EncodePair(std::string_view first, std::string_view second,
                    const text::EncodeOptions& options, text::Encoding* out) const override {
    return EncodeBoth(first, &second, options, out);
  }
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const override {
    ids->clear();
    for (const Word& word : Words(text)) ids->push_back(word.id);
    return Status::Ok();
  }
  Status Combine(std::span<const int32_t> first, const std::span<const int32_t>* second,
                 const text::EncodeOptions& options, text::Encoding* out) const override {
    const auto words = [](std::span<const int32_t> ids) {
      std::vector<Word> made;
      for (const int32_t id : ids) made.push_back({id, {}});
      return made;
    };
    return Assemble(words(first), second ? words(*second) : std::vector<Word>(), second != nullptr,
                    options, out);
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id < 0 || id >= 100 || (skip_special_tokens && id < 2)) continue;
      if (!text.empty()) text += ' ';
      text += IdToToken(id);
    }
    return text;
  }
  std::unique_ptr<text::StreamDecoder> NewStreamDecoder(bool, std::vector<int32_t>) const override {
    return nullptr;
  }
  int32_t vocab_size() const override { return 100; }
  std::string_view IdToToken(int32_t id) const override {
    static const std::vector<std::string> tokens = [] {
      std::vector<std::string> made = {"[CLS]", "[SEP]"};
      for (int i = 2; i < 100; ++i) made.push_back("t" + std::to_string(i));
      return made;
    }();
    return id < 0 || id >= 100 ? std::string_view() : tokens[id];
  }
  int32_t TokenToId(std::string_view token) const override {
    for (int32_t id = 0; id < 100; ++id) {
      if (IdToToken(id) == token) return id;
    }
    return -1;
  }
  bool IsSpecial(int32_t id) const override { return id == 0 || id == 1; }
  size_t special_tokens_single() const override { return with_template_ ? 2 : 0; }
  size_t special_tokens_pair() const override { return with_template_ ? 3 : 0; }
  std::string_view model_type() const override { return "Fake"; }

 private:
  struct Word {
    int32_t id;
    text::TokenOffset offset;
  };
  std::vector<Word> Words(std::string_view text) const {
    std::vector<Word> words;
    for (size_t i = 0; i < text.size();) {
      const size_t begin = text.find_first_not_of(' ', i);
      if (begin == std::string_view::npos) break;
      const size_t end = std::min(text.find(' ', begin), text.size());
      const std::string word(text.substr(begin, end - begin));
      const int32_t known = TokenToId(word);
      const int32_t id = known >= 0 ? known : static_cast<int32_t>(4 + word.size() % 96);
      words.push_back({id, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}});
      i = end;
    }
    return words;
  }
  static void Cut(std::vector<Word>* words, size_t n, text::TruncationSide side) {
    if (side == text::TruncationSide::kRight) {
      words->resize(words->size() - n);
    } else {
      words->erase(words->begin(), words->begin() + n);
    }
  }
  Status EncodeBoth(std::string_view first, const std::string_view* second,
                    const text::EncodeOptions& options, text::Encoding* out) const {
    return Assemble(Words(first), second ? Words(*second) : std::vector<Word>(), second != nullptr,
                    options, out);
  }
  Status Assemble(std::vector<Word> a, std::vector<Word> b, bool second,
                  const text::EncodeOptions& options, text::Encoding* out) const {
    *out = {};
    const bool with_template = with_template_ && options.add_special_tokens;
    const size_t added = with_template ? (second ? 3 : 2) : 0;
    if (options.max_tokens > 0) {
      if (options.max_tokens < added) return Status::InvalidArgument("max_tokens is too small");
      while (a.size() + b.size() + added > options.max_tokens) {
        Cut(a.size() > b.size() ? &a : &b, 1, options.side);
        ++out->truncated_tokens;
      }
    }
    const auto add = [&](int32_t id, int32_t type, bool special, text::TokenOffset offset) {
      out->ids.push_back(id);
      out->type_ids.push_back(type);
      out->special_mask.push_back(special);
      out->sequence_ids.push_back(special ? -1 : static_cast<int8_t>(type));
      if (options.with_offsets) out->offsets.push_back(offset);
    };
    if (with_template) add(0, 0, true, {});
    for (const Word& word : a) add(word.id, 0, false, word.offset);
    if (with_template) add(1, 0, true, {});
    for (const Word& word : b) add(word.id, 1, false, word.offset);
    if (with_template && second) add(1, 1, true, {});
    return Status::Ok();
  }

  bool with_template_;
};

// kPooled: [sum of ids, length, 3, 4]; kLogits: label l gets (sum of ids - 50) / 10 * (l + 1);
// kTokens: [id, type, 0, 0].
class FakeEncoderRunner : public program::EncoderRunner {
 public:
  explicit FakeEncoderRunner(int32_t labels, std::function<void()> before_run = nullptr)
      : labels_(labels), before_run_(std::move(before_run)) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kLogits ? labels_ : 4;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    if (before_run_) before_run_();
    for (size_t s = 0; s < batch.sequences(); ++s) {
      float* const out = sinks[s];
      size_t to = 0;
      float sum = 0;
      for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
        sum += static_cast<float>(batch.ids[t]);
        if (output != program::EncoderOutput::kTokens) continue;
        out[to++] = static_cast<float>(batch.ids[t]);
        out[to++] = batch.type_ids.empty() ? 0 : static_cast<float>(batch.type_ids[t]);
        out[to++] = 0;
        out[to++] = 0;
      }
      if (output == program::EncoderOutput::kPooled) {
        for (const float x : {sum, static_cast<float>(batch.length(s)), 3.0f, 4.0f}) out[to++] = x;
      } else if (output == program::EncoderOutput::kLogits) {
        for (int32_t l = 0; l < labels_; ++l) {
          out[to++] = (sum - 50) / 10 * static_cast<float>(l + 1);
        }
      }
    }
    return Status::Ok();
  }

 private:
  int32_t labels_;
  std::function<void()> before_run_;
};

// Ready for EncoderEngine's constructor; change what the test is about.
inline EncoderParts FakeParts(families::ModelTask task, int32_t labels = 1,
                              std::function<void()> before_run = nullptr) {
  EncoderParts parts;
  parts.folder.path = "/models/fake";
  parts.folder.task = task;
  parts.folder.pooling_declared = true;
  parts.folder.similarity = "cosine";
  parts.folder.encoder.model_type = "fake";
  parts.folder.encoder.vocab_size = 100;
  parts.folder.max_tokens = 8;
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.num_labels = task == families::ModelTask::kEmbedding ? 0 : labels;
  parts.folder.encoder.num_labels = parts.num_labels;
  for (int32_t l = 0; l < parts.num_labels; ++l) {
    parts.folder.encoder.labels.push_back("label" + std::to_string(l));
  }
  parts.runners.push_back(
      std::make_unique<FakeEncoderRunner>(parts.num_labels, std::move(before_run)));
  parts.hidden_size = 4;
  parts.embedding_size = 4;
  parts.max_tokens = 8;
  parts.uses_type_ids = true;
  parts.parameters = 10;
  parts.weight_bytes = 40;
  parts.backend = "fake";
  return parts;
}

}  // namespace penstock::engine
