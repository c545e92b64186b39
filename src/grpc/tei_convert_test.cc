#include "grpc/tei_convert.h"

#include <gtest/gtest.h>

#include "api/names.h"
#include "common/request_context.h"

namespace penstock {
namespace {

namespace wire = tei::v1;

TEST(TeiConvert, EmbedHasTheDefaultsOfTei) {
  wire::EmbedRequest message;
  message.set_inputs("a text");
  const auto plain = FromTei(message);
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  ASSERT_EQ(plain->inputs.size(), 1u);
  EXPECT_EQ(plain->inputs[0].text, "a text");
  EXPECT_TRUE(plain->inputs[0].single);
  EXPECT_EQ(plain->normalize, true);
  EXPECT_EQ(plain->text.truncate, false);
  EXPECT_EQ(plain->text.side, TruncationSide::kRight);
  EXPECT_FALSE(plain->text.prompt_name);
  EXPECT_FALSE(plain->dimensions);
}

TEST(TeiConvert, EmbedTakesEveryField) {
  wire::EmbedRequest message;
  message.set_inputs("x");
  message.set_truncate(true);
  message.set_normalize(false);
  message.set_truncation_direction(wire::TRUNCATION_DIRECTION_LEFT);
  message.set_prompt_name("query");
  message.set_dimensions(8);
  const auto request = FromTei(message);
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->normalize, false);
  EXPECT_EQ(request->text.truncate, true);
  EXPECT_EQ(request->text.side, TruncationSide::kLeft);
  EXPECT_EQ(request->text.prompt_name, "query");
  EXPECT_EQ(request->dimensions, 8);
}

TEST(TeiConvert, ValuesThatNativeTypesCannotHoldAreRefusedByName) {
  wire::EmbedRequest embed;
  embed.set_dimensions(4294967295u);
  EXPECT_EQ(FromTei(embed).status().field(), "dimensions");
  embed.clear_dimensions();
  // proto3 enums are open: any number comes through.
  embed.set_truncation_direction(static_cast<wire::TruncationDirection>(7));
  EXPECT_EQ(FromTei(embed).status().message(),
            "'truncation_direction' must be 0 (right) or 1 (left), is 7");
  embed.set_truncation_direction(wire::TRUNCATION_DIRECTION_RIGHT);
  embed.set_prompt_name(std::string(kNameBytesMax + 1, 'p'));
  EXPECT_EQ(FromTei(embed).status().field(), "prompt_name");
  wire::EncodeRequest encode;
  encode.set_prompt_name(std::string("a\0b", 3));
  EXPECT_EQ(FromTei(encode).status().field(), "prompt_name");
  wire::DecodeRequest decode;
  decode.add_ids(2147483647u);
  ASSERT_TRUE(FromTei(decode).ok());
  decode.add_ids(2147483648u);
  EXPECT_EQ(FromTei(decode).status().field(), "ids[1]");
}

TEST(TeiConvert, Predict) {
  wire::PredictRequest one;
  one.set_inputs("a");
  one.set_raw_scores(true);
  const auto single = FromTei(one);
  ASSERT_TRUE(single.ok());
  ASSERT_EQ(single->inputs.size(), 1u);
  EXPECT_EQ(single->inputs[0].first, "a");
  EXPECT_FALSE(single->inputs[0].second);
  EXPECT_TRUE(single->raw_scores);
  wire::PredictPairRequest pair;
  EXPECT_EQ(FromTei(pair).status().field(), "inputs");
  pair.add_inputs("a");
  EXPECT_FALSE(FromTei(pair)->inputs[0].second);
  pair.add_inputs("b");
  EXPECT_EQ(FromTei(pair)->inputs[0].second, "b");
  pair.add_inputs("c");
  EXPECT_EQ(FromTei(pair).status().field(), "inputs");
}

TEST(TeiConvert, Rerank) {
  wire::RerankRequest message;
  message.set_query("q");
  message.add_texts("one");
  message.add_texts("two");
  const auto request = FromTei(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->query, "q");
  EXPECT_EQ(request->documents, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(request->raw_scores, false);
  EXPECT_FALSE(request->top_n);
  wire::RerankStreamRequest one;
  one.set_query("q");
  one.set_text("one");
  one.set_raw_scores(true);
  EXPECT_EQ(FromTei(one)->documents, (std::vector<std::string>{"one"}));
  EXPECT_EQ(FromTei(one)->raw_scores, true);

  RerankResponse response;
  response.items = {{1, 0.5f}, {0, 0.25f}};
  wire::RerankResponse plain;
  ToTei(response, message, &plain);
  ASSERT_EQ(plain.ranks_size(), 2);
  EXPECT_EQ(plain.ranks(0).index(), 1u);
  EXPECT_EQ(plain.ranks(0).score(), 0.5f);
  EXPECT_FALSE(plain.ranks(0).has_text());
  message.set_return_text(true);
  wire::RerankResponse with_text;
  ToTei(response, message, &with_text);
  EXPECT_EQ(with_text.ranks(0).text(), "two");
  EXPECT_EQ(with_text.ranks(1).text(), "one");
}

TEST(TeiConvert, Embeddings) {
  EmbedResponse response;
  response.dimensions = 2;
  response.values = {1.5f, -2.0f};
  wire::EmbedResponse message;
  ToTei(response, &message);
  EXPECT_EQ(std::vector<float>(message.embeddings().begin(), message.embeddings().end()),
            response.values);
  EmbedAllResponse all;
  all.dimensions = 2;
  all.token_counts = {2};
  all.values = {1, 2, 3, 4};
  wire::EmbedAllResponse tokens;
  ToTei(all, &tokens);
  ASSERT_EQ(tokens.token_embeddings_size(), 2);
  EXPECT_EQ(tokens.token_embeddings(1).embeddings(0), 3.0f);
  all.token_counts = {0};
  all.values.clear();
  wire::EmbedAllResponse none;
  ToTei(all, &none);
  EXPECT_EQ(none.token_embeddings_size(), 0);
}

TEST(TeiConvert, PredictionsAndTokens) {
  ClassifyResponse scores;
  scores.labels = {"no", "yes"};
  scores.inputs = {{{1, 0.75f}, {0, 0.25f}}};
  wire::PredictResponse predictions;
  ToTei(scores, &predictions);
  ASSERT_EQ(predictions.predictions_size(), 2);
  EXPECT_EQ(predictions.predictions(0).label(), "yes");
  EXPECT_EQ(predictions.predictions(0).score(), 0.75f);

  TokenizeResponse tokens;
  tokens.inputs = {{{101, "[CLS]", true, {0, 0}}, {7, "word", false, {0, 4}}}};
  wire::EncodeResponse encoded;
  ToTei(tokens, &encoded);
  ASSERT_EQ(encoded.tokens_size(), 2);
  EXPECT_TRUE(encoded.tokens(0).special());
  EXPECT_FALSE(encoded.tokens(0).has_start());
  EXPECT_EQ(encoded.tokens(1).text(), "word");
  EXPECT_TRUE(encoded.tokens(1).has_start());
  EXPECT_EQ(encoded.tokens(1).stop(), 4u);

  DecodeResponse texts;
  texts.texts = {"word"};
  wire::DecodeResponse decoded;
  ToTei(texts, &decoded);
  EXPECT_EQ(decoded.text(), "word");
}

TEST(TeiConvert, Info) {
  ModelInfo model;
  model.name = "m";
  model.task = "reranking";
  model.dtype = "bfloat16";
  model.max_tokens = 512;
  model.max_batch_tokens = 4096;
  ServiceOptions limits;
  limits.tokenization_workers = 2;
  const auto info = TeiInfo(model, limits);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->model_type(), wire::MODEL_TYPE_RERANKER);
  EXPECT_EQ(info->model_id(), "m");
  EXPECT_FALSE(info->has_model_sha());
  EXPECT_EQ(info->max_input_length(), 512u);
  EXPECT_EQ(info->max_batch_tokens(), 4096u);
  EXPECT_FALSE(info->has_max_batch_requests());
  EXPECT_EQ(info->max_client_batch_size(), 2048u);
  EXPECT_EQ(info->tokenization_workers(), 2u);
  model.revision = "abc";
  EXPECT_EQ(TeiInfo(model, limits)->model_sha(), "abc");
  // MODEL_TYPE_EMBEDDING is 0, so what is not known must not pass for it.
  model.task = "";
  EXPECT_EQ(TeiInfo(model, limits).code(), StatusCode::kUnavailable);
  model.task = kGenerationTask;
  EXPECT_EQ(TeiInfo(model, limits).code(), StatusCode::kUnprocessable);
}

TEST(TeiConvert, CharsAreCodePoints) {
  wire::EmbedRequest embed;
  embed.set_inputs("a\u00e9\u4f60\U0001F600");
  EXPECT_EQ(TeiChars(embed), 4);
  wire::RerankRequest rerank;
  rerank.set_query("q\u00fc");
  rerank.add_texts("abc");
  rerank.add_texts("d");
  EXPECT_EQ(TeiChars(rerank), 2 * 2 + 3 + 1);
  wire::PredictPairRequest pair;
  pair.add_inputs("ab");
  pair.add_inputs("c");
  EXPECT_EQ(TeiChars(pair), 3);
}

TEST(TeiConvert, MetadataTellsTheStages) {
  using std::chrono::nanoseconds;
  const Clock::time_point begin = Clock::now() - std::chrono::seconds(1);
  RequestTrace trace(begin);
  trace.Enter(Stage::kTokenize, begin + nanoseconds(10));
  trace.Enter(Stage::kQueue, begin + nanoseconds(30));
  trace.Batched(begin + nanoseconds(60), begin + nanoseconds(70), begin + nanoseconds(110), true);
  wire::Metadata metadata;
  ToTei(TeiWorkOf(5, 3, &trace), &metadata);
  EXPECT_EQ(metadata.compute_chars(), 5u);
  EXPECT_EQ(metadata.compute_tokens(), 3u);
  EXPECT_EQ(metadata.tokenization_time_ns(), 20u);
  EXPECT_EQ(metadata.queue_time_ns(), 30u);
  EXPECT_EQ(metadata.inference_time_ns(), 50u);
  EXPECT_GE(metadata.total_time_ns(), 1'000'000'000u);
  wire::Metadata bare;
  ToTei(TeiWorkOf(int64_t{1} << 40, 0, nullptr), &bare);
  EXPECT_EQ(bare.compute_chars(), 4294967295u);
  EXPECT_EQ(bare.total_time_ns(), 0u);
}

}  // namespace
}  // namespace penstock
