#include "openvino/onnx_scan.h"

#include <gmock/gmock.h>

#include "openvino/openvino_test_util.h"

namespace penstock::openvino {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A field whose content is bytes.
std::string Field(int number, const std::string& content) {
  std::string out;
  const auto varint = [&](size_t value) {
    for (; value > 0x7f; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  };
  varint(static_cast<size_t>(number) << 3 | 2);
  varint(content.size());
  return out + content;
}

// A model whose only initializer has these entries about its place.
std::string ModelWithEntries(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string tensor;
  for (const auto& [key, value] : entries) tensor += Field(13, Field(1, key) + Field(2, value));
  return Field(7, Field(5, tensor));
}

TEST(OnnxScanTest, NamesOfInputsAndOutputs) {
  const auto scan = ScanOnnx(Bytes(FileText(Golden("two.onnx"))));
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  EXPECT_THAT(scan->inputs, ElementsAre("a", "b"));
  EXPECT_THAT(scan->outputs, ElementsAre("sum", "product"));
  EXPECT_THAT(scan->external, IsEmpty());
}

TEST(OnnxScanTest, AnInputWithAValueIsNone) {
  const std::string graph = Field(11, Field(1, "x")) + Field(11, Field(1, "w")) +
                            Field(5, Field(8, "w")) + Field(12, Field(1, "y"));
  const auto scan = ScanOnnx(Bytes(Field(7, graph)));
  ASSERT_TRUE(scan.ok());
  EXPECT_THAT(scan->inputs, ElementsAre("x"));
}

TEST(OnnxScanTest, ExternalDataOfInitializersAndOfNestedGraphs) {
  const auto scan = ScanOnnx(Bytes(FileText(Golden("external.onnx"))));
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  ASSERT_EQ(scan->external.size(), 1u);
  EXPECT_EQ(scan->external[0].location, "external.data");
  EXPECT_EQ(scan->external[0].offset, 0u);
  EXPECT_EQ(scan->external[0].length, 48u);
  // A node whose attribute is a graph with a node whose attribute is a tensor.
  const std::string tensor = Field(13, Field(1, "location") + Field(2, "deep"));
  const std::string graph = Field(1, Field(5, Field(5, tensor)));
  const auto nested = ScanOnnx(Bytes(Field(7, Field(1, Field(5, Field(6, graph))))));
  ASSERT_TRUE(nested.ok());
  ASSERT_EQ(nested->external.size(), 1u);
  EXPECT_EQ(nested->external[0].location, "deep");
}

TEST(OnnxScanTest, APlaceThatIsNoNumberIsRefused) {
  EXPECT_TRUE(ScanOnnx(Bytes(ModelWithEntries({{"location", "a"}, {"offset", "12"}}))).ok());
  for (const char* value : {"", "-1", "1x", "99999999999999999999"}) {
    const auto scan = ScanOnnx(Bytes(ModelWithEntries({{"location", "a"}, {"offset", value}})));
    EXPECT_EQ(scan.code(), StatusCode::kInvalidArgument) << value;
  }
}

TEST(OnnxScanTest, GraphsNestedTooDeepAreRefused) {
  std::string graph;
  for (size_t i = 0; i < OnnxScan::kDepthMax; ++i) graph = Field(1, Field(5, Field(6, graph)));
  const auto scan = ScanOnnx(Bytes(Field(7, graph)));
  ASSERT_EQ(scan.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(scan.status().message(), HasSubstr("nested too deep"));
}

TEST(OnnxScanTest, CutFilesGiveAnErrorOrLess) {
  const std::string whole = FileText(Golden("external.onnx"));
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    refused += !ScanOnnx(Bytes(whole.substr(0, size))).ok();
  }
  EXPECT_GT(refused, whole.size() / 2);
}

}  // namespace
}  // namespace penstock::openvino
