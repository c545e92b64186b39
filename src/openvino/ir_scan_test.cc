#include "openvino/ir_scan.h"

#include <gtest/gtest.h>

#include "openvino/model_files.h"
#include "openvino/openvino_test_util.h"

namespace penstock::openvino {
namespace {

TEST(IrScanTest, OperationsWithAStateAreFoundHoweverTheyAreWritten) {
  for (const char* attribute :
       {R"(type="ReadValue")", "type='ReadValue'", R"(type = "ReadValue")", "type\n=\t'ReadValue'",
        R"(type="&#82;eadValue")", R"(type="&#x52;ead&#0086;alue")", R"(type="&#X52;eadValue")",
        R"(type="&#82eadValue")", R"(type="readvalue")", R"(name="a>b" type='ReadValue')"}) {
    const std::string xml = std::string("<net><layer id=\"2\" ") + attribute + " /></net>";
    EXPECT_EQ(StateOperationOf(xml), "ReadValue") << attribute;
  }
  EXPECT_EQ(StateOperationOf("<layer type='&#65;ssign'>"), "Assign");
  // Behind what looks like the begin of a value.
  EXPECT_EQ(StateOperationOf("<!-- type=\" --><layer type='ReadValue'/>"), "ReadValue");
  EXPECT_EQ(StateOperationOf("<data element_type=\"f32\"/><layer type=\"Assign\"/>"), "Assign");
}

TEST(IrScanTest, OtherOperationsHaveNone) {
  for (const char* xml :
       {"", "type", "type=", "type=\"", "type=\"ReadValue", "<layer name=\"ReadValue\"/>",
        "<layer type=\"ReadValueX\"/>", "<layer type=\"&ReadValue;\"/>", "<layer type=\"\"/>",
        "<layer type=\"&#;ReadValue\"/>", "<layer type=\"&#99999999999;\"/>",
        "<layer type=\"Parameter\"/><data type=\"AssignAdd\"/>"}) {
    EXPECT_EQ(StateOperationOf(xml), "") << xml;
  }
}

TEST(IrScanTest, ModelsWithAStateAreRefused) {
  const TempFolder folder;
  const auto code = [&](const std::string& xml) {
    WriteFile(folder / "model.xml", xml);
    return FindModelFiles(folder / "model.xml").code();
  };
  EXPECT_EQ(code("<net><layer type='ReadValue'/></net>"), StatusCode::kUnsupported);
  EXPECT_EQ(code("<net><layer type='Result'/></net>"), StatusCode::kOk);
  // In UTF-16.
  std::string wide;
  for (const char c : std::string("<net><layer type='ReadValue'/></net>")) wide += {c, '\0'};
  EXPECT_EQ(code(wide), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::openvino
