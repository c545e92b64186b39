#include "families/list.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace penstock::families {
namespace {

std::string InTicks(std::string_view name) {
  return name.empty() ? "-" : '`' + std::string(name) + '`';
}

// docs/MODELS.md, "Families".
TEST(FamilyList, TheDocumentHasTheTable) {
  std::string table;
  const auto row = [&](const std::string& types, std::string_view gguf, std::string_view gives) {
    table += "| " + types + " | " + InTicks(gguf) + " | " + std::string(gives) + " |\n";
  };
  for (const EncoderFamily* family : Families<EncoderFamily>()) {
    const bool head = !family->architecture.head.classifier.empty();
    row(InTicks(family->model_type), family->gguf.name,
        head ? "vectors, scores, classes" : "vectors");
  }
  for (const DecoderFamily* family : Families<DecoderFamily>()) {
    std::string types = InTicks(family->model_type);
    if (!family->type_with_images.empty()) types += ", " + InTicks(family->type_with_images);
    row(types, family->gguf.name, "text, vectors, scores, classes");
  }
  std::stringstream document;
  document << std::ifstream(PENSTOCK_SOURCE_DIR "/docs/MODELS.md").rdbuf();
  EXPECT_NE(document.str().find("|---|---|---|\n" + table + "\n"), std::string::npos)
      << "docs/MODELS.md should have\n"
      << table;
}

TEST(FamilyList, EveryNameIsThereOnce) {
  std::set<std::string_view> types, gguf;
  const auto add = [](std::set<std::string_view>* to, std::string_view name) {
    if (name.empty()) return;
    EXPECT_TRUE(to->insert(name).second) << name;
  };
  for (const EncoderFamily* family : Families<EncoderFamily>()) {
    add(&types, family->model_type);
    add(&gguf, family->gguf.name);
    EXPECT_EQ(EncoderOfModelType(family->model_type), family);
  }
  for (const DecoderFamily* family : Families<DecoderFamily>()) {
    add(&types, family->model_type);
    add(&types, family->type_with_images);
    add(&gguf, family->gguf.name);
    EXPECT_EQ(DecoderOfModelType(family->model_type), family);
  }
  EXPECT_EQ(DecoderOfModelType(""), nullptr);
  EXPECT_EQ(DecoderOfGguf(""), nullptr);
  EXPECT_EQ(EncoderOfGguf(""), nullptr);
}

}  // namespace
}  // namespace penstock::families
