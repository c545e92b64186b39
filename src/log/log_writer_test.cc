// LogWriter on a pipe that is not read, one that is read late, and one that is closed.
#include "log/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>
#include <thread>

#include "base/eventually_test_util.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kLong{30};
constexpr size_t kQueueBytes = 16 << 10;

class LogWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    ASSERT_GT(fcntl(pipe_[1], F_SETPIPE_SZ, 4096), 0);
  }
  // The writing end stays open: a thread that has no end writes to it.
  void TearDown() override {
    if (reads_) close(pipe_[0]);
  }
  // A line of 100 bytes.
  static std::string Line(int number) {
    std::string line = std::to_string(number) + " ";
    line.resize(99, 'x');
    return line + "\n";
  }
  std::string ReadAll() {
    fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char block[4096];
    for (ssize_t got; (got = read(pipe_[0], block, sizeof block)) > 0;) {
      text.append(block, static_cast<size_t>(got));
    }
    return text;
  }

  int pipe_[2] = {-1, -1};
  bool reads_ = true;
};

TEST_F(LogWriterTest, WritesAllLinesInOrder) {
  LogWriter* const writer = LogWriter::Start({.fd = pipe_[1]});
  std::string sent;
  for (int i = 0; i < 30; ++i) {
    sent += Line(i);
    writer->Write(Line(i));
  }
  ASSERT_TRUE(writer->Flush(kLong));
  EXPECT_EQ(ReadAll(), sent);
  EXPECT_EQ(writer->dropped(), 0u);
}

TEST_F(LogWriterTest, AFullPipeDropsLinesAndHoldsNobodyUp) {
  std::atomic<uint64_t> told{0};
  LogWriter::Options options{.fd = pipe_[1], .queue_bytes_max = kQueueBytes};
  options.on_dropped = [&told](uint64_t lines) { told += lines; };
  LogWriter* const writer = LogWriter::Start(std::move(options));
  constexpr int kLines = 1000;  // 100,000 bytes: far more than pipe and queue take
  for (int i = 0; i < kLines; ++i) writer->Write(Line(i));
  EXPECT_FALSE(writer->Flush(std::chrono::milliseconds(50)));
  const uint64_t dropped = writer->dropped();
  EXPECT_GT(dropped, 0u);
  EXPECT_GE(kLines - dropped, kQueueBytes / 100);  // the queue was used

  // Once the pipe is read all that was kept comes, whole and in order, and what was dropped is
  // told.
  std::string text;
  while (!writer->Flush(std::chrono::milliseconds(10))) text += ReadAll();
  text += ReadAll();
  std::istringstream lines(text);
  int last = -1;
  uint64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_EQ(line.size(), 99u);
    const int number = std::stoi(line);
    EXPECT_GT(number, last);
    last = number;
  }
  EXPECT_EQ(count + dropped, static_cast<uint64_t>(kLines));
  Eventually([&] { return told >= dropped; }, std::chrono::seconds(30));
  EXPECT_EQ(told, dropped);
  writer->Write(Line(kLines));
  ASSERT_TRUE(writer->Flush(kLong));
  EXPECT_EQ(ReadAll(), Line(kLines));
}

TEST_F(LogWriterTest, ALineOverTheWholeQueueIsDropped) {
  LogWriter* const writer = LogWriter::Start({.fd = pipe_[1], .queue_bytes_max = kQueueBytes});
  writer->Write(std::string(kQueueBytes + 1, 'x'));
  EXPECT_EQ(writer->dropped(), 1u);
  EXPECT_TRUE(writer->Flush(kLong));
}

TEST_F(LogWriterTest, AReaderThatHasGoneEndsNothing) {
  close(pipe_[0]);
  reads_ = false;
  LogWriter* const writer = LogWriter::Start({.fd = pipe_[1]});
  writer->Write(Line(1));
  writer->Write(Line(2));
  ASSERT_TRUE(writer->Flush(kLong));
  EXPECT_EQ(writer->dropped(), 2u);
}

// Another program may share the pipe and have made it non-blocking.
TEST_F(LogWriterTest, ANonBlockingPipeLosesNothing) {
  fcntl(pipe_[1], F_SETFL, O_NONBLOCK);
  LogWriter* const writer = LogWriter::Start({.fd = pipe_[1], .queue_bytes_max = 1 << 20});
  std::string sent, text;
  for (int i = 0; i < 500; ++i) {
    sent += Line(i);
    writer->Write(Line(i));
  }
  while (!writer->Flush(std::chrono::milliseconds(1))) text += ReadAll();
  EXPECT_EQ(text + ReadAll(), sent);
  EXPECT_EQ(writer->dropped(), 0u);
}

}  // namespace
}  // namespace penstock
