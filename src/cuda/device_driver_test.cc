// The driver device over a fake driver library, whose GPU is the emulated device
// (tests/cuda/fake_driver.cc).
#include "cuda/device_driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/device_emulated.h"
#include "cuda/kernel_times.h"
#include "cuda/self_check.h"
#include "families/model_folder.h"
#include "models/golden_test_util.h"

namespace penstock::cuda {
namespace {

using testing::HasSubstr;

// A frame of zstd without content.
constexpr unsigned char kEmptyFrame[] = {0x28, 0xB5, 0x2F, 0xFD, 0x24, 0x00, 0x01,
                                         0x00, 0x00, 0x99, 0xE9, 0xD8, 0x51};
constexpr KernelImage kImages[] = {
    {"sm_80", 8, 0, KernelImage::Runs::kMinorsAbove, kEmptyFrame},
    {"sm_90a", 9, 0, KernelImage::Runs::kHere, kEmptyFrame},
    {"compute_80", 8, 0, KernelImage::Runs::kAllAbove, kEmptyFrame},
};

class DriverDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    library_ = folder / "libfake_cuda_driver.so";
    ASSERT_TRUE(std::filesystem::exists(library_)) << library_;
  }
  void TearDown() override {
    for (const char* const name : {"PENSTOCK_FAKE_GPUS", "PENSTOCK_FAKE_VERSION",
                                   "PENSTOCK_FAKE_CAPABILITY", "PENSTOCK_FAKE_LOST"}) {
      unsetenv(name);
    }
  }
  Expected<std::unique_ptr<Device>> Open() {
    return OpenDriverDevice({.library = library_, .images = kImages});
  }

  std::string library_;
};

// Through the driver every kernel has the bits that the emulator has by itself: arguments, tile maps
// and shapes are the same.
TEST_F(DriverDeviceTest, RunsEveryKernelAsTheEmulatorDoes) {
  const auto device = Open();
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  const auto hashes = CheckKernelHashes(device->get());
  ASSERT_TRUE(hashes.ok()) << hashes.status().ToString();
  EXPECT_EQ(hashes->size(), kKernels);
  for (const KernelHash& one : *hashes) EXPECT_TRUE(one.ok()) << one.kernel;
}

// Kernels that a GPU does not have are not asked for: their shared memory would be refused.
TEST_F(DriverDeviceTest, GpusOfOtherKindsHaveTheOtherKernels) {
  for (const char* const capability : {"80", "86", "120"}) {
    setenv("PENSTOCK_FAKE_CAPABILITY", capability, 1);
    const auto device = Open();
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    const auto memory = DeviceBlock::OnDevice(device->get(), 1024);
    EXPECT_TRUE(memory.ok()) << capability << ": " << memory.status().ToString();
    EXPECT_FALSE((*device)->info().Has(KernelId::gemm_wgmma_f16));
  }
}

// A kernel directly behind another one begins before that one has ended, where its image is one of 9.0
// or above: 10.0 runs the PTX of 8.0, whose kernels do not wait.
TEST_F(DriverDeviceTest, KernelsOverlapBehindKernelsAlone) {
  for (const int capability : {80, 90, 100}) {
    setenv("PENSTOCK_FAKE_CAPABILITY", std::to_string(capability).c_str(), 1);
    const auto device = Open();
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    auto memory = DeviceBlock::OnDevice(device->get(), 1024);
    auto host = DeviceBlock::OnHost(device->get(), 1024);
    ASSERT_TRUE(memory.ok() && host.ok());
    std::memset(host->data(), 0, 1024);
    const auto event = (*device)->NewEvent();
    ASSERT_TRUE(event.ok());
    NormArgs args = {};
    args.rows = reinterpret_cast<const int*>(memory->data());
    const auto launch = [&] {
      return (*device)->Launch(KernelLaunch::Of(KernelId::rows_norm, 1, 1, args));
    };
    void* const library = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto seen = reinterpret_cast<int (*)()>(dlsym(library, "FakeDriverOverlaps"));
    ASSERT_NE(seen, nullptr);
    const int before = seen();
    ASSERT_TRUE((*device)->CopyIn(memory->data(), host->data(), 1024).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(launch().ok());
    ASSERT_TRUE((*device)->CopyOut(host->data(), memory->data(), 1024).ok());
    ASSERT_TRUE(launch().ok());
    ASSERT_TRUE((*device)->BeginCapture().ok());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(launch().ok());
    const auto graph = (*device)->EndCapture();
    ASSERT_TRUE(graph.ok());
    ASSERT_TRUE((*device)->Replay(*graph).ok());
    ASSERT_TRUE(launch().ok());
    ASSERT_TRUE((*device)->Record(*event).ok());
    ASSERT_TRUE((*device)->Wait(*event).ok());
    EXPECT_EQ(seen() - before, capability == 90 ? 3 : 0);
    (*device)->FreeGraph(*graph);
    (*device)->FreeEvent(*event);
    dlclose(library);
  }
}

// Times of the emulated device mean nothing; that all kernels run in each shape does.
TEST_F(DriverDeviceTest, TimesEveryKernelOfAnEncoder) {
  const auto device = Open();
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  const auto times =
      TimeKernels(device->get(), {.width = 64, .tokens = {20}, .launches = 1, .rounds = 1});
  ASSERT_TRUE(times.ok()) << times.status().ToString();
  // Four products by four kernels, attention, norm, embedding; a node.
  EXPECT_EQ(times->size(), 4u * 4 + 3 + 1);
  for (const program::KernelTime& one : *times) EXPECT_GT(one.seconds, 0) << one.kernel;
  EXPECT_EQ((*times)[0].operations, 2.0 * 20 * 64 * 192);
  EXPECT_GT((*times)[0].floor_seconds, 0);
}

TEST_F(DriverDeviceTest, TellsWhatTheGpuIs) {
  const auto device = Open();
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_EQ((*device)->info().name, "Fake GPU");
  EXPECT_EQ((*device)->info().major, 9);
  EXPECT_EQ((*device)->info().driver, "13.0");
  EXPECT_GT((*device)->AvailableBytes(), 0u);
}

TEST_F(DriverDeviceTest, SaysWhatIsMissing) {
  const auto none = OpenDriverDevice({.library = "libnot_here.so.1", .images = kImages});
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(none.status().message(), HasSubstr("no NVIDIA driver"));
  const auto other = OpenDriverDevice({.library = "libc.so.6", .images = kImages});
  EXPECT_EQ(other.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(other.status().message(), HasSubstr("too old: it has no cu"));
  const auto empty = OpenDriverDevice({.library = library_, .images = {}});
  EXPECT_THAT(empty.status().message(), HasSubstr("without kernels"));
  const auto third = OpenDriverDevice({.library = library_, .number = 2, .images = kImages});
  EXPECT_EQ(third.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(third.status().message(), HasSubstr("has 1 GPUs, numbered from 0"));
  setenv("PENSTOCK_FAKE_GPUS", "3", 1);
  EXPECT_TRUE(OpenDriverDevice({.library = library_, .number = 2, .images = kImages}).ok());
  setenv("PENSTOCK_FAKE_GPUS", "0", 1);
  EXPECT_THAT(Open().status().message(), HasSubstr("has no GPU"));
  unsetenv("PENSTOCK_FAKE_GPUS");
  setenv("PENSTOCK_FAKE_VERSION", "12080", 1);
  EXPECT_THAT(Open().status().message(), HasSubstr("too old: it is for CUDA 12.8"));
  unsetenv("PENSTOCK_FAKE_VERSION");
  setenv("PENSTOCK_FAKE_CAPABILITY", "75", 1);
  EXPECT_THAT(Open().status().message(), HasSubstr("(compute capability 7.5) is too old"));
}

TEST_F(DriverDeviceTest, TheNearestKernelsAreTaken) {
  const auto name = [](int major, int minor) {
    const KernelImage* const image = FindKernelImage(kImages, major, minor);
    return image == nullptr ? "none" : std::string(image->name);
  };
  EXPECT_EQ(name(8, 0), "sm_80");
  EXPECT_EQ(name(8, 9), "sm_80");
  EXPECT_EQ(name(9, 0), "sm_90a");
  EXPECT_EQ(name(10, 0), "compute_80");
  EXPECT_EQ(name(7, 5), "none");
}

TEST_F(DriverDeviceTest, BuiltKernelsUnpack) {
  for (const KernelImage& image : BuiltKernelImages()) {
    const auto unpacked = UnpackKernelImage(image);
    ASSERT_TRUE(unpacked.ok()) << image.name;
    const std::string text(unpacked->begin(), unpacked->end());
    for (size_t i = 0; i < kKernels; ++i) {
      EXPECT_THAT(text, HasSubstr(RowOf(static_cast<KernelId>(i)).name)) << image.name;
    }
    const KernelImage cut = {image.name, 8, 0, image.runs, image.compressed.first(1000)};
    EXPECT_FALSE(UnpackKernelImage(cut).ok());
  }
}

// A model's vectors through the driver's functions are those of the emulated device.
TEST_F(DriverDeviceTest, RunsModels) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
  ASSERT_TRUE(folder.ok());
  auto cases = models::LoadCases("bert_mean_normalize", &*folder);
  models::GoldenBatch batch;
  for (size_t i = 0; i < 3; ++i) batch.Add(cases[i]);
  std::vector<std::vector<float>> results;
  for (const bool fake : {true, false}) {
    auto device = fake ? *Open() : std::unique_ptr<Device>(NewEmulatedDevice({}));
    const auto backend = NewCudaBackend(std::move(device));
    auto model = models::EncoderModel::Load(*folder, backend.get(), numbers::DType::kF16);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    results.push_back(models::RunBatch(**model, batch, program::EncoderOutput::kPooled));
    EXPECT_EQ(models::RunBatch(**model, batch, program::EncoderOutput::kPooled), results.back());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(DriverDeviceTest, ALostGpuSaysSo) {
  auto device = *Open();
  const auto block = DeviceBlock::OnDevice(device.get(), 64);
  ASSERT_TRUE(block.ok());
  const auto host = DeviceBlock::OnHost(device.get(), 64);
  ASSERT_TRUE(host.ok());
  setenv("PENSTOCK_FAKE_LOST", "1", 1);
  Status status;
  for (int i = 0; i < 3 && status.ok(); ++i)
    status = device->CopyIn(block->data(), host->data(), 64);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("the GPU is lost: cuMemcpyHtoD: a fake error (719)"));
  unsetenv("PENSTOCK_FAKE_LOST");
  EXPECT_EQ(device->CopyIn(block->data(), host->data(), 64).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace penstock::cuda
