#include "unicode/lower_case.h"

#include <gtest/gtest.h>

namespace penstock::unicode {
namespace {

TEST(LowerCase, AsPythonDoes) {
  EXPECT_EQ(LowerCase("Hello WORLD 42"), "hello world 42");
  EXPECT_EQ(LowerCase("ÄÖÜ ÇĞ Я"), "äöü çğ я");
  EXPECT_EQ(LowerCase("İ"), "i\u0307");    // one character becomes two
  EXPECT_EQ(LowerCase("ΟΔΟΣ"), "οδος");    // final sigma
  EXPECT_EQ(LowerCase("ΣΑΣ Σ"), "σας σ");  // alone it is not final
  EXPECT_EQ(LowerCase("ΟΔΟΣ' ΑΣ.Β"), "οδος' ασ.β");
  EXPECT_EQ(LowerCase(""), "");
}

TEST(LowerCase, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(LowerCase("A\xFF"
                      "B"),
            "a\uFFFD"
            "b");
}

}  // namespace
}  // namespace penstock::unicode
