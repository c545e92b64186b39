#include "api/infer_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace penstock::api {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using std::string_view_literals::operator""sv;
using testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

TEST(InferRequestParameters, AreReadByName) {
  InferRequestParameters parameters;
  EXPECT_TRUE(parameters.Set({"binary_data_output", true}).ok());
  EXPECT_TRUE(parameters.Set({"priority", int64_t{3}}).ok());
  EXPECT_TRUE(parameters.Set({"timeout", int64_t{1500}}).ok());
  EXPECT_TRUE(parameters.binary_data_output);
  EXPECT_EQ(parameters.priority, 3);
  EXPECT_EQ(parameters.timeout_us, 1500);
}

TEST(InferRequestParameters, WrongValuesAreRefused) {
  InferRequestParameters parameters;
  for (const InferParameter& wrong : {InferParameter{"binary_data_output", int64_t{1}},
                                      {"priority", int64_t{-1}},
                                      {"priority", 1.0},
                                      {"timeout", "1s"sv},
                                      {"timeout", true}}) {
    const Status status = parameters.Set(wrong);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong.name;
    EXPECT_EQ(status.field(), wrong.name);
    EXPECT_THAT(status.message(), HasSubstr("'" + std::string(wrong.name) + "'"));
  }
}

TEST(InferRequestParameters, SequencesAreRefusedUnlessTheyAreNone) {
  InferRequestParameters parameters;
  for (const InferParameter& none : {InferParameter{"sequence_id", int64_t{0}},
                                     {"sequence_id", ""sv},
                                     {"sequence_id", "0"sv},
                                     {"sequence_start", false},
                                     {"sequence_end", int64_t{0}}}) {
    EXPECT_TRUE(parameters.Set(none).ok()) << none.name;
  }
  for (const InferParameter& some : {InferParameter{"sequence_id", int64_t{7}},
                                     {"sequence_id", "a"sv},
                                     {"sequence_start", true},
                                     {"sequence_end", true}}) {
    const Status status = parameters.Set(some);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << some.name;
    EXPECT_THAT(status.message(), HasSubstr(std::string(some.name)));
  }
}

TEST(InferRequestParameters, UnknownNamesAreIgnoredAndReservedOnesRefused) {
  InferRequestParameters parameters;
  EXPECT_TRUE(parameters.Set({"content_type", "np"sv}).ok());
  EXPECT_TRUE(parameters.Set({"temperature", 0.5}).ok());
  const std::string reserved = "triton_" + std::string(10'000, 'x');
  const Status status = parameters.Set({reserved, true});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_LT(status.message().size(), 300u);
}

TEST(InferRequestParameters, APriorityOfTwoAndMoreIsBulk) {
  const auto with = [](int64_t priority, Priority has) {
    InferRequestParameters parameters;
    parameters.priority = priority;
    RequestContext context;
    context.priority = has;
    parameters.ApplyTo(Clock::now(), &context);
    return context.priority;
  };
  EXPECT_EQ(with(0, Priority::kInteractive), Priority::kInteractive);
  EXPECT_EQ(with(1, Priority::kInteractive), Priority::kInteractive);
  EXPECT_EQ(with(2, Priority::kInteractive), Priority::kBulk);
  EXPECT_EQ(with(kInt64Max, Priority::kInteractive), Priority::kBulk);
  EXPECT_EQ(with(1, Priority::kBulk), Priority::kBulk);  // a bulk key stays one
}

TEST(InferRequestParameters, TheTimeoutOnlyShortens) {
  const auto begin = Clock::now();
  InferRequestParameters parameters;
  RequestContext context;
  parameters.ApplyTo(begin, &context);
  EXPECT_EQ(context.deadline, Clock::time_point::max());
  parameters.timeout_us = 1500;
  parameters.ApplyTo(begin, &context);
  EXPECT_EQ(context.deadline, begin + microseconds(1500));
  parameters.timeout_us = kInt64Max;
  parameters.ApplyTo(begin, &context);
  EXPECT_EQ(context.deadline, begin + microseconds(1500));
  context.deadline = Clock::time_point::max();
  parameters.ApplyTo(begin, &context);
  EXPECT_GT(context.deadline, begin + seconds(86400));
}

TEST(InferTensorParameters, AreReadByName) {
  InferInputParameters input;
  EXPECT_FALSE(input.shared_memory.used());
  EXPECT_TRUE(input.Set({"binary_data_size", int64_t{0}}).ok());
  EXPECT_EQ(input.binary_data_size, 0u);
  EXPECT_TRUE(input.Set({"shared_memory_region", "r"sv}).ok());
  EXPECT_TRUE(input.Set({"shared_memory_offset", int64_t{8}}).ok());
  EXPECT_TRUE(input.Set({"shared_memory_byte_size", kInt64Max}).ok());
  EXPECT_TRUE(input.Set({"content_type", "np"sv}).ok());
  EXPECT_TRUE(input.shared_memory.used());
  EXPECT_EQ(input.shared_memory.region, "r");
  EXPECT_EQ(input.shared_memory.offset, 8u);
  EXPECT_EQ(input.shared_memory.bytes, static_cast<uint64_t>(kInt64Max));
  InferOutputParameters output;
  EXPECT_TRUE(output.Set({"classification", int64_t{0}}).ok());
  EXPECT_TRUE(output.Set({"binary_data", false}).ok());
  EXPECT_EQ(output.binary_data, false);
}

TEST(InferTensorParameters, WrongValuesAndClassificationAreRefused) {
  InferInputParameters input;
  for (const InferParameter& wrong : {InferParameter{"binary_data_size", int64_t{-1}},
                                      {"shared_memory_region", ""sv},
                                      {"shared_memory_region", int64_t{1}},
                                      {"shared_memory_offset", int64_t{-1}},
                                      {"shared_memory_byte_size", 1.5}}) {
    EXPECT_EQ(input.Set(wrong).field(), wrong.name);
  }
  InferOutputParameters output;
  EXPECT_EQ(output.Set({"binary_data", "yes"sv}).code(), StatusCode::kInvalidArgument);
  const Status status = output.Set({"classification", int64_t{3}});
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.field(), "classification");
}

}  // namespace
}  // namespace penstock::api
