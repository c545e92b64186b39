#include "api/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>

namespace penstock::api {
namespace {

using testing::HasSubstr;

constexpr uint64_t kUint64Max = std::numeric_limits<uint64_t>::max();

// Shared memory as a client makes it.
class ClientMemory {
 public:
  explicit ClientMemory(std::string_view text)
      : key_("/penstock_test_" + std::to_string(::getpid()) + "_" + std::to_string(++made_)),
        fd_(::shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
    EXPECT_EQ(::pwrite(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  ~ClientMemory() {
    Unlink();
    ::close(fd_);
  }
  void Unlink() { ::shm_unlink(key_.c_str()); }
  void Resize(size_t bytes) { EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes)), 0); }
  const std::string& key() const { return key_; }
  std::string Text(size_t bytes) const {
    std::string text(bytes, '?');
    const ssize_t got = ::pread(fd_, text.data(), bytes, 0);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

 private:
  inline static int made_ = 0;
  const std::string key_;
  const int fd_;
};

std::string ReadText(const SharedMemorySlice& slice) {
  std::string text(slice.bytes(), '?');
  const Status status = slice.Read(std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : status.ToString();
}

Status WriteText(const SharedMemorySlice& slice, std::string_view text) {
  return slice.Write(std::as_bytes(std::span(text)));
}

TEST(SharedMemory, TensorsComeAndGo) {
  ClientMemory client("0123456789");
  SharedMemory memory(100);
  ASSERT_TRUE(memory.Register({"in", client.key(), 2, 8}).ok());
  const auto slice = memory.Slice("in", 3, 4);
  ASSERT_TRUE(slice.ok()) << slice.status().ToString();
  EXPECT_EQ(ReadText(*slice), "5678");
  EXPECT_TRUE(WriteText(*slice, "ab").ok());
  EXPECT_EQ(client.Text(20), "01234ab789");
  const Status large = WriteText(*slice, "12345");
  EXPECT_EQ(large.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(large.message(), HasSubstr("5 bytes"));
  EXPECT_EQ(client.Text(20), "01234ab789");
}

TEST(SharedMemory, ASliceMustLieInItsRegion) {
  ClientMemory client(std::string(64, 'x'));
  SharedMemory memory(100);
  ASSERT_TRUE(memory.Register({"r", client.key(), 16, 32}).ok());
  EXPECT_TRUE(memory.Slice("r", 0, 32).ok());
  EXPECT_TRUE(memory.Slice("r", 32, 0).ok());
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 33}, {33, 0}, {32, 1}, {kUint64Max, 2}, {2, kUint64Max}, {kUint64Max, kUint64Max}}) {
    EXPECT_EQ(memory.Slice("r", offset, bytes).code(), StatusCode::kInvalidArgument)
        << offset << " " << bytes;
  }
  EXPECT_EQ(memory.Slice("s", 0, 1).code(), StatusCode::kNotFound);
}

TEST(SharedMemory, IsOffWhereNoBytesAreAllowed) {
  ClientMemory client("abc");
  SharedMemory memory(0);
  const Status status = memory.Register({"r", client.key(), 0, 3});
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("--shared-memory-bytes"));
  EXPECT_TRUE(memory.Regions().empty());
}

TEST(SharedMemory, HostileKeysAreRefused) {
  SharedMemory memory(100);
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("."), std::string("/.."), std::string("../x"),
        std::string("/../etc/passwd"), std::string("//x"), std::string("a/b"),
        std::string("a\0b", 3), std::string(300, 'k'),
        std::string("/penstock_test_of_no_client")}) {
    const Status status = memory.Register({"r", key, 0, 1});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(status.field(), "key") << key;
  }
}

TEST(SharedMemory, ALinkIsNotFollowed) {
  const std::string name = "penstock_test_link_" + std::to_string(::getpid());
  ASSERT_EQ(::symlink("/etc/hostname", ("/dev/shm/" + name).c_str()), 0);
  SharedMemory memory(100);
  EXPECT_EQ(memory.Register({"r", name, 0, 1}).field(), "key");
  ::unlink(("/dev/shm/" + name).c_str());
}

TEST(SharedMemory, RegionsMustFitTheMemory) {
  ClientMemory client("0123456789");
  SharedMemory memory(100);
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 11}, {10, 1}, {11, 0}, {0, 0}, {1, kUint64Max}, {kUint64Max, 1}}) {
    const Status status = memory.Register({"r", client.key(), offset, bytes});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << offset << " " << bytes;
    EXPECT_EQ(status.field(), "byte_size");
  }
}

TEST(SharedMemory, NumberAndBytesAreBounded) {
  ClientMemory client("0123456789");
  SharedMemory memory(20);
  EXPECT_TRUE(memory.Register({"a", client.key(), 0, 10}).ok());
  EXPECT_TRUE(memory.Register({"b", client.key(), 1, 9}).ok());
  EXPECT_EQ(memory.Register({"b", client.key(), 0, 1}).field(), "name");
  EXPECT_EQ(memory.Register({"c", client.key(), 0, 2}).code(), StatusCode::kResourceExhausted);
  memory.Unregister("a");
  EXPECT_TRUE(memory.Register({"c", client.key(), 0, 10}).ok());
  memory.UnregisterAll();
  SharedMemory many(1000);
  for (size_t i = 0; i < SharedMemory::kRegionsMax; ++i) {
    EXPECT_TRUE(many.Register({std::to_string(i), client.key(), 0, 1}).ok());
  }
  EXPECT_EQ(many.Register({"x", client.key(), 0, 1}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.Register({"", client.key(), 0, 1}).field(), "name");
  EXPECT_EQ(memory.Register({std::string(1000, 'n'), client.key(), 0, 1}).field(), "name");
}

TEST(SharedMemory, RegionsAreListedByName) {
  ClientMemory client("0123456789");
  SharedMemory memory(100);
  ASSERT_TRUE(memory.Register({"b", client.key(), 1, 2}).ok());
  ASSERT_TRUE(memory.Register({"a", client.key(), 3, 4}).ok());
  const auto regions = memory.Regions();
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].name, "a");
  EXPECT_EQ(regions[1].offset, 1u);
  EXPECT_EQ(memory.Find("b")->bytes, 2u);
  EXPECT_EQ(memory.Find("c").code(), StatusCode::kNotFound);
  memory.Unregister("c");
  memory.Unregister("b");
  EXPECT_EQ(memory.Regions().size(), 1u);
}

TEST(SharedMemory, AReaderKeepsTheMemory) {
  ClientMemory client("0123456789");
  SharedMemory memory(100);
  ASSERT_TRUE(memory.Register({"r", client.key(), 0, 10}).ok());
  const auto slice = memory.Slice("r", 0, 10);
  memory.UnregisterAll();
  client.Unlink();
  EXPECT_EQ(ReadText(*slice), "0123456789");
}

// With a mapping this would be SIGBUS.
TEST(SharedMemory, MemoryThatWasCutShortIsAnError) {
  ClientMemory client(std::string(10'000, 'x'));
  SharedMemory memory(100'000);
  ASSERT_TRUE(memory.Register({"r", client.key(), 100, 9'000}).ok());
  const auto slice = memory.Slice("r", 0, 9'000);
  for (const size_t bytes : {size_t{5'000}, size_t{50}, size_t{0}}) {
    client.Resize(bytes);
    EXPECT_THAT(ReadText(*slice), HasSubstr("is shorter than when it was registered"));
    EXPECT_THAT(WriteText(*slice, std::string(9'000, 'y')).message(), HasSubstr("is shorter"));
    EXPECT_EQ(client.Text(20'000).size(), bytes);  // not made longer
  }
}

}  // namespace
}  // namespace penstock::api
