#include "base/sha256.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder_test_util.h"
#include "os/file_digest.h"

namespace penstock {
namespace {

// The examples of FIPS 180-4 (csrc.nist.gov, "SHA_All").
TEST(Sha256Test, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, GoesOnBehindADigest) {
  Sha256 digest;
  digest.Add("a");
  EXPECT_EQ(digest.Hex(), Sha256Hex("a"));
  digest.Add("bc");
  EXPECT_EQ(digest.Hex(), Sha256Hex("abc"));
}

TEST(Sha256Test, OfAFile) {
  const TempFolder folder;
  const std::string path = folder / "x";
  std::ofstream(path) << "abc";
  const auto digest = DigestOfFile(path);
  ASSERT_TRUE(digest.ok()) << digest.status().message();
  EXPECT_EQ(digest->bytes, 3);
  EXPECT_EQ(digest->sha256, Sha256Hex("abc"));
  EXPECT_EQ(DigestOfFile(folder / "y").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock
