#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "api/bulk_runs.h"
#include "api/service.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

using testing::HasSubstr;

// Says that it holds memory once it has run.
class HoldingRunner : public engine::FakeEncoderRunner {
 public:
  explicit HoldingRunner(std::atomic<uint64_t>* held, std::function<void()> before_run)
      : engine::FakeEncoderRunner(0, std::move(before_run)), held_(held) {}
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    *held_ = 64 << 20;
    return engine::FakeEncoderRunner::Run(batch, output, sinks);
  }
  uint64_t HeldBytes() const override { return *held_; }
  uint64_t ReleaseMemory() override { return held_->exchange(0); }

 private:
  std::atomic<uint64_t>* held_;
};

class ServiceBulk : public testing::Test {
 protected:
  ServiceBulk() {
    auto parts = engine::FakeParts(families::ModelTask::kEmbedding);
    parts.runners[0] = std::make_unique<HoldingRunner>(&held_, [this] {
      if (before_run_) before_run_();
    });
    engine::EncoderEngineOptions options;
    options.name = "embedder";
    EXPECT_TRUE(registry_
                    .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options,
                                                                       &metrics_))
                    .ok());
    service_ = std::make_unique<Service>(&registry_, ServiceOptions{}, &metrics_);
  }
  std::future<Status> Embed(const std::string& run) {
    EmbedRequest request;
    request.inputs.push_back({"t2", {}, false});
    RequestContext context;
    context.bulk_run = run;
    auto promise = std::make_shared<std::promise<Status>>();
    service_->Embed(std::move(request), context, [promise](Expected<EmbedResponse> response) {
      promise->set_value(response.status());
    });
    return promise->get_future();
  }
  Expected<BulkRunEnded> End(const std::string& id) {
    std::promise<Expected<BulkRunEnded>> promise;
    service_->EndBulkRun(id, [&](Expected<BulkRunEnded> ended) { promise.set_value(ended); });
    return promise.get_future().get();
  }

  std::atomic<uint64_t> held_{0};
  std::function<void()> before_run_;
  metrics::Metrics metrics_;
  registry::Registry registry_{nullptr, &metrics_};
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceBulk, TheEndGivesMemoryBack) {
  const auto run = service_->BeginBulkRun();
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->idle_s_max, 600);
  ASSERT_TRUE(Embed(run->id).get().ok());
  ASSERT_TRUE(Embed(run->id).get().ok());
  const auto ended = End(run->id);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->id, run->id);
  EXPECT_EQ(ended->requests, 2);
  EXPECT_TRUE(ended->released) << ended->reason;
  EXPECT_EQ(held_, 0u);
}

TEST_F(ServiceBulk, NothingRanOrAnotherRunIsOpen) {
  const auto idle = service_->BeginBulkRun();
  EXPECT_EQ(End(idle->id)->reason, "nothing ran since the run began");
  const auto one = service_->BeginBulkRun(), two = service_->BeginBulkRun();
  ASSERT_TRUE(Embed("").get().ok());  // part of no run
  const auto first = End(one->id);
  EXPECT_FALSE(first->released);
  EXPECT_EQ(first->reason, "1 other bulk run is open");
  EXPECT_GT(held_, 0u);
  EXPECT_TRUE(End(two->id)->released);
}

TEST_F(ServiceBulk, AnotherClientIsBusy) {
  const auto run = service_->BeginBulkRun();
  ASSERT_TRUE(Embed(run->id).get().ok());
  std::promise<void> gate;
  before_run_ = [open = gate.get_future().share()] { open.wait(); };
  auto busy = std::async(std::launch::async, [this] { return Embed("").get(); });
  while (metrics_.Render().find("penstock_requests_in_flight 1\n") == std::string::npos) {
    std::this_thread::yield();
  }
  const auto ended = End(run->id);
  gate.set_value();
  EXPECT_TRUE(busy.get().ok());
  EXPECT_FALSE(ended->released);
  EXPECT_EQ(ended->reason, "1 request is in flight");
}

TEST_F(ServiceBulk, UnknownRunsAreRefused) {
  const Status status = Embed("bulk-0").get();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.field(), "bulk_run");
  EXPECT_EQ(End("bulk-0").status().field(), "id");
  service_->StopAccepting();
  EXPECT_EQ(service_->BeginBulkRun().status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace penstock::api
