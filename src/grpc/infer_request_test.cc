#include "grpc/infer_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace penstock::grpc {
namespace {

using testing::HasSubstr;

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inference::ModelInferRequest Message() {
  inference::ModelInferRequest message;
  message.set_model_name("m");
  message.set_id("7");
  (*message.mutable_parameters())["timeout"].set_int64_param(5);
  for (const char* name : {"a", "b"}) {
    auto* const input = message.add_inputs();
    input->set_name(name);
    input->set_datatype("FP32");
    input->add_shape(1);
    message.add_raw_input_contents(std::string(4, *name));
  }
  message.add_outputs()->set_name("y");
  return message;
}

Status Read(const std::string& bytes, InferRequest* request, RequestMemory* memory = nullptr) {
  return request->Read(bytes, memory);
}

TEST(InferRequest, TakesRawContentsAsTheyLie) {
  const std::string bytes = Message().SerializeAsString();
  InferRequest request;
  ASSERT_TRUE(Read(bytes, &request).ok());
  ASSERT_EQ(request.raw().size(), 2U);
  EXPECT_EQ(Text(request.raw()[0]), "aaaa");
  EXPECT_EQ(Text(request.raw()[1]), "bbbb");
  auto expected = Message();
  expected.clear_raw_input_contents();
  EXPECT_EQ(request.head().SerializeAsString(), expected.SerializeAsString());
}

TEST(InferRequest, FieldsMayComeInAnyOrderAndUnknownOnesAreSkipped) {
  // raw "zz", then a message with the name, then field 100 as bytes and as varint, raw "".
  std::string bytes("\x3a\x02zz", 4);
  inference::ModelInferRequest name;
  name.set_model_name("late");
  bytes += name.SerializeAsString();
  bytes += std::string("\xa2\x06\x01x\xa0\x06\x05\x3a\x00", 9);
  InferRequest request;
  ASSERT_TRUE(Read(bytes, &request).ok());
  EXPECT_EQ(request.head().model_name(), "late");
  ASSERT_EQ(request.raw().size(), 2U);
  EXPECT_EQ(Text(request.raw()[0]), "zz");
  EXPECT_EQ(request.raw()[1].size(), 0U);
}

TEST(InferRequest, IsUsedAgain) {
  InferRequest request;
  ASSERT_TRUE(Read(Message().SerializeAsString(), &request).ok());
  request.Clear();
  inference::ModelInferRequest other;
  other.set_model_name("other");
  ASSERT_TRUE(Read(other.SerializeAsString(), &request).ok());
  EXPECT_EQ(request.head().model_name(), "other");
  EXPECT_EQ(request.head().inputs_size(), 0);
  EXPECT_TRUE(request.raw().empty());
}

TEST(InferRequest, RefusesWhatIsNoMessage) {
  InferRequest request;
  const Status status = Read(std::string(11, '\xff'), &request);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is not an inference.ModelInferRequest"));
}

TEST(InferRequest, RefusesTooManyTensors) {
  inference::ModelInferRequest message;
  for (size_t i = 0; i <= InferRequest::kTensorsMax; ++i) message.add_inputs();
  InferRequest request;
  const Status inputs = Read(message.SerializeAsString(), &request);
  EXPECT_EQ(inputs.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(inputs.message(), HasSubstr("1025 inputs; at most 1024"));
  message.clear_inputs();
  for (size_t i = 0; i <= InferRequest::kTensorsMax; ++i) message.add_raw_input_contents("");
  EXPECT_EQ(Read(message.SerializeAsString(), &request).code(), StatusCode::kInvalidArgument);
  message.clear_raw_input_contents();
  auto* const input = message.add_inputs();
  for (size_t i = 0; i <= InferRequest::kParametersMax; ++i) {
    (*input->mutable_parameters())[std::to_string(i)].set_bool_param(true);
  }
  EXPECT_THAT(Read(message.SerializeAsString(), &request).message(), HasSubstr("parameters"));
}

TEST(InferRequest, TakesMemoryBeforeAMessageGrows) {
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  // 100 KB of empty strings would be 1.6 MB of objects.
  inference::ModelInferRequest message;
  auto* const contents = message.add_inputs()->mutable_contents();
  for (int i = 0; i < 50'000; ++i) contents->add_bytes_contents("");
  RequestMemory memory(budget, Priority::kInteractive);
  InferRequest request;
  EXPECT_EQ(Read(message.SerializeAsString(), &request, &memory).code(),
            StatusCode::kPayloadTooLarge);
  EXPECT_EQ(request.head().inputs_size(), 0);
  // A byte may stand for eight.
  inference::ModelInferRequest numbers;
  for (int i = 0; i < 200'000; ++i) numbers.add_inputs()->add_shape(1);
  EXPECT_FALSE(Read(numbers.SerializeAsString(), &request, &memory).ok());
  // Raw contents cost nothing.
  inference::ModelInferRequest raw;
  raw.add_raw_input_contents(std::string(800'000, 'x'));
  EXPECT_TRUE(Read(raw.SerializeAsString(), &request, &memory).ok());
  EXPECT_LT(memory.held(), 10'000);
}

// The views agree with what protoc's own parser says, and nothing is read outside the bytes.
TEST(InferRequest, TakesAndRefusesWhatTheLibraryDoes) {
  const google::protobuf::LogSilencer silent;
  const std::string whole = Message().SerializeAsString();
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole.substr(0, random() % (whole.size() + 1));
    for (int change = static_cast<int>(random() % 4); change > 0 && !bytes.empty(); --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    inference::ModelInferRequest expected;
    const bool valid = expected.ParseFromString(bytes);
    InferRequest request;
    const Status status = Read(bytes, &request);
    // Groups, which proto3 has not, are refused here.
    if (!status.ok()) continue;
    ASSERT_TRUE(valid);
    ASSERT_EQ(request.raw().size(), static_cast<size_t>(expected.raw_input_contents_size()));
    for (size_t i = 0; i < request.raw().size(); ++i) {
      ASSERT_EQ(Text(request.raw()[i]), expected.raw_input_contents(static_cast<int>(i)));
    }
    expected.clear_raw_input_contents();
    ASSERT_EQ(request.head().inputs_size(), expected.inputs_size());
    ASSERT_EQ(request.head().model_name(), expected.model_name());
  }
}

}  // namespace
}  // namespace penstock::grpc
