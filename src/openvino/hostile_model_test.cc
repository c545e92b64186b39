// Models that are cut short or changed at random: an error or a model, never a crash or a wait.
#include <gmock/gmock.h>

#include <random>

#include "openvino/openvino_test_util.h"
#include "openvino/tensor_model.h"

namespace penstock::openvino {
namespace {

using ::testing::HasSubstr;

// As far as it goes: read, compiled, run on zeros.
Status TryModel(const Runtime* runtime, const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto model, TensorModel::Load(runtime, path));
  PENSTOCK_ASSIGN_OR_RETURN(const auto compiled, model->Compile({}));
  PENSTOCK_ASSIGN_OR_RETURN(const auto request, compiled->NewRequest());
  std::vector<std::vector<std::byte>> inputs;
  for (size_t i = 0; i < compiled->inputs().size(); ++i) {
    const signature::TensorSpec& spec = compiled->inputs()[i];
    if (!spec.shape) return Status::Ok();
    std::vector<int64_t> shape;
    for (const signature::DimensionRange& one : *spec.shape)
      shape.push_back(std::max<int64_t>(one.min, 1));
    const auto count = signature::ElementCount(shape);
    if (!count || *count > 1 << 20) return Status::Ok();
    inputs.emplace_back(*count * signature::ElementBytes(spec.type));
    PENSTOCK_RETURN_IF_ERROR(request->BindInput(i, shape, inputs.back()));
  }
  PENSTOCK_RETURN_IF_ERROR(request->Run());
  for (size_t i = 0; i < compiled->outputs().size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(request->Output(i).status());
  }
  return Status::Ok();
}

class HostileModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The model in a folder of its own, with the other files that it needs, and the file to change.
  void Prepare() {
    const std::string name = GetParam();
    if (name == "saved_model.pb") {
      original_ = FileText(Golden("add_saved_model/" + name));
      model_ = folder_.path().string();
    } else {
      original_ = FileText(Golden(name));
      model_ = folder_ / name;
    }
    if (name == "matmul.xml") WriteFile(folder_ / "matmul.bin", FileText(Golden("matmul.bin")));
    if (name == "matmul.bin") {
      model_ = folder_ / "matmul.xml";
      WriteFile(model_, FileText(Golden("matmul.xml")));
    }
    if (name == "external.onnx") {
      WriteFile(folder_ / "external.data", FileText(Golden("external.data")));
    }
    ASSERT_FALSE(original_.empty());
  }
  Status Try(const Runtime* runtime, const std::string& content) {
    WriteFile(folder_ / GetParam(), content);
    return TryModel(runtime, model_);
  }

  TempFolder folder_;
  std::string original_;
  std::string model_;
};

TEST_P(HostileModelTest, CutShort) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  Prepare();
  ASSERT_TRUE(Try(runtime, original_).ok()) << Try(runtime, original_).ToString();
  const size_t step = std::max<size_t>(1, original_.size() / 100);
  size_t refused = 0, tried = 0;
  for (size_t size = 0; size < original_.size(); size += step, ++tried) {
    const Status status = Try(runtime, original_.substr(0, size));
    refused += !status.ok();
    EXPECT_TRUE(status.ok() || status.message().find(folder_.path().string()) == 0)
        << status.message();
  }
  EXPECT_GT(refused, tried / 2);
}

TEST_P(HostileModelTest, ChangedAtRandom) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  Prepare();
  std::mt19937 random(7);
  const std::string bytes("\0\x01\x7f\x80\xff", 5);
  for (int i = 0; i < 150; ++i) {
    std::string changed = original_;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      changed[random() % changed.size()] =
          random() % 2 == 0 ? bytes[random() % bytes.size()] : static_cast<char>(random());
    }
    const Status status = Try(runtime, changed);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, HostileModelTest,
                         ::testing::Values("matmul.onnx", "external.onnx", "matmul.xml",
                                           "matmul.bin", "double.tflite", "add.pb",
                                           "saved_model.pb"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Shapes that no memory holds, of a tensor inside the model.
TEST(HostileFileTest, ConstantsBeyondMemory) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Status status = TryModel(runtime, Golden("huge_constant.onnx"));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("huge_constant.onnx"));
}

TEST(HostileFileTest, RandomBytes) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  std::mt19937 random(3);
  const TempFolder folder;
  for (const char* name : {"a.onnx", "a.xml", "a.tflite", "a.pb", "saved_model.pb"}) {
    for (const size_t size : {0u, 1u, 16u, 300u, 5000u}) {
      std::string bytes(size, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      WriteFile(folder / name, bytes);
      EXPECT_FALSE(TryModel(runtime, folder / name).ok()) << name << " of " << size << " bytes";
    }
  }
}

// XML whose elements lie inside each other half a million times.
TEST(HostileFileTest, DeepXml) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const TempFolder folder;
  std::string text = "<?xml version=\"1.0\"?><net name=\"m\" version=\"11\">";
  for (int i = 0; i < 500000; ++i) text += "<a>";
  for (int i = 0; i < 500000; ++i) text += "</a>";
  WriteFile(folder / "deep.xml", text + "</net>");
  EXPECT_FALSE(TryModel(runtime, folder / "deep.xml").ok());
}

}  // namespace
}  // namespace penstock::openvino
