#include "devices/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::devices {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(NewBackend, MakesTheDeviceThatIsNamed) {
  for (const char* device : {"auto", "cpu"}) {
    const auto made = NewBackend({.device = device, .threads = 1, .pin = false});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_THAT((*made)->name(), StartsWith("cpu ("));
    EXPECT_GT((*made)->AvailableBytes(), 0u);
  }
}

TEST(ParseDevice, NumbersDevicesOfWhichThereMayBeSeveral) {
  EXPECT_EQ(*ParseDevice("auto"), "auto");
  EXPECT_EQ(*ParseDevice("cuda"), "cuda");
  EXPECT_EQ(*ParseDevice("cuda:0"), "cuda");
  EXPECT_EQ(*ParseDevice("cuda:12"), "cuda:12");
  for (const char* name : {"cpu:0", "cuda:", "cuda:-1", "cuda:-0", "cuda:64", "cuda:1x",
                           "cuda:99999999999", "cuda: 1", ""}) {
    EXPECT_EQ(ParseDevice(name).status().field(), "device") << name;
  }
}

TEST(NewBackend, RefusesOthersByNameAndListsWhatThereIs) {
  const auto made = NewBackend({.device = "tpu:7"});
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(made.status().field(), "device");
  EXPECT_THAT(made.status().message(), HasSubstr("no device 'tpu:7'; known: auto, cpu"));
}

TEST(CheckKernels, AreThoseOfTheDeviceThatIsNamed) {
  for (const char* device : {"auto", "cpu"}) {
    const auto checked = CheckKernels(device);
    ASSERT_TRUE(checked.ok()) << checked.status().ToString();
    EXPECT_FALSE(checked->empty());
    for (const program::KernelDifference& one : *checked) EXPECT_TRUE(one.ok()) << one.of;
    EXPECT_TRUE(IsHost(device));
  }
  EXPECT_FALSE(IsHost("cuda"));
  EXPECT_EQ(CheckKernels("tpu:7").status().field(), "device");
}

TEST(NewDevices, AreTheHostAndThoseThatAreNamed) {
  const std::vector<std::string> names = {"auto", "cpu", "cpu"};
  const auto made = NewDevices({.threads = 1, .pin = false}, names);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const Devices devices = DevicesOf(*made, 7);
  EXPECT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices.host().name, "cpu");
  EXPECT_EQ(devices.host().backend, made->front().backend.get());
  EXPECT_EQ(devices.host().memory_bytes, 7u);
  EXPECT_EQ(MemoryLimit({.share = 0.5}).Of(10), 5u);
  EXPECT_EQ(MemoryLimit({.bytes = 7}).Of(10), 7u);
  const Devices unbounded = DevicesOf(*made, 0);
  for (const Device& device : unbounded.list()) EXPECT_EQ(device.memory_bytes, 0u);
}

TEST(Devices, TheFirstOneIsTheHost) {
  const Devices devices({{"cpu", nullptr, 7}, {"other", nullptr, 3}});
  EXPECT_EQ(devices.host().name, "cpu");
  EXPECT_EQ(devices.Find(""), &devices.host());
  EXPECT_EQ(devices.Find("auto"), &devices.host());
  EXPECT_EQ(devices.Find("other")->memory_bytes, 3u);
  EXPECT_EQ(devices.Find("third"), nullptr);
  EXPECT_EQ(devices.Names(), "cpu, other");
}

}  // namespace
}  // namespace penstock::devices
