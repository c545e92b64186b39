#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/temp_folder_test_util.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RegularFileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Write(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }

  const TempFolder folder_;
};

TEST_F(RegularFileTest, ReadsUpToItsLimit) {
  const std::string text(3'000'000, 'x');
  EXPECT_EQ(*ReadRegularFile(Write("empty", ""), 0), "");
  EXPECT_EQ(*ReadRegularFile(Write("a", text), text.size()), text);
  EXPECT_EQ(*ReadRegularFile(Path("a"), text.size() * 2), text);
  const Status over = ReadRegularFile(Path("a"), text.size() - 1).status();
  EXPECT_EQ(over.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(over.message(), HasSubstr("larger than 2999999 bytes"));
  fs::create_symlink(Path("a"), Path("link"));
  EXPECT_EQ(ReadRegularFile(Path("link"), 1 << 22)->size(), text.size());
  // A file of the kernel's that says it has no bytes, and has some.
  EXPECT_GT(ReadRegularFile("/proc/self/status", 1 << 20)->size(), 100u);
  EXPECT_EQ(ReadRegularFile(Path("none"), 1).status().code(), StatusCode::kNotFound);
}

// Opening a FIFO would wait for a writer, reading a device might never end.
TEST_F(RegularFileTest, RefusesWhatIsNoFileAtOnce) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  fs::create_symlink(Path("fifo"), Path("link"));
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, Path("socket").c_str());
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const auto& [path, kind] : {std::pair(Path("fifo"), "a FIFO"),
                                   {Path("link"), "a FIFO"},
                                   {Path("socket"), "a socket"},
                                   {std::string("/dev/zero"), "a device"},
                                   {folder_.text(), "a directory"}}) {
    const Status status = OpenRegularFile(path).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(status.message(), path + " is " + kind + ", not a regular file");
    EXPECT_FALSE(ReadRegularFile(path, 10).ok());
  }
  close(listener);
}

}  // namespace
}  // namespace penstock
