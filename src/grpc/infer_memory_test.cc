// What messages take of the heap, beside what is counted of them before they are parsed.
#include <google/protobuf/descriptor.h>
#include <grpc/inference.pb.h>
#include <grpc/tei.pb.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/failing_new.h"
#include "grpc/infer_request.h"
#include "grpc/proto_message.h"

namespace penstock::grpc {
namespace {

using inference::ModelInferRequest;

constexpr size_t kShapeBytes = 600'000;

std::string Repeated(std::string_view piece) {
  std::string text;
  while (text.size() < kShapeBytes) text.append(piece);
  return text;
}

// A field whose value is bytes.
std::string Field(int number, std::string_view value) {
  std::string text;
  for (uint64_t rest : {static_cast<uint64_t>(number << 3 | 2), uint64_t{value.size()}}) {
    for (; rest >= 0x80; rest >>= 7) text += static_cast<char>(rest | 0x80);
    text += static_cast<char>(rest);
  }
  return text.append(value);
}

// An input whose contents are these bytes.
std::string Contents(std::string_view contents) { return Field(5, Field(5, contents)); }

std::string Made(const std::function<void(ModelInferRequest*)>& make) {
  ModelInferRequest message;
  make(&message);
  return message.SerializeAsString();
}

std::vector<std::pair<std::string, std::string>> InferShapes() {
  using std::string_view_literals::operator""sv;
  std::vector<std::pair<std::string, std::string>> shapes = {
      {"no texts in BYTES", Contents(Repeated("\x42\x00"sv))},
      {"short texts in BYTES", Contents(Repeated("\x42\x03"
                                                 "abc"))},
      {"texts of 16 in BYTES", Contents(Repeated(Field(8, std::string(16, 'x'))))},
      {"texts of 100 in BYTES", Contents(Repeated(Field(8, std::string(100, 'x'))))},
      {"one text in BYTES", Contents(Field(8, std::string(kShapeBytes, 'x')))},
      {"packed bools", Contents(Field(1, Repeated("\x01")))},
      {"packed ints", Contents(Field(2, Repeated("\x01")))},
      {"packed longs", Contents(Field(3, Repeated("\x01")))},
      {"packed doubles", Contents(Field(7, std::string(kShapeBytes, '\x01')))},
      {"packed parts of one long", Contents(Repeated(Field(3, "\x01")))},
      {"longs one by one", Contents(Repeated("\x18\x01"))},
      {"doubles one by one", Contents(Repeated("\x39\x01\x01\x01\x01\x01\x01\x01\x01"))},
      {"contents again and again", Field(5, Repeated("\x2a\x00"sv))},
      {"unknown texts", Repeated("\x7a\x00"sv)},
      {"unknown numbers", Repeated("\x78\x01")},
      {"unknown texts in contents", Contents(Repeated("\x7a\x00"sv))},
      {"unknown numbers in an input", Field(5, Repeated("\x78\x01"))},
      {"packed sizes", Field(5, Field(3, Repeated("\x01")))},
      {"sizes one by one", Field(5, Repeated("\x18\x01"))},
      {"a name again and again", Repeated(Field(1, std::string(40, 'n')))},
      {"raw contents", Repeated(Field(7, std::string(1000, 'r')))},
  };
  shapes.emplace_back("inputs", Made([](ModelInferRequest* message) {
                        for (int i = 0; i < 1024; ++i) {
                          auto* const input = message->add_inputs();
                          input->set_name("input number " + std::to_string(i));
                          input->set_datatype("INT64");
                          input->add_shape(1);
                          input->mutable_contents()->add_int64_contents(i);
                          message->add_outputs()->set_name("an output's name " + std::to_string(i));
                        }
                      }));
  shapes.emplace_back("small inputs", Made([](ModelInferRequest* message) {
                        for (int i = 0; i < 1024; ++i) message->add_inputs();
                      }));
  shapes.emplace_back("parameters", Made([](ModelInferRequest* message) {
                        for (int i = 0; i < 1024; ++i) {
                          auto& one = (*message->mutable_parameters())["p" + std::to_string(i)];
                          one.set_string_param("a text that is not short");
                        }
                      }));
  shapes.emplace_back("parameters of inputs", Made([](ModelInferRequest* message) {
                        for (int i = 0; i < 1024; ++i) {
                          (*message->add_inputs()->mutable_parameters())[""].set_bool_param(true);
                        }
                      }));
  return shapes;
}

// The bytes are counted as they arrive.
Status ReadWithin(int64_t budget_bytes, const std::string& bytes) {
  const auto budget = std::make_shared<ByteBudget>(budget_bytes);
  RequestMemory memory(budget, Priority::kInteractive);
  PENSTOCK_RETURN_IF_ERROR(memory.Take(static_cast<int64_t>(bytes.size())));
  InferRequest request;
  return request.Read(bytes, &memory);
}

template <typename Message>
Status ParseWithin(int64_t budget_bytes, const std::string& bytes) {
  const auto budget = std::make_shared<ByteBudget>(budget_bytes);
  RequestMemory memory(budget, Priority::kInteractive);
  PENSTOCK_RETURN_IF_ERROR(memory.Take(static_cast<int64_t>(bytes.size())));
  const std::string arrived = bytes;
  Message message;
  int64_t counted = 0;
  return ParseMessage(arrived, &memory, &message, &counted);
}

// A budget in which what the heap holds does not fit by a quarter must not be enough.
template <typename Parse>
void ExpectCounted(const std::string& name, const std::string& bytes, Parse parse) {
  const LiveBytes live;
  const Status parsed = parse(int64_t{1} << 40, bytes);
  ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.ToString();
  const auto most = static_cast<int64_t>(static_cast<double>(live.peak()) / 1.25);
  EXPECT_EQ(parse(most, bytes).code(), StatusCode::kPayloadTooLarge)
      << name << " of " << bytes.size() << " bytes holds " << live.peak()
      << " bytes within a budget of " << most;
}

TEST(MessageMemory, OfInferRequestsIsCountedInEveryShape) {
  (void)ReadWithin(1 << 20, Made([](ModelInferRequest* m) { m->add_inputs(); })).ok();  // tables
  const auto shapes = InferShapes();
  EXPECT_EQ(shapes.size(), 25u);
  for (const auto& [name, bytes] : shapes) ExpectCounted(name, bytes, ReadWithin);
}

TEST(MessageMemory, OfOtherMessagesIsCountedInEveryShape) {
  using std::string_view_literals::operator""sv;
  using tei::v1::DecodeRequest;
  using tei::v1::EmbedRequest;
  using tei::v1::RerankRequest;
  ExpectCounted("no texts", Repeated("\x12\x00"sv), ParseWithin<RerankRequest>);
  ExpectCounted("texts", Repeated("\x12\x05hello"), ParseWithin<RerankRequest>);
  ExpectCounted("packed ids", Field(1, Repeated("\x01")), ParseWithin<DecodeRequest>);
  ExpectCounted("ids one by one", Repeated("\x08\x01"), ParseWithin<DecodeRequest>);
  ExpectCounted("unknown texts", Repeated("\x7a\x00"sv), ParseWithin<EmbedRequest>);
  ExpectCounted("unknown numbers", Repeated("\x78\x01"), ParseWithin<EmbedRequest>);
  ExpectCounted("a text in the place of a number", Field(3, std::string(kShapeBytes, '\xff')),
                ParseWithin<RerankRequest>);
  // Maps of messages: entries of keys of their own, of one key, and without a key.
  inference::RepositoryModelLoadRequest maps;
  for (int i = 0; i < 20'000; ++i) {
    (*maps.mutable_parameters())[std::to_string(i)].set_string_param("a text that is not short");
  }
  const auto load = ParseWithin<inference::RepositoryModelLoadRequest>;
  ExpectCounted("a map", maps.SerializeAsString(), load);
  ExpectCounted("a map of one key", Repeated(Field(3, "\x0a\x01k\x12\x02\x08\x01")), load);
  ExpectCounted("a map of nothing", Repeated("\x1a\x00"sv), load);
  // What an entry of it has that is not known, one in the other.
  std::string deep = Repeated("\x7a\x00"sv);
  for (int level = 0; level < 3; ++level) deep = Field(level == 0 ? 2 : 15, deep);
  ExpectCounted("a deep entry", Field(3, deep), load);
  ExpectCounted("a deep value", Field(3, Field(2, Repeated("\x78\x01"))), load);
}

}  // namespace
}  // namespace penstock::grpc
