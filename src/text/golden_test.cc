// Checks the tokenizers against tests/golden/tokenizers/, which tools/make_tokenizer_goldens.py
// makes (its head describes the files): ids, type ids, masks, offsets, truncation, decoding.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace penstock::text {
namespace {

using simdjson::dom::element;

std::vector<std::string> GoldenNames() {
  const std::string ending = ".cases.json";
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(PENSTOCK_GOLDEN_DIR "/tokenizers", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) names.insert(name.substr(0, name.size() - ending.size()));
  }
  return {names.begin(), names.end()};
}

// A text, or {"hex": ...} where the bytes are not UTF-8.
std::string Text(const element& value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  const std::string hex(value["hex"].get_string().value());
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<int32_t> Numbers(const element& value) {
  std::vector<int32_t> numbers;
  for (element number : value.get_array()) {
    numbers.push_back(static_cast<int32_t>(number.get_int64().value()));
  }
  return numbers;
}

std::optional<std::string> Member(const element& from, const char* name) {
  element value;
  if (from[name].get(value) != simdjson::SUCCESS) return std::nullopt;
  return Text(value);
}

EncodeOptions Options(const element& json) {
  EncodeOptions options;
  bool flag = false;
  if (json["special"].get(flag) == simdjson::SUCCESS) options.add_special_tokens = flag;
  if (json["left"].get(flag) == simdjson::SUCCESS && flag) options.side = TruncationSide::kLeft;
  int64_t limit = 0;
  if (json["max"].get(limit) == simdjson::SUCCESS) options.max_tokens = static_cast<size_t>(limit);
  const std::string strategy = Member(json, "strategy").value_or("");
  if (strategy == "only_first") options.strategy = TruncationStrategy::kOnlyFirst;
  if (strategy == "only_second") options.strategy = TruncationStrategy::kOnlySecond;
  return options;
}

// One character a token, as the files have it.
template <typename T>
std::string Row(const std::vector<T>& values) {
  std::string row;
  for (T value : values) row += value < 0 ? '-' : static_cast<char>('0' + value);
  return row;
}

std::string StreamAll(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  auto stream = tokenizer.NewStreamDecoder(skip);
  std::string text;
  for (int32_t id : ids) text += stream->Push(id);
  return text + stream->Finish();
}

class TokenizerGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string base = PENSTOCK_GOLDEN_DIR "/tokenizers/" + GetParam();
    auto tokenizer = Tokenizer::FromFile(base + ".tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    tokenizer_ = *std::move(tokenizer);
    ASSERT_EQ(parser_.load(base + ".cases.json").get(golden_), simdjson::SUCCESS);
  }

  void ExpectDecoded(const element& json, const std::vector<int32_t>& ids) {
    const std::string kept = Text(json["decoded"].value());
    const std::string skipped = Member(json, "skipped").value_or(kept);
    EXPECT_EQ(tokenizer_->Decode(ids, false), kept);
    EXPECT_EQ(tokenizer_->Decode(ids, true), skipped);
    // Byte tokens that are not UTF-8 decode differently as a whole and one by one; see
    // StreamDecoder.
    if (kept.find("\xEF\xBF\xBD") == std::string::npos) {
      EXPECT_EQ(StreamAll(*tokenizer_, ids, false), kept);
      EXPECT_EQ(StreamAll(*tokenizer_, ids, true), skipped);
    }
  }

  void ExpectEncoded(const element& json, bool with_offsets) {
    EncodeOptions options = Options(json);
    options.with_offsets = with_offsets;
    const std::string first = Text(json["a"].value());
    const std::optional<std::string> second = Member(json, "b");
    const Status status = second ? tokenizer_->EncodePair(first, *second, options, &encoding_)
                                 : tokenizer_->Encode(first, options, &encoding_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::vector<int32_t> ids = Numbers(json["ids"].value());
    const std::string zeros(ids.size(), '0');
    const std::string mask = Member(json, "mask").value_or(zeros);
    std::string sequences = mask;
    std::replace(sequences.begin(), sequences.end(), '1', '-');
    EXPECT_EQ(encoding_.ids, ids);
    EXPECT_EQ(Row(encoding_.type_ids), Member(json, "types").value_or(zeros));
    EXPECT_EQ(Row(encoding_.special_mask), mask);
    EXPECT_EQ(Row(encoding_.sequence_ids), Member(json, "seq").value_or(sequences));
    std::vector<int32_t> offsets;
    for (const TokenOffset& offset : encoding_.offsets) {
      offsets.push_back(static_cast<int32_t>(offset.begin));
      offsets.push_back(static_cast<int32_t>(offset.end));
    }
    EXPECT_EQ(offsets, with_offsets ? Numbers(json["offsets"].value()) : std::vector<int32_t>());
    int64_t truncated = 0;
    if (json["truncated"].get(truncated) != simdjson::SUCCESS) truncated = 0;
    EXPECT_EQ(encoding_.truncated_tokens, static_cast<size_t>(truncated));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  simdjson::dom::parser parser_;
  element golden_;
  Encoding encoding_;  // reused from case to case, as a server does
};

TEST_P(TokenizerGolden, Encodes) {
  size_t count = 0;
  for (element json : golden_["cases"].get_array()) {
    SCOPED_TRACE(simdjson::minify(json).substr(0, 400));
    ExpectEncoded(json, true);
    ExpectEncoded(json, false);
    ExpectEncoded(json, false);  // its pieces are in the thread's cache now
    ++count;
    if (HasFailure()) break;  // the first says enough
  }
  EXPECT_GE(count, 150u);
}

TEST_P(TokenizerGolden, Decodes) {
  for (const char* list : {"cases", "ids"}) {
    for (element json : golden_[list].get_array()) {
      SCOPED_TRACE(simdjson::minify(json).substr(0, 400));
      ExpectDecoded(json, Numbers(json["ids"].value()));
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, testing::ValuesIn(GoldenNames()),
                         [](const auto& test) { return test.param; });

TEST(TokenizerGoldenFiles, AreThere) { EXPECT_GE(GoldenNames().size(), 20u); }

}  // namespace
}  // namespace penstock::text
