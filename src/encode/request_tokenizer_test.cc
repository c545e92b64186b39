// RequestTokenizer against the plain way: every text tokenized whole, by itself.
#include "encode/request_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/fake_engine.h"

namespace penstock::encode {
namespace {

constexpr int32_t kMaxTokens = 24;

std::vector<std::string> TokenizerNames() {
  return {"albert", "bert",       "clip",       "gemma", "gpt2",          "llama2",
          "llama3", "roberta",    "modernbert", "t5",    "unigram_bytes", "wordpiece_sequence",
          "qwen2",  "xlm_roberta"};
}

class RequestTokenizerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { MakeEngine({}); }
  void MakeEngine(const std::function<void(engine::EncoderParts*)>& change) {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
    auto tokenizer = text::Tokenizer::FromFile(PENSTOCK_GOLDEN_DIR "/tokenizers/" + GetParam() +
                                               ".tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    parts.tokenizer = *std::move(tokenizer);
    parts.max_tokens = kMaxTokens;
    parts.folder.encoder.vocab_size = parts.tokenizer->vocab_size();
    if (change) change(&parts);
    engine::EncoderEngineOptions options;
    options.name = "model";
    engine_ = std::make_unique<engine::EncoderEngine>(std::move(parts), options, &metrics_);
  }

  // The expected result.
  Status Plainly(const EncodePlan& plan, TokenizedItems* out) {
    const text::Tokenizer& tokenizer = engine_->tokenizer();
    text::EncodeOptions options;
    text::Encoding encoding;
    size_t prompt_tokens = 0;
    if (!plan.prompt.empty() && !engine_->folder().include_prompt) {
      options.add_special_tokens = plan.add_special_tokens;
      PENSTOCK_RETURN_IF_ERROR(
          tokenizer.Encode(PreparedText(*engine_, plan.prompt, ""), options, &encoding));
      prompt_tokens = encoding.ids.size();
      if (prompt_tokens > 0 && encoding.special_mask.back() != 0) --prompt_tokens;
    }
    options.add_special_tokens = plan.add_special_tokens;
    options.max_tokens = plan.truncate ? kMaxTokens : 0;
    options.side = plan.side;
    for (const EncodeItem& item : plan.items) {
      const std::string first = PreparedText(*engine_, plan.prompt, item.first);
      PENSTOCK_RETURN_IF_ERROR(
          item.second ? tokenizer.EncodePair(first, PreparedText(*engine_, "", *item.second),
                                             options, &encoding)
                      : tokenizer.Encode(first, options, &encoding));
      const size_t length = encoding.ids.size();
      if (length == 0) return Status::InvalidArgument("empty");
      if (length > kMaxTokens) return {StatusCode::kPayloadTooLarge, "too long"};
      out->ids.insert(out->ids.end(), encoding.ids.begin(), encoding.ids.end());
      out->type_ids.insert(out->type_ids.end(), encoding.type_ids.begin(), encoding.type_ids.end());
      out->lengths.push_back(static_cast<int32_t>(length));
      if (prompt_tokens > 0) {
        size_t skip = prompt_tokens;
        if (plan.side == text::TruncationSide::kLeft)
          skip -= std::min(skip, encoding.truncated_tokens);
        out->pool_skip.push_back(static_cast<int32_t>(std::min(skip, length - 1)));
      }
      out->truncation.inputs += encoding.truncated_tokens > 0;
      out->truncation.tokens += static_cast<int64_t>(encoding.truncated_tokens);
    }
    return Status::Ok();
  }

  void ExpectAsPlainly(const EncodePlan& plan, TokenCache* cache) {
    TokenizedItems expected, made;
    const Status plainly = Plainly(plan, &expected);
    RequestTokenizer tokenizer(&plan, cache);
    RequestTokenizer::Scratch scratch;
    Status status;
    for (size_t i = 0; i < plan.items.size() && status.ok(); ++i) {
      status = tokenizer.Add(i, &scratch, &made);
    }
    ASSERT_EQ(status.code(), plainly.code()) << status.ToString() << " " << plainly.ToString();
    if (!status.ok()) return;
    EXPECT_EQ(made.ids, expected.ids);
    EXPECT_EQ(made.type_ids, expected.type_ids);
    EXPECT_EQ(made.lengths, expected.lengths);
    EXPECT_EQ(made.pool_skip, expected.pool_skip);
    EXPECT_EQ(made.truncation.inputs, expected.truncation.inputs);
    if (made.truncation.unread_bytes == 0) {
      EXPECT_EQ(made.truncation.tokens, expected.truncation.tokens);
    } else {
      EXPECT_LE(made.truncation.tokens, expected.truncation.tokens);
    }
    unread_ += made.truncation.unread_bytes;
  }

  std::string Text(size_t words) {
    static const std::vector<std::string> kWords = {"the",
                                                    "Cat",
                                                    "sat.",
                                                    "on",
                                                    "(a)",
                                                    "mat,",
                                                    "it's",
                                                    "na\xC3\xAFve",
                                                    "1984",
                                                    "\xCE\xA3\xCE\x91\xCE\xA3",
                                                    "\xD0\x9C\xD0\xB8\xD1\x80",
                                                    "\xE4\xB8\xAD\xE6\x96\x87",
                                                    "\xFF",
                                                    "",
                                                    "[MASK]",
                                                    "\xF0\x9F\x98\x80"};
    std::string text;
    for (size_t i = 0; i < words; ++i) {
      text += kWords[random_() % kWords.size()];
      if (i + 1 < words) text += random_() % 8 == 0 ? "\n" : " ";
    }
    return text;
  }

  metrics::Metrics metrics_;
  std::unique_ptr<engine::EncoderEngine> engine_;
  std::mt19937 random_{5};
  int64_t unread_ = 0;
};

TEST_P(RequestTokenizerTest, AnyRequestIsAsPlainly) {
  for (const bool lower : {false, true}) {
    for (const bool include_prompt : {false, true}) {
      MakeEngine([&](engine::EncoderParts* parts) {
        parts->folder.do_lower_case = lower;
        parts->folder.include_prompt = include_prompt;
      });
      TokenCache cache(1 << 20, std::chrono::seconds(0), nullptr, &metrics_);
      TokenCache off(0, std::chrono::seconds(0), nullptr, &metrics_);
      for (int round = 0; round < 60 && !HasFailure(); ++round) {
        EncodePlan plan;
        plan.engine = registry::Lease<engine::EncoderEngine>(engine_.get());
        static const std::vector<std::string> kPrompts = {
            "",
            "query: ",
            "Represent this sentence for searching: ",
            "one ",
            "x",
            "\xE4\xB8\xAD ",
            "a very long instruction that has nearly as many tokens as the model takes, or more: ",
            "\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3",
            "broken \xE2\x82"};
        plan.prompt = kPrompts[random_() % kPrompts.size()];
        plan.truncate = random_() % 5 != 0;
        plan.side = random_() % 3 == 0 ? text::TruncationSide::kLeft : text::TruncationSide::kRight;
        plan.add_special_tokens = random_() % 4 != 0;
        const bool pairs = plan.prompt.empty() && random_() % 2 == 0;
        const bool one_query = random_() % 2 == 0;
        // The texts that items view; a few are repeated.
        std::vector<std::string> texts;
        for (int i = 0; i < 12; ++i) {
          texts.push_back(i % 4 == 3 ? texts[i - 2] : Text(random_() % (i % 2 == 0 ? 6 : 300)));
        }
        for (int i = 0; i < 6; ++i) {
          EncodeItem item;
          item.first = texts[pairs && one_query ? 0 : 2 * i];
          if (pairs) item.second = texts[2 * i + 1];
          item.field = "inputs";
          plan.items.push_back(std::move(item));
        }
        SCOPED_TRACE(testing::Message() << "prompt " << plan.prompt << " lower " << lower
                                        << " side " << int(plan.side) << " pairs " << pairs);
        ExpectAsPlainly(plan, &off);
        ExpectAsPlainly(plan, &cache);
        ExpectAsPlainly(plan, &cache);  // from the cache
      }
    }
  }
  const std::string name = GetParam();
  const bool reads_all = name == "clip" || name == "gemma" || name == "llama2";
  EXPECT_EQ(unread_ == 0, reads_all);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, RequestTokenizerTest, testing::ValuesIn(TokenizerNames()),
                         [](const auto& test) { return test.param; });

// Records the texts it is given.
class CountingTokenizer : public engine::FakeTokenizer {
 public:
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const override {
    asked.emplace_back(text);
    return engine::FakeTokenizer::EncodeText(text, ids);
  }
  size_t CutBefore(std::string_view text, size_t low, size_t high, bool) const override {
    const size_t at = text.rfind(' ', high);
    return at == std::string_view::npos || at < std::max<size_t>(low, 1) ? kNoCut : at;
  }
  mutable std::vector<std::string> asked;
};

class TokenizedOnceTest : public testing::Test {
 protected:
  TokenizedOnceTest() {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kReranking);
    auto tokenizer = std::make_unique<CountingTokenizer>();
    tokenizer_ = tokenizer.get();
    parts.tokenizer = std::move(tokenizer);
    parts.folder.include_prompt = false;
    engine::EncoderEngineOptions options;
    options.name = "model";
    engine_ = std::make_unique<engine::EncoderEngine>(std::move(parts), options, &metrics_);
    plan_.engine = registry::Lease<engine::EncoderEngine>(engine_.get());
  }
  std::vector<std::string> Asked(TokenCache* cache) {
    tokenizer_->asked.clear();
    RequestTokenizer tokenizer(&plan_, cache);
    RequestTokenizer::Scratch scratch;
    TokenizedItems made;
    for (size_t i = 0; i < plan_.items.size(); ++i) {
      EXPECT_TRUE(tokenizer.Add(i, &scratch, &made).ok());
    }
    return tokenizer_->asked;
  }
  void AddItem(std::string_view first, std::optional<std::string_view> second = std::nullopt) {
    EncodeItem item;
    item.first = first;
    item.second = second;
    plan_.items.push_back(std::move(item));
  }

  metrics::Metrics metrics_;
  CountingTokenizer* tokenizer_;
  std::unique_ptr<engine::EncoderEngine> engine_;
  EncodePlan plan_;
  TokenCache off_{0, std::chrono::seconds(0), nullptr, &metrics_};
};

TEST_F(TokenizedOnceTest, TheQueryOfARerankRequest) {
  const std::string query = "t5 t6";
  AddItem(query, "t7");
  AddItem(query, "t8");
  AddItem(query, "t9");
  EXPECT_EQ(Asked(&off_), (std::vector<std::string>{"t5 t6", "t7", "t8", "t9"}));
}

TEST_F(TokenizedOnceTest, ThePrompt) {
  plan_.prompt = "find this: ";
  AddItem("t7");
  AddItem("t8");
  // Once for its length, which pooling leaves out; once for the texts.
  EXPECT_EQ(Asked(&off_), (std::vector<std::string>{"find this: ", "find this:", " t7", " t8"}));
}

TEST_F(TokenizedOnceTest, TextsThatComeAgain) {
  TokenCache cache(1 << 20, std::chrono::seconds(0), nullptr, &metrics_);
  const std::string text = "t5 " + std::string(TokenCache::kTextBytesMin, 'x'), tiny = "t5";
  AddItem(text, text);
  AddItem(tiny, text);
  EXPECT_EQ(Asked(&cache), (std::vector<std::string>{text, tiny}));
  EXPECT_EQ(Asked(&cache), (std::vector<std::string>{tiny}));
  cache.Clear();
  EXPECT_EQ(Asked(&cache), (std::vector<std::string>{text, tiny}));
  EXPECT_EQ(Asked(&off_).size(), 4u);
}

}  // namespace
}  // namespace penstock::encode
