#include "dialects/kserve/kserve_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::dialects {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// `body` outlives what is returned.
Expected<KserveRequest> Parse(const std::string& body, size_t json_bytes = 0) {
  static const api::SharedMemory none(0);
  return ParseKserveRequest(body, json_bytes == 0 ? body.size() : json_bytes, none, nullptr);
}

std::string ErrorOf(const std::string& body) {
  const auto parsed = Parse(body);
  return parsed.ok() ? "" : parsed.status().ToString();
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(KserveRequest, JsonAlone) {
  const std::string body = R"({"id":"42","inputs":[
    {"name":"a","shape":[1,2],"datatype":"UINT8","data":[65,66]},
    {"name":"b","shape":[1],"datatype":"BYTES","data":["xyz"],"parameters":{"content_type":"str"}}
  ],"outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],
  "parameters":{"priority":2,"timeout":1000,"unknown":"x"},"other":[1]})";
  const auto parsed = Parse(body);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->id, "42");
  EXPECT_EQ(parsed->parameters.priority, 2);
  EXPECT_EQ(parsed->parameters.timeout_us, 1000);
  ASSERT_EQ(parsed->inputs.size(), 2u);
  EXPECT_EQ(parsed->inputs[0].name, "a");
  EXPECT_EQ(parsed->inputs[0].type, signature::ElementType::kUint8);
  EXPECT_THAT(parsed->inputs[0].shape, ElementsAre(1, 2));
  EXPECT_EQ(Text(parsed->inputs[0].bytes), "AB");
  EXPECT_EQ(Text(parsed->inputs[1].bytes), std::string("\3\0\0\0xyz", 7));
  ASSERT_EQ(parsed->outputs.size(), 2u);
  EXPECT_EQ(parsed->outputs[1].name, "z");
  EXPECT_TRUE(parsed->FormOf(0).binary);
  EXPECT_FALSE(parsed->FormOf(1).binary);
}

TEST(KserveRequest, BinaryDataAreReadInPlaceInTheOrderOfTheInputs) {
  const std::string json = R"({"inputs":[
    {"name":"a","shape":[4],"datatype":"UINT8","parameters":{"binary_data_size":4}},
    {"name":"b","shape":[1],"datatype":"UINT8","data":[66]},
    {"name":"c","shape":[0],"datatype":"FP32","parameters":{"binary_data_size":0}},
    {"name":"d","shape":[3],"datatype":"INT8","parameters":{"binary_data_size":3}}],
    "parameters":{"binary_data_output":true}})";
  const std::string body = json + "aaaaddd";
  const auto parsed = Parse(body, json.size());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(Text(parsed->inputs[0].bytes), "aaaa");
  EXPECT_EQ(static_cast<const void*>(parsed->inputs[0].bytes.data()), body.data() + json.size());
  EXPECT_EQ(Text(parsed->inputs[1].bytes), "B");
  EXPECT_TRUE(parsed->inputs[2].bytes.empty());
  EXPECT_EQ(Text(parsed->inputs[3].bytes), "ddd");
  EXPECT_TRUE(parsed->outputs.empty());
  EXPECT_TRUE(parsed->FormOf(5).binary);
}

TEST(KserveRequest, SizesOfBinaryDataMustSumUp) {
  const auto with = [](const std::string& size, const std::string& data) {
    const std::string json =
        R"({"inputs":[{"name":"a","shape":[4],"datatype":"UINT8","parameters":{"binary_data_size":)" +
        size + "}}]}";
    const std::string body = json + data;
    return Parse(body, json.size()).status().ToString();
  };
  EXPECT_EQ(with("4", "abcd"), "ok");
  EXPECT_THAT(with("4", "abc"), HasSubstr("only 3 bytes are left"));
  EXPECT_THAT(with("4", "abcde"), HasSubstr("1 bytes of the body"));
  EXPECT_THAT(with("9223372036854775807", "abcd"), HasSubstr("only 4 bytes are left"));
  EXPECT_THAT(with("9223372036854775808", "abcd"), HasSubstr("binary_data_size"));
  EXPECT_THAT(with("-1", "abcd"), HasSubstr("binary_data_size"));
  EXPECT_THAT(with("true", "abcd"), HasSubstr("binary_data_size"));
}

TEST(KserveRequest, TheHeaderSaysHowMuchIsJson) {
  EXPECT_EQ(*KserveJsonBytes("", 10), 10u);
  EXPECT_EQ(*KserveJsonBytes("7", 10), 7u);
  EXPECT_EQ(*KserveJsonBytes("10", 10), 10u);
  for (const char* wrong : {"11", "-1", "1.5", "a", "7 ", "99999999999999999999"}) {
    EXPECT_EQ(KserveJsonBytes(wrong, 10).code(), StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(KserveJsonBytes("0", 10).code(), StatusCode::kUnsupported);
}

TEST(KserveRequest, ErrorsNameTheTensor) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({})", "'inputs'"},
      {R"({"inputs":{}})", "'inputs'"},
      {R"({"inputs":[1]})", "inputs[0]: it must be an object"},
      {R"({"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]})", "inputs[0]: 'name'"},
      {R"({"inputs":[{"name":"","shape":[1],"datatype":"FP32","data":[1]}]})", "'name'"},
      {R"({"inputs":[{"name":"a","datatype":"FP32","data":[1]}]})", "inputs[0]: 'shape'"},
      {R"({"inputs":[{"name":"a","shape":[-1],"datatype":"FP32","data":[1]}]})", "'shape'"},
      {R"({"inputs":[{"name":"a","shape":1,"datatype":"FP32","data":[1]}]})", "'shape'"},
      {R"({"inputs":[{"name":"a","shape":[1.5],"datatype":"FP32","data":[1]}]})", "'shape'"},
      {R"({"inputs":[{"name":"a","shape":[1],"data":[1]}]})", "'datatype'"},
      {R"({"inputs":[{"name":"a","shape":[1],"datatype":"fp32","data":[1]}]})", "\"fp32\""},
      {R"({"inputs":[{"name":"a","shape":[1],"datatype":"FP32"}]})", "none are given"},
      {R"({"inputs":[{"name":"a","shape":[1],"datatype":"FP32","data":[1],
           "parameters":{"binary_data_size":4}}]})",
       "several are given"},
      {R"({"inputs":[{"name":"a","name":"b","shape":[1],"datatype":"FP32","data":[1]}]})",
       "'name' is given twice"},
      {R"({"inputs":[],"inputs":[]})", "'inputs' is given twice"},
      {R"({"inputs":[],"id":7})", "'id'"},
      {R"({"inputs":[],"parameters":[]})", "'parameters'"},
      {R"({"inputs":[],"parameters":{"a":{}}})", "'a'"},
      {R"({"inputs":[],"parameters":{"a":1,"a":2}})", "each once"},
      {R"({"inputs":[],"parameters":{"sequence_id":5}})", "'sequence_id'"},
      {R"({"inputs":[],"parameters":{"timeout":18446744073709551615}})", "'timeout'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":3}}]})",
       "outputs[0]: the parameter 'classification'"},
      {R"({"inputs":[{"name":"a","shape":[1],"datatype":"FP32",
           "parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]})",
       "inputs[0]: no shared memory region 'r'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}]})",
       "outputs[0]: no shared memory region 'r'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":
           {"shared_memory_region":"r","binary_data":true}}]})",
       "exclude each other"},
      {"", "no body"},
      {"[]", "object"},
  };
  for (const auto& [body, error] : cases) EXPECT_THAT(ErrorOf(body), HasSubstr(error)) << body;
}

TEST(KserveRequest, NumbersOfTensorsAndDimensionsAreBounded) {
  std::string tensors;
  for (size_t i = 0; i <= kRequestTensorsMax; ++i) {
    tensors += fmt::format(R"(,{{"name":"{}"}})", i);
  }
  EXPECT_THAT(ErrorOf(R"({"inputs":[],"outputs":[)" + tensors.substr(1) + "]}"),
              HasSubstr("more than 1024 tensors"));
  std::string ones;
  for (size_t i = 0; i <= kRequestDimensionsMax; ++i) ones += ",1";
  EXPECT_THAT(ErrorOf(R"({"inputs":[{"name":"a","datatype":"FP32","data":[1],"shape":[)" +
                      ones.substr(1) + "]}]}"),
              HasSubstr("at most 64"));
}

}  // namespace
}  // namespace penstock::dialects
