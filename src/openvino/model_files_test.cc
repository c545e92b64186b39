#include "openvino/model_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "openvino/openvino_test_util.h"

namespace penstock::openvino {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelFilesTest, FormatsAndBytes) {
  struct Case {
    const char* name;
    ModelFormat format;
    std::vector<const char*> files;
  };
  for (const Case& one : std::vector<Case>{
           {"matmul.onnx", ModelFormat::kOnnx, {"matmul.onnx"}},
           {"external.onnx", ModelFormat::kOnnx, {"external.onnx", "external.data"}},
           {"matmul.xml", ModelFormat::kIr, {"matmul.xml", "matmul.bin"}},
           {"double.tflite", ModelFormat::kTfLite, {"double.tflite"}},
           {"add.pb", ModelFormat::kTensorFlowGraph, {"add.pb"}},
           {"add_saved_model", ModelFormat::kSavedModel, {"add_saved_model/saved_model.pb"}},
       }) {
    const auto files = FindModelFiles(Golden(one.name));
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_EQ(files->format, one.format) << one.name;
    uint64_t bytes = 0;
    for (const char* file : one.files) bytes += std::filesystem::file_size(Golden(file));
    EXPECT_EQ(files->bytes, bytes) << one.name;
  }
}

TEST(ModelFilesTest, AFolderHasOneModel) {
  const TempFolder folder;
  EXPECT_EQ(FindModelFiles(folder.path().string()).code(), StatusCode::kUnsupported);
  std::filesystem::copy_file(Golden("two.onnx"), folder / "model.onnx");
  const auto files = FindModelFiles(folder.path().string());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_THAT(files->inputs, ElementsAre("a", "b"));
  WriteFile(folder / "model.tflite", "");
  const auto both = FindModelFiles(folder.path().string());
  ASSERT_EQ(both.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(both.status().message(), HasSubstr("has both model.onnx and model.tflite"));
}

TEST(ModelFilesTest, ExternalDataStaysInTheFolder) {
  for (const char* name : {"external_outside.onnx", "external_absolute.onnx"}) {
    const auto files = FindModelFiles(Golden(name));
    ASSERT_EQ(files.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(files.status().message(), HasSubstr("outside the model's folder")) << name;
  }
  const auto missing = FindModelFiles(Golden("external_missing.onnx"));
  ASSERT_EQ(missing.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.status().message(), HasSubstr("not_there.data"));

  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "model");
  std::filesystem::copy_file(Golden("external.onnx"), folder / "model/external.onnx");
  std::filesystem::copy_file(Golden("external.data"), folder / "elsewhere");
  std::filesystem::create_symlink("../elsewhere", folder / "model/external.data");
  EXPECT_THAT(FindModelFiles(folder / "model/external.onnx").status().message(),
              HasSubstr("outside the model's folder"));
}

TEST(ModelFilesTest, ExternalDataThatIsTooShortIsRefused) {
  const TempFolder folder;
  std::filesystem::copy_file(Golden("external.onnx"), folder / "external.onnx");
  WriteFile(folder / "external.data", std::string(47, 'x'));
  const auto files = FindModelFiles(folder / "external.onnx");
  ASSERT_EQ(files.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(files.status().message(), HasSubstr("has 47 bytes, a tensor lies at 0 to 48"));
}

// The runtime would wait until something is written to the pipe.
TEST(ModelFilesTest, PipesInPlaceOfFilesAreRefused) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "model.onnx").c_str(), 0600), 0);
  EXPECT_EQ(FindModelFiles(folder / "model.onnx").code(), StatusCode::kInvalidArgument);
  std::filesystem::copy_file(Golden("external.onnx"), folder / "external.onnx");
  ASSERT_EQ(mkfifo((folder / "external.data").c_str(), 0600), 0);
  EXPECT_EQ(FindModelFiles(folder / "external.onnx").code(), StatusCode::kInvalidArgument);
  std::filesystem::copy_file(Golden("matmul.xml"), folder / "matmul.xml");
  ASSERT_EQ(mkfifo((folder / "matmul.bin").c_str(), 0600), 0);
  EXPECT_EQ(FindModelFiles(folder / "matmul.xml").code(), StatusCode::kInvalidArgument);
  std::filesystem::create_directory(folder.path() / "saved");
  WriteFile(folder / "saved/saved_model.pb", "");
  ASSERT_EQ(mkfifo((folder / "saved/variables").c_str(), 0600), 0);
  EXPECT_EQ(FindModelFiles(folder / "saved").code(), StatusCode::kInvalidArgument);
}

TEST(ModelFilesTest, WhatIsNoModelIsRefused) {
  EXPECT_EQ(FindModelFiles("/nowhere/model.onnx").code(), StatusCode::kNotFound);
  const auto text = FindModelFiles(Golden("external.data"));
  ASSERT_EQ(text.code(), StatusCode::kUnsupported);
  EXPECT_THAT(text.status().message(), HasSubstr(".onnx, .xml, .tflite, .pb or .graphdef"));
  const auto state = FindModelFiles(Golden("state.xml"));
  ASSERT_EQ(state.code(), StatusCode::kUnsupported);
  EXPECT_THAT(state.status().message(), HasSubstr("keeps a state"));
}

}  // namespace
}  // namespace penstock::openvino
