#include "grammar/grammar_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>

#include "grammar/grammar_spec.h"

namespace penstock::grammar {
namespace {

class FakeGrammar final : public Grammar {
 public:
  Expected<std::unique_ptr<Constraint>> Begin() const override {
    return Status::Internal("of no use");
  }
  const GrammarVocabulary& vocabulary() const override { return vocabulary_; }
  size_t bytes() const override { return 1000; }

 private:
  GrammarVocabulary vocabulary_;
};

// Waits for `gate` before each one.
struct FakeCompiler final : GrammarCompiler {
  std::atomic<int>* compiled;
  std::mutex* gate;

  Expected<std::shared_ptr<const Grammar>> Compile(const GrammarSpec& spec) override {
    const std::lock_guard lock(*gate);
    ++*compiled;
    if (spec.text == "throws") throw std::bad_alloc();
    if (spec.text == "bad") return Status::InvalidArgument("bad", spec.field);
    return std::shared_ptr<const Grammar>(std::make_shared<FakeGrammar>());
  }
};

class GrammarCacheTest : public testing::Test {
 protected:
  using Result = Expected<std::shared_ptr<const Grammar>>;

  void Make(GrammarCacheOptions options = {}) {
    cache_ = std::make_unique<GrammarCache>(
        [this]() -> Expected<std::unique_ptr<GrammarCompiler>> {
          auto made = std::make_unique<FakeCompiler>();
          made->compiled = &compiled_;
          made->gate = &gate_;
          return std::unique_ptr<GrammarCompiler>(std::move(made));
        },
        options);
  }
  std::future<Result> Ask(const std::string& text, Status wanted = Status::Ok()) {
    auto promise = std::make_shared<std::promise<Result>>();
    cache_->Get(
        {GrammarKind::kRegex, text, {}, "field"}, [wanted] { return wanted; },
        [promise](Result result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }

  std::atomic<int> compiled_{0};
  std::mutex gate_;
  std::unique_ptr<GrammarCache> cache_;
};

TEST_F(GrammarCacheTest, CompilesOnce) {
  Make();
  const auto first = Ask("a").get();
  const auto again = Ask("a").get();
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(cache_->stats().hits, 1u);
}

TEST_F(GrammarCacheTest, TwoThatWaitForOneCompileItOnce) {
  Make();
  std::unique_lock held(gate_);
  auto first = Ask("a");
  auto second = Ask("a");
  held.unlock();
  EXPECT_EQ(*first.get(), *second.get());
  EXPECT_EQ(compiled_, 1);
}

TEST_F(GrammarCacheTest, KeepsTheNewestWithinItsBytes) {
  Make({.bytes_max = 2500});
  for (const char* text : {"a", "b", "a", "c"}) EXPECT_TRUE(Ask(text).get().ok());
  EXPECT_EQ(compiled_, 3);
  EXPECT_TRUE(Ask("a").get().ok());
  EXPECT_EQ(compiled_, 3);
  EXPECT_TRUE(Ask("b").get().ok());
  EXPECT_EQ(compiled_, 4);
  EXPECT_LE(cache_->stats().bytes, 2500u);
}

TEST_F(GrammarCacheTest, ErrorsGoToWhoAsked) {
  Make();
  EXPECT_EQ(Ask("bad").get().status().message(), "bad");
  EXPECT_EQ(Ask("throws").get().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Ask("a{99999}").get().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask("x", Status(StatusCode::kCancelled, "left")).get().status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(cache_->stats().refused, 3u);
}

TEST_F(GrammarCacheTest, ARefusalIsKept) {
  Make();
  EXPECT_EQ(Ask("bad").get().status().field(), "field");
  EXPECT_EQ(Ask("bad").get().status().message(), "bad");
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(cache_->stats().refused, 2u);
  EXPECT_FALSE(Ask("throws").get().ok());
  EXPECT_FALSE(Ask("throws").get().ok());
  EXPECT_EQ(compiled_, 3) << "there may be memory the next time";
}

TEST_F(GrammarCacheTest, BoundsThoseThatWait) {
  Make({.queue_max = 2});
  std::unique_lock held(gate_);
  std::vector<std::future<Result>> asked;
  for (int i = 0; i < 6; ++i) asked.push_back(Ask("a" + std::to_string(i)));
  held.unlock();
  int refused = 0;
  for (auto& each : asked) {
    const Result result = each.get();
    refused += result.ok() ? 0 : 1;
    if (result.ok()) continue;
    EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted);
  }
  EXPECT_GE(refused, 3);
}

TEST_F(GrammarCacheTest, OneThatWaitsTooLongIsTold) {
  Make({.wait_max = std::chrono::milliseconds(0)});
  EXPECT_EQ(Ask("a").get().status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(GrammarCacheTest, EndsWithThoseThatWait) {
  Make();
  std::unique_lock held(gate_);
  auto first = Ask("a");
  auto second = Ask("b");
  std::thread ends([&] { cache_.reset(); });
  held.unlock();
  ends.join();
  for (auto* each : {&first, &second}) {
    const Result result = each->get();
    EXPECT_TRUE(result.ok() || result.status().code() == StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace penstock::grammar
