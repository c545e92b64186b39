#include "bulk/matrix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace penstock::bulk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Row(std::vector<float> row, Precision precision) {
  std::string bytes;
  AppendRow(row, precision, &bytes);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()),
            RowBytes(static_cast<int64_t>(row.size()), precision));
  return bytes;
}

uint16_t Half(float number) {
  uint16_t half = 0;
  std::memcpy(&half, Row({number}, Precision::kFloat16).data(), sizeof half);
  return half;
}

TEST(MatrixHeader, OfNpy) {
  const std::string header = MatrixHeader(MatrixFormat::kNpy, Precision::kFloat32, 3, 384);
  EXPECT_EQ(header.size(), kMatrixHeaderBytes);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<unsigned char>(header[8]) + 256 * static_cast<unsigned char>(header[9]),
            static_cast<int>(kMatrixHeaderBytes) - 10);
  EXPECT_THAT(header, HasSubstr("'descr': '<f4', "));
  EXPECT_THAT(header, HasSubstr("'shape': (3, 384), }"));
  EXPECT_EQ(header.back(), '\n');
  EXPECT_THAT(MatrixHeader(MatrixFormat::kNpy, Precision::kBinary, 3, 385),
              HasSubstr("'|u1', 'fortran_order': False, 'shape': (3, 49), }"));
}

TEST(MatrixHeader, OfSafetensors) {
  const std::string header = MatrixHeader(MatrixFormat::kSafetensors, Precision::kFloat16, 3, 4);
  uint64_t length = 0;
  std::memcpy(&length, header.data(), sizeof length);
  EXPECT_EQ(length + sizeof length, kMatrixHeaderBytes);
  EXPECT_THAT(header,
              HasSubstr(R"({"embeddings":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}} )"));
}

TEST(AppendRow, HalvesAreTheNearest) {
  EXPECT_EQ(Half(0.0f), 0x0000);
  EXPECT_EQ(Half(-0.0f), 0x8000);
  EXPECT_EQ(Half(1.0f), 0x3C00);
  EXPECT_EQ(Half(-2.0f), 0xC000);
  EXPECT_EQ(Half(65504.0f), 0x7BFF);
  EXPECT_EQ(Half(65519.0f), 0x7BFF);
  EXPECT_EQ(Half(65520.0f), 0x7C00);
  EXPECT_EQ(Half(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(Half(std::nanf("")) & 0x7E00, 0x7E00);
  EXPECT_EQ(Half(0x1p-14f), 0x0400);
  EXPECT_EQ(Half(0x1p-24f), 0x0001);
  EXPECT_EQ(Half(0x1p-25f), 0x0000);    // a tie: to even
  EXPECT_EQ(Half(0x1.8p-24f), 0x0002);  // a tie: to even
  EXPECT_EQ(Half(0x1.ff8p-15f), 0x03FF);
  EXPECT_EQ(Half(1.0f + 0x1p-11f), 0x3C00);  // a tie: to even
  EXPECT_EQ(Half(1.0f + 0x1.8p-10f), 0x3C02);
  EXPECT_EQ(Half(0x1.fffp-1f), 0x3C00);  // carries into the exponent
}

TEST(AppendRow, Int8KeepsTheDirection) {
  EXPECT_THAT(Row({0.5f, -1.0f, 0.25f, 0.0f}, Precision::kInt8), ElementsAre(64, -127, 32, 0));
  EXPECT_THAT(Row({0.0f, 0.0f}, Precision::kInt8), ElementsAre(0, 0));
}

TEST(AppendRow, BitsAreTheSigns) {
  EXPECT_EQ(Row({1, -1, 0, 2, 0, 0, 0, 3, 5}, Precision::kBinary), std::string("\x91\x80"));
}

}  // namespace
}  // namespace penstock::bulk
