#include "grpc/tei_convert.h"

#include <gtest/gtest.h>

#include "api/names.h"
#include "threads/request_context.h"

namespace penstock::grpc {
namespace {

namespace wire = tei::v1;

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
  EXPECT_EQ(request->text.side, text::TruncationSide::kLeft);
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
  embed.set_prompt_name(std::string(api::kNameBytesMax + 1, 'p'));
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

TEST(TeiConvert, Info) {
  api::ModelInfo model;
  model.name = "m";
  model.task = "reranking";
  model.dtype = "bfloat16";
  model.max_tokens = 512;
  model.max_batch_tokens = 4096;
  api::ServiceOptions limits;
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
  model.task = api::kGenerationTask;
  EXPECT_EQ(TeiInfo(model, limits).code(), StatusCode::kUnprocessable);
}

TEST(TeiConvert, MetadataTellsTheStages) {
  using std::chrono::nanoseconds;
  const Clock::time_point begin = Clock::now() - std::chrono::seconds(1);
  metrics::RequestTrace trace(begin);
  trace.Enter(metrics::Stage::kTokenize, begin + nanoseconds(10));
  trace.Enter(metrics::Stage::kQueue, begin + nanoseconds(30));
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
}  // namespace penstock::grpc
