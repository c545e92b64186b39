#include "ui/ui_files.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace penstock::ui {
namespace {

std::string Unpacked(const std::string& packed, size_t size) {
  std::string text(size, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  inflateEnd(&stream);
  return text;
}

TEST(UiFiles, AreThoseOfTheFolderToTheByte) {
  ASSERT_GE(UiFiles().size(), 3u);
  for (const UiFile& file : UiFiles()) {
    std::ifstream in(std::string(PENSTOCK_SOURCE_DIR "/src/ui/page/") + file.name,
                     std::ios::binary);
    std::stringstream read;
    read << in.rdbuf();
    EXPECT_EQ(read.str(), file.text) << file.name;
  }
}

TEST(UiFiles, PackedFormsUnpackToTheFile) {
  for (const UiFile& file : UiFiles()) {
    ASSERT_FALSE(file.gzip.empty()) << file.name;
    EXPECT_LT(file.gzip.size(), file.text.size());
    EXPECT_EQ(Unpacked(file.gzip, file.text.size()), file.text) << file.name;
  }
}

TEST(UiFiles, TheWholePageIsSmall) {
  size_t bytes = 0;
  std::set<std::string> etags;
  for (const UiFile& file : UiFiles()) {
    bytes += file.text.size();
    etags.insert(file.etag);
  }
  EXPECT_LE(bytes, 250u << 10);
  EXPECT_EQ(etags.size(), UiFiles().size());
}

TEST(UiFiles, AreFoundByTheirExactNameOnly) {
  ASSERT_NE(FindUiFile(kUiPage), nullptr);
  EXPECT_STREQ(FindUiFile(kUiPage)->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(FindUiFile("app.js")->content_type, std::string("text/javascript; charset=utf-8"));
  for (const char* name : {"", "/", "../index.html", "INDEX.HTML", "index.html/"}) {
    EXPECT_EQ(FindUiFile(name), nullptr) << name;
  }
}

// The policy that the page is sent with allows neither.
TEST(UiFiles, ThePageHasNoInlineScriptsOrStyles) {
  const std::string_view page = FindUiFile(kUiPage)->text;
  for (const char* banned :
       {"<style", " style=", " onclick=", " onload=", "javascript:", "http:"}) {
    EXPECT_EQ(page.find(banned), std::string_view::npos) << banned;
  }
  for (size_t at = page.find("<script"); at != std::string_view::npos;
       at = page.find("<script", at + 1)) {
    EXPECT_NE(page.substr(at, page.find('>', at) - at).find("src="), std::string_view::npos);
  }
}

}  // namespace
}  // namespace penstock::ui
