#include "grpc/proto_message.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/inference.pb.h>
#include <grpc/tei.pb.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace penstock::grpc {
namespace {

using google::protobuf::Message;
using testing::HasSubstr;

std::optional<int64_t> Cost(const std::string& bytes, const Message& type) {
  return MessageCost(std::as_bytes(std::span(bytes)), *type.GetDescriptor());
}

// As much as protobuf itself says, and no less.
void ExpectCovers(const std::string& bytes, Message* message) {
  const auto empty = static_cast<int64_t>(message->SpaceUsedLong());
  ASSERT_TRUE(message->ParseFromString(bytes));
  const auto cost = Cost(bytes, *message);
  ASSERT_TRUE(cost);
  EXPECT_GE(*cost + empty, static_cast<int64_t>(message->SpaceUsedLong()));
}

TEST(MessageCost, CoversWhatMessagesTake) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "with this sanitizer the headers of protobuf lay maps out as its library does not";
#endif
  tei::v1::RerankRequest texts;
  texts.set_query(std::string(1000, 'q'));
  for (int i = 0; i < 10'000; ++i) texts.add_texts("");
  tei::v1::RerankRequest parsed_texts;
  ExpectCovers(texts.SerializeAsString(), &parsed_texts);
  tei::v1::DecodeRequest ids;
  for (int i = 0; i < 10'000; ++i) ids.add_ids(static_cast<uint32_t>(i % 3));
  tei::v1::DecodeRequest parsed_ids;
  ExpectCovers(ids.SerializeAsString(), &parsed_ids);
  inference::RepositoryModelLoadRequest maps;
  for (int i = 0; i < 1000; ++i) {
    (*maps.mutable_parameters())[std::to_string(i)].set_bool_param(true);
  }
  inference::RepositoryModelLoadRequest parsed_maps;
  ExpectCovers(maps.SerializeAsString(), &parsed_maps);
  std::string unknown;
  for (int i = 0; i < 10'000; ++i) unknown += std::string("\x7a\x00\x78\x01", 4);
  tei::v1::InfoRequest parsed_unknown;
  ExpectCovers(unknown, &parsed_unknown);
  EXPECT_GT(*Cost(unknown, parsed_unknown), 20 * static_cast<int64_t>(unknown.size()));
}

TEST(ParseMessage, TakesMemoryFirst) {
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  RequestMemory memory(budget, Priority::kInteractive);
  tei::v1::EmbedRequest small;
  small.set_inputs("a text");
  tei::v1::EmbedRequest message;
  int64_t counted = 0;
  ASSERT_TRUE(ParseMessage(small.SerializeAsString(), &memory, &message, &counted).ok());
  EXPECT_EQ(message.inputs(), "a text");
  EXPECT_EQ(counted, 0);
  tei::v1::EmbedRequest large;
  large.set_inputs(std::string(200'000, 'x'));
  ASSERT_TRUE(ParseMessage(large.SerializeAsString(), &memory, &message, &counted).ok());
  EXPECT_GT(counted, 200'000);
  EXPECT_EQ(memory.held(), counted);
  std::string unknown;
  for (int i = 0; i < 100'000; ++i) unknown += std::string("\x7a\x00", 2);
  tei::v1::EmbedRequest bomb;
  EXPECT_FALSE(ParseMessage(unknown, &memory, &bomb, &counted).ok());
  EXPECT_LT(bomb.SpaceUsedLong(), 1000U);
}

TEST(ParseMessage, WhatIsNoMessageIsRefusedByName) {
  const google::protobuf::LogSilencer silent;
  tei::v1::EmbedRequest message;
  int64_t counted = 0;
  const Status status = ParseMessage("\xff\xff", nullptr, &message, &counted);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no tei.v1.EmbedRequest"));
  // Not UTF-8.
  EXPECT_FALSE(ParseMessage("\x0a\x01\xff", nullptr, &message, &counted).ok());
}

// What is let through is what protobuf reads, within its cost.
TEST(ParseMessage, AgreesWithTheLibrary) {
  const google::protobuf::LogSilencer silent;
  inference::ModelMetadataResponse message;  // messages in messages, packed numbers
  for (int i = 0; i < 3; ++i) {
    auto* const input = message.add_inputs();
    input->set_name("name");
    for (int size = 0; size < 4; ++size) input->add_shape(size * 1000);
    message.add_versions(std::to_string(i));
  }
  const std::string whole = message.SerializeAsString();
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole.substr(0, random() % (whole.size() + 1));
    for (int change = static_cast<int>(random() % 4); change > 0 && !bytes.empty(); --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    inference::ModelMetadataResponse expected, parsed;
    const bool valid = expected.ParseFromString(bytes);
    int64_t counted = 0;
    const Status status = ParseMessage(bytes, nullptr, &parsed, &counted);
    if (!status.ok()) continue;  // groups too, which proto3 has not
    ASSERT_TRUE(valid);
    ASSERT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
    ASSERT_GE(*Cost(bytes, parsed),
              static_cast<int64_t>(parsed.SpaceUsedLong() -
                                   inference::ModelMetadataResponse().SpaceUsedLong()));
  }
}

TEST(PrintMessage, IsBounded) {
  tei::v1::DecodeResponse message;
  message.set_text(std::string(100, 'x'));
  const auto printed = PrintMessage(message, 102);
  ASSERT_TRUE(printed.ok());
  EXPECT_EQ(printed->view(), message.SerializeAsString());
  const auto refused = PrintMessage(message, 101);
  EXPECT_EQ(refused.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(refused.status().message(), HasSubstr("--max-response-bytes"));
}

}  // namespace
}  // namespace penstock::grpc
