#include "files/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "files/tensor_store.h"

namespace penstock::files {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { MappedFile::MendTruncated(); }
  std::string Write(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }
  static size_t Page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

  const TempFolder folder_;
};

TEST_F(MappedFileTest, MapsFilesAndNothingElse) {
  const auto file = MappedFile::Open(Write("a", "text"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->text(), "text");
  EXPECT_TRUE(file->Check().ok());
  EXPECT_EQ(MappedFile::Open(Write("empty", ""))->bytes().size(), 0u);
  EXPECT_EQ(MappedFile::Open(folder_ / "none").status().code(), StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::Open(folder_ / "fifo").status().message(), HasSubstr("a FIFO"));
}

TEST_F(MappedFileTest, AFileCutWhileItIsReadGivesZerosAndAnError) {
  const size_t pages = 8;
  const std::string path = Write("a", std::string(pages * Page(), 'x'));
  auto opened = MappedFile::Open(path);
  ASSERT_TRUE(opened.ok());
  const MappedFile file = *std::move(opened);
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(3 * Page())), 0);
  // Several threads may touch pages that are gone.
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&file] {
      EXPECT_EQ(std::count(file.text().begin(), file.text().end(), 'x'),
                static_cast<ptrdiff_t>(3 * Page()));
    });
  }
  threads.clear();
  const Status status = file.Check();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(path));
  // Zeros once read stay zeros, even if the file grows again.
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(pages * Page())), 0);
  EXPECT_FALSE(file.Check().ok());
}

// The rest of the last page reads as zeros without any signal.
TEST_F(MappedFileTest, AFileCutWithinAPageIsSeen) {
  const std::string path = Write("a", std::string(100, 'x'));
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), 99), 0);
  EXPECT_FALSE(file->Check().ok());
}

TEST_F(MappedFileTest, TensorsOfACutFileAreNotBelieved) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[4096],"data_offsets":[0,16384]}})";
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header + std::string(16384, 'x');
  const std::string path = Write("model.safetensors", bytes);
  const auto store = TensorStore::OpenFile(path);
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE((*store)->Check().ok());
  ASSERT_EQ(truncate(path.c_str(), 10), 0);
  std::vector<float> values(4096);
  EXPECT_TRUE((*store)->Find("a")->CopyToF32(values).ok());
  EXPECT_EQ((*store)->Check().code(), StatusCode::kUnavailable);
}

// A page without contents that is not one of MappedFile's.
void TouchAForeignPage(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR);
  void* data = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (ftruncate(fd, 0) != 0) return;
  [[maybe_unused]] const volatile char c = *static_cast<const volatile char*>(data);
}

TEST_F(MappedFileTest, OtherFaultsGoWhereTheyWent) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::string path = Write("foreign", std::string(4096, 'x'));
  const std::string own = Write("own", "x");
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_handler = [](int) { _exit(7); };
        sigaction(SIGBUS, &action, nullptr);
        const auto file = MappedFile::Open(own);
        TouchAForeignPage(path);
      },
      testing::ExitedWithCode(7), "");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const bool touched : {true, false}) {
    EXPECT_EXIT(
        {
          const auto file = MappedFile::Open(own);
          if (touched) TouchAForeignPage(path);
          raise(SIGBUS);
        },
        testing::KilledBySignal(SIGBUS), "");
  }
#endif
}

TEST_F(MappedFileTest, AsManyAsTheLimitSays) {
  const std::string path = Write("a", "x");
  for (int round = 0; round < 3; ++round) {
    std::vector<MappedFile> files;
    for (;;) {
      auto file = MappedFile::Open(path);
      if (!file.ok()) {
        // On a system with fewer descriptors, the system refuses.
        const bool limit = file.status().code() == StatusCode::kPayloadTooLarge;
        EXPECT_TRUE(limit || file.status().message().find("open files") != std::string::npos);
        break;
      }
      files.push_back(*std::move(file));
      ASSERT_LE(files.size(), MappedFile::kMappedMax);
    }
    EXPECT_GT(files.size(), 500u);
  }
}

}  // namespace
}  // namespace penstock::files
