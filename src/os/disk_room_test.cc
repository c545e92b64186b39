#include "os/disk_room.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SizeText, HasThreeDigits) {
  EXPECT_EQ(SizeText(999), "999 bytes");
  EXPECT_EQ(SizeText(1000), "1 kB");
  EXPECT_EQ(SizeText(3'140'000'000), "3.14 GB");
  EXPECT_EQ(SizeText(999'999), "1 MB");
  EXPECT_EQ(SizeText(int64_t{5} << 50), "5.63e+03 TB");
}

TEST(RoomFor, IsKnownOfRegularFiles) {
  EXPECT_FALSE(RoomFor("").has_value());
  EXPECT_FALSE(RoomFor("-").has_value());
  EXPECT_FALSE(RoomFor("/dev/null").has_value());
  EXPECT_FALSE(RoomFor("/no/such/folder/x.npy").has_value());
}

}  // namespace
}  // namespace penstock
