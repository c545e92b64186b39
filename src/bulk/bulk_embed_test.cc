#include "bulk/bulk_embed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "base/temp_folder_test_util.h"

namespace penstock::bulk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BulkWindow, CutsLongestFirst) {
  BulkWindow window;
  for (const char* text : {"ccc", "a", "dddd", "bb", "BB"})
    window.Add({.text = text, .where = text});
  EXPECT_THAT(window.Cut(2), ElementsAre(ElementsAre(2, 0), ElementsAre(3, 4), ElementsAre(1)));
  EXPECT_TRUE(window.IsFull(5));
  EXPECT_FALSE(window.IsFull(6));
}

TEST(BulkWindow, RequestsAreBoundedInBytes) {
  BulkWindow window;
  const size_t half = BulkWindow::kRequestBytesMax / 2;
  for (const size_t bytes : {half, half, half, 3 * half, size_t{1}}) {
    window.Add({.text = std::string(bytes, 'x')});
  }
  // One that is over the bound goes alone.
  EXPECT_THAT(window.Cut(100), ElementsAre(ElementsAre(3), ElementsAre(0, 1), ElementsAre(2, 4)));
}

TEST(BulkWindow, PutsVectorsInTheirPlace) {
  BulkWindow window;
  for (const char* text : {"a", "b", "c"}) window.Add({.text = text, .where = text});
  EXPECT_FALSE(*window.Place({2, 0}, std::vector<float>{20, 21, 0, 1}, 2));
  EXPECT_FALSE(window.Place({1}, std::vector<float>{10}, 1).ok());
  EXPECT_FALSE(window.Place({1}, std::vector<float>{10}, 2).ok());
  EXPECT_TRUE(*window.Place({1}, std::vector<float>{10, 11}, 2));
  EXPECT_THAT(window.values(), ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST(BulkWindow, NamesTheLine) {
  BulkWindow window;
  for (const char* where : {"f:1", "f:2", "f:3"}) window.Add({.text = "x", .where = where});
  const BulkWindow::Rows rows = {2, 0};
  for (const char* field : {"inputs[1]", "input[1]"}) {
    const Status status = window.NameLine(Status::InvalidArgument("too long", field), rows);
    EXPECT_EQ(status.message(), "f:1: too long");
  }
  for (const char* field : {"", "inputs[2]", "inputs[x]", "inputs"}) {
    const Status status = window.NameLine(Status::InvalidArgument("broken", field), rows);
    EXPECT_EQ(status.message(), "f:3 or one of 1 lines like it: broken");
  }
}

TEST(RowSource, ABadRowEndsTheRun) {
  const TempFolder folder;
  corpus::RowReader reader({folder.Write("in.txt", "one\ntw\xff\n")},
                           {.format = corpus::InputFormat::kText});
  RowSource source(&reader);
  const auto row = source.Next();
  ASSERT_TRUE(row.ok() && *row);
  EXPECT_EQ((*row)->text, "one");
  EXPECT_EQ(source.mark().rows, 1);
  EXPECT_THAT(source.Next().status().message(), HasSubstr("in.txt:2: not UTF-8"));
}

class EmbedInBulkTest : public testing::Test {
 protected:
  // Embeds texts of digits as [the number, its length], each request on a thread of its own.
  Status Embed(const std::vector<std::string>& texts, const BulkOptions& options,
               const std::string& bad = "none",
               const Status& refusal = Status::InvalidArgument("bad")) {
    {
      std::ofstream file(path_);
      for (const std::string& text : texts) file << text << '\n';
    }
    corpus::RowReader reader({path_}, {.format = corpus::InputFormat::kText});
    std::vector<std::jthread> threads;
    std::atomic<size_t> at_once{0};
    const auto start = [&](std::vector<std::string> rows, api::Callback<api::EmbedResponse> done) {
      at_once_max_ = std::max(at_once_max_, ++at_once);
      rows_max_ = std::max(rows_max_, rows.size());
      ++requests_;
      threads.emplace_back(
          [&at_once, &bad, &refusal, rows = std::move(rows), done = std::move(done)] {
            api::EmbedResponse response;
            response.dimensions = 2;
            for (size_t i = 0; i < rows.size(); ++i) {
              if (rows[i] == bad) {
                --at_once;
                const std::string field = refusal.field() + "[" + std::to_string(i) + "]";
                return done(Status(refusal.code(), refusal.message(),
                                   refusal.field().empty() ? "" : field));
              }
              response.values.push_back(std::stof(rows[i]));
              response.values.push_back(static_cast<float>(rows[i].size()));
            }
            --at_once;
            done(std::move(response));
          });
    };
    RowSource source(&reader, options.skip);
    return EmbedInBulk(
        &source, options, start,
        [&](const BulkWindow& window) {
          EXPECT_EQ(window.dimensions(), 2);
          got_.insert(got_.end(), window.values().begin(), window.values().end());
          for (size_t row = 0; row < window.rows(); ++row) {
            if (window.error(row)) errors_.push_back(window.where(row) + ": " + *window.error(row));
          }
          EXPECT_EQ(window.mark().rows, static_cast<int64_t>(got_.size()) / 2);
          if (stop_after_ > 0 && window.mark().rows >= stop_after_) options.stop->Cancel();
          return Status::Ok();
        },
        [&](size_t rows, const api::EmbedResponse&, int64_t bytes) {
          done_rows_ += rows;
          done_bytes_ += bytes;
        });
  }

  const TempFolder folder_;
  const std::string path_ = folder_ / "texts";
  std::vector<float> got_;
  std::vector<std::string> errors_;
  size_t at_once_max_ = 0, rows_max_ = 0, done_rows_ = 0, requests_ = 0;
  int64_t done_bytes_ = 0;
  int64_t stop_after_ = 0;  // rows
};

TEST(WindowPace, FollowsTheModel) {
  using std::chrono::duration_cast;
  const Clock::time_point begin{};
  const auto at = [begin](double seconds) {
    return begin + duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  WindowPace slow(1000, begin);
  EXPECT_EQ(slow.rows(), WindowPace::kFirstRows);
  slow.Done(8, at(80));  // ten seconds a row
  EXPECT_EQ(slow.rows(), 1u);
  slow.Done(1, at(80.1));
  EXPECT_EQ(slow.rows(), WindowPace::kGrowth);
  WindowPace fast(100, begin);
  fast.Done(8, at(0.001));
  EXPECT_EQ(fast.rows(), 32u);
  fast.Done(32, at(0.002));
  EXPECT_EQ(fast.rows(), 100u);
  fast.Done(100, at(3.002));  // 33 a second
  EXPECT_EQ(fast.rows(), 50u);
  EXPECT_EQ(WindowPace(3, begin).rows(), 3u);
}

TEST_F(EmbedInBulkTest, StopsBetweenRequests) {
  stop_after_ = 20;
  const Status status =
      Embed(std::vector<std::string>(1000, "7"), {.window_rows = 10, .requests = 1});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_GE(got_.size(), 40u);
  EXPECT_LE(got_.size(), 80u);
}

TEST_F(EmbedInBulkTest, TheDigestIsOfTheRowsInTheirOrder) {
  const auto digest = [](const std::vector<std::string>& rows) {
    RowsDigest made;
    for (const std::string& row : rows) made.Add(row);
    return made.Hex();
  };
  EXPECT_EQ(digest({"a", "b"}), digest({"a", "b"}));
  EXPECT_NE(digest({"a", "b"}), digest({"ab"}));
  EXPECT_NE(digest({"a", "b"}), digest({"b", "a"}));
  EXPECT_NE(digest({"a"}), digest({"a", ""}));
  EXPECT_EQ(digest({}).size(), 64u);
}

TEST_F(EmbedInBulkTest, RestoresTheOrder) {
  std::mt19937 random(7);
  for (const size_t rows : {0, 1, 9, 10, 11, 257}) {
    got_.clear();
    std::vector<std::string> texts;
    for (size_t i = 0; i < rows; ++i) {
      texts.push_back(std::string(random() % 5, '0') + std::to_string(i));
    }
    ASSERT_TRUE(Embed(texts, {.window_rows = 10, .request_rows = 3, .requests = 4}).ok());
    ASSERT_EQ(got_.size(), 2 * rows);
    for (size_t i = 0; i < rows; ++i) {
      EXPECT_EQ(got_[2 * i], static_cast<float>(i));
      EXPECT_EQ(got_[2 * i + 1], static_cast<float>(texts[i].size()));
    }
  }
  EXPECT_LE(at_once_max_, 4u);
  EXPECT_EQ(rows_max_, 3u);
  EXPECT_EQ(done_rows_, 288u);
}

TEST_F(EmbedInBulkTest, AFailureNamesTheLineAndKeepsWhatIsWhole) {
  const Status status = Embed({"1", "2", "3", "4", "5", "6", "7"},
                              {.window_rows = 2, .request_rows = 2, .requests = 1}, "6",
                              Status::InvalidArgument("bad", "inputs"));
  EXPECT_EQ(status.message(), path_ + ":6: bad");
  EXPECT_THAT(got_, ElementsAre(1, 1, 2, 1, 3, 1, 4, 1));
}

TEST_F(EmbedInBulkTest, SkipsWhatIsRefused) {
  for (const size_t bad : {0, 1, 30, 63}) {
    for (const char* field : {"", "inputs"}) {
      got_.clear();
      errors_.clear();
      std::vector<std::string> texts(64, "7");
      texts[bad] = "8";
      const Status status =
          Embed(texts, {.window_rows = 64, .request_rows = 16, .skip = true, .dimensions = 2}, "8",
                Status::InvalidArgument("bad", field));
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_THAT(errors_, ElementsAre(path_ + ":" + std::to_string(bad + 1) + ": bad"));
      ASSERT_EQ(got_.size(), 128u);
      for (size_t i = 0; i < 64; ++i) EXPECT_EQ(got_[2 * i], i == bad ? 0 : 7);
    }
  }
}

TEST_F(EmbedInBulkTest, FindsTheRowAtFaultByHalves) {
  std::vector<std::string> texts(1024, "7");
  texts[900] = "8";
  ASSERT_TRUE(
      Embed(texts, {.window_rows = 1024, .request_rows = 256, .requests = 1, .skip = true}, "8")
          .ok());
  EXPECT_EQ(errors_.size(), 1u);
  // Windows grow from 8 rows: some requests of 256 or fewer, and two for each halving of one.
  EXPECT_LT(requests_, 40u);
}

TEST_F(EmbedInBulkTest, AllRowsMayBeSkipped) {
  ASSERT_TRUE(Embed(std::vector<std::string>(50, "8"),
                    {.window_rows = 10, .request_rows = 3, .skip = true, .dimensions = 2}, "8")
                  .ok());
  EXPECT_EQ(errors_.size(), 50u);
  EXPECT_EQ(got_, std::vector<float>(100, 0.0f));
}

TEST_F(EmbedInBulkTest, AFailureOfTheRunSkipsNothing) {
  for (const StatusCode code : {StatusCode::kNotFound, StatusCode::kUnauthenticated,
                                StatusCode::kUnavailable, StatusCode::kInternal}) {
    got_.clear();
    const Status status = Embed({"1", "8", "3"}, {.skip = true}, "8", Status(code, "gone"));
    EXPECT_EQ(status.message(), "gone");
    EXPECT_THAT(errors_, testing::IsEmpty());
    EXPECT_THAT(got_, testing::IsEmpty());
  }
}

TEST(IsOfRow, LooksAtCodeAndField) {
  EXPECT_TRUE(IsOfRow(Status::InvalidArgument("too long")));
  EXPECT_TRUE(IsOfRow(Status::InvalidArgument("too long", "input[3]")));
  EXPECT_TRUE(IsOfRow({StatusCode::kPayloadTooLarge, "too long", "inputs"}));
  EXPECT_TRUE(IsOfRow({StatusCode::kInternal, "not finite", "inputs[3]"}));
  EXPECT_FALSE(IsOfRow({StatusCode::kInternal, "broken"}));
  for (const char* field : {"model", "dimensions", "prompt_name", "input_type"}) {
    EXPECT_FALSE(IsOfRow(Status::InvalidArgument("no", field))) << field;
  }
  EXPECT_FALSE(IsOfRow({StatusCode::kUnavailable, "busy", "input[3]"}));
}

}  // namespace
}  // namespace penstock::bulk
