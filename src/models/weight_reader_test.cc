#include "models/weight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/temp_folder_test_util.h"
#include "files/gguf_test_util.h"
#include "files/tensor_store.h"

namespace penstock::models {
namespace {

// Matrices of block types are viewed as they lie; vectors are cut anywhere and may not be blocks.
TEST(WeightReader, ViewsMatricesOfBlocksAndRefusesVectors) {
  const TempFolder folder;
  const std::string path = folder / "m.gguf";
  constexpr uint32_t kQ8_0 = 8;
  std::ofstream(path, std::ios::binary) << files::RawGguf(
      {}, {files::RawTensor("w", {32, 2}, kQ8_0, 0), files::RawTensor("v", {32}, kQ8_0, 96)},
      std::string(96 + 34, '\1'));
  const auto store = files::TensorStore::OpenGguf(path);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EncoderWeights weights;
  WeightReader reader(**store, "", &weights);
  const auto matrix = reader.View("w", {2, 32});
  ASSERT_TRUE(matrix.ok()) << matrix.status().ToString();
  EXPECT_EQ(matrix->dtype, numbers::DType::kQ8_0);
  EXPECT_EQ(matrix->row_bytes(), 34u);
  const auto vector = reader.View("v", {32});
  EXPECT_EQ(vector.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(vector.status().message(), testing::HasSubstr("tensor 'v' is a vector of type Q8_0"));
}

}  // namespace
}  // namespace penstock::models
