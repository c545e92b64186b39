#include "http/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

namespace penstock::http {
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

TEST(Gzip, UnpacksUpToALimit) {
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  for (const size_t size : {0, 1, 16 << 10, (16 << 10) + 1, 200'000}) {
    RequestMemory memory(budget, Priority::kInteractive);
    const std::string text(size, 'x');
    std::string unpacked;
    int64_t counted = 0;
    ASSERT_TRUE(Gunzip(Gzip(text), size, &memory, &unpacked, &counted).ok()) << size;
    EXPECT_EQ(unpacked, text);
    EXPECT_EQ(memory.held(), counted);
    EXPECT_GE(counted, static_cast<int64_t>(size));
    if (size == 0) continue;
    std::string cut;
    EXPECT_EQ(Gunzip(Gzip(text), size - 1, nullptr, &cut, &counted).code(),
              StatusCode::kPayloadTooLarge);
    EXPECT_LE(cut.size(), size);
  }
}

TEST(Gzip, MemoryIsTakenBeforeItIsFilled) {
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  RequestMemory memory(budget, Priority::kInteractive);
  std::string text;
  int64_t counted = 0;
  const std::string bomb = Gzip(std::string(64 << 20, '\0'));
  EXPECT_EQ(Gunzip(bomb, 128 << 20, &memory, &text, &counted).code(), StatusCode::kPayloadTooLarge);
  EXPECT_LE(text.size(), 1u << 20);
}

TEST(Gzip, WhatIsNoGzipIsRefused) {
  const std::string packed = Gzip("some text");
  for (const std::string& wrong : {std::string(), std::string("some text"),
                                   packed.substr(0, packed.size() - 1), packed + "x"}) {
    std::string text;
    int64_t counted = 0;
    EXPECT_EQ(Gunzip(wrong, 100, nullptr, &text, &counted).code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace penstock::http
