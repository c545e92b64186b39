#include "http/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

namespace penstock {
namespace {

std::string Unpack(const std::string& packed, size_t bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(bytes + 1, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(Gzip, UnpacksToTheSame) {
  std::mt19937 random(7);
  std::string noise(100'000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(200'000, 'x'), noise}) {
    EXPECT_EQ(Unpack(Gzip(text), text.size()), text);
  }
  EXPECT_LT(Gzip(std::string(200'000, 'x')).size(), 2000u);
}

}  // namespace
}  // namespace penstock
