#include "jobs/multipart.h"

#include <gtest/gtest.h>

namespace penstock::jobs {
namespace {

const char* const kType = "multipart/form-data; boundary=xyz";

TEST(ParseForm, ReadsNamesFilesAndBytes) {
  const std::string content("{\"a\":1}\r\n--xy\n\0end", 18);
  const std::string body =
      "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--xyz\r\ncontent-disposition: form-data; name=file; filename=\"a\\\"b;c.jsonl\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n" +
      content + "\r\n--xyz--\r\nbehind";
  const auto parts = ParseForm("Multipart/Form-Data; charset=x; boundary=\"xyz\"", body);
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "batch");
  EXPECT_EQ((*parts)[1].filename, "a\"b;c.jsonl");
  EXPECT_EQ((*parts)[1].content, content);
  EXPECT_TRUE(ParseForm(kType, "--xyz--")->empty());
  EXPECT_TRUE(ParseForm(kType, "before\r\n--xyz--")->empty());
  const auto behind_a_line = ParseForm(kType, "\r\n--xyz--");
  EXPECT_TRUE(behind_a_line.ok()) << behind_a_line.status().ToString();
}

TEST(ParseForm, RefusesWhatIsNoForm) {
  const auto refused = [](const char* type, const std::string& body) {
    const auto parts = ParseForm(type, body);
    EXPECT_EQ(parts.code(), StatusCode::kInvalidArgument) << body;
  };
  const std::string part = "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n";
  refused("application/json", part + "--xyz--");
  refused("multipart/form-data", part + "--xyz--");
  refused("multipart/form-data; boundary=", part + "--xyz--");
  refused(("multipart/form-data; boundary=" + std::string(71, 'x')).c_str(), part);
  refused("multipart/form-data; boundary=\"xyz", part + "--xyz--");
  refused(kType, "");
  refused(kType, "--xyz");
  refused(kType, "--xyzQ" + part);
  refused(kType, part);
  refused(kType, part + "--xy--");
  refused(kType, "--xyz\r\nContent-Disposition: form-data; name=a\r\n");
  refused(kType, "--xyz\r\nContent-Type: a\r\n\r\nb\r\n--xyz--");
  refused(kType, "--xyz\r\nContent-Disposition: form-data\r\n\r\nb\r\n--xyz--");
  refused(kType, "--xyz\r\nContent-Disposition: attachment; name=a\r\n\r\nb\r\n--xyz--");
  refused(kType, "--xyz\r\nX: " + std::string(kFormHeaderBytesMax, 'x') + "\r\n\r\nb\r\n--xyz--");
  for (const char* name : {"a\r\\\nb", "a\nb", "a\rb"}) {
    refused(kType, "--xyz\r\nContent-Disposition: form-data; name=a; filename=\"" +
                       std::string(name) + "\"\r\n\r\nb\r\n--xyz--");
  }
  refused(kType, "--xyz\r\nContent-Disposition: form-data; name=a" + std::string(1, '\0') +
                     "\r\n\r\nb\r\n--xyz--");
  std::string many;
  for (size_t i = 0; i <= kFormPartsMax; ++i) many += part;
  refused(kType, many + "--xyz--");
}

}  // namespace
}  // namespace penstock::jobs
