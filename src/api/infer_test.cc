#include "api/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "api/service.h"
#include "base/failing_new.h"
#include "engine/builtin_models.h"
#include "engine/fake_engine.h"
#include "engine/tensor_engine.h"
#include "registry/registry.h"
#include "telemetry/collector.h"

namespace penstock::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <typename T>
std::vector<T> ValuesOf(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A call that keeps what it was told.
class TestCall final : public InferCall {
 public:
  void Done(const Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    results_.clear();
    shapes_.clear();
    for (const Output& output : outputs) {
      results_[output.name].assign(output.bytes.begin(), output.bytes.end());
      shapes_[output.name] = output.shape;
    }
    ++answers_;
    answered_.notify_all();
  }
  Status Wait(int answers = 1) {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return answers_ >= answers; });
    return status_;
  }
  int answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }
  template <typename T>
  std::vector<T> Result(const std::string& name) {
    return ValuesOf<T>(results_.at(name));
  }
  std::vector<int64_t> Shape(const std::string& name) { return shapes_.at(name); }

  template <typename T>
  void Add(const std::string& name, signature::ElementType type, std::vector<int64_t> shape,
           const std::vector<T>& values) {
    inputs.push_back({name, type, std::move(shape), BytesOf(values)});
  }
  void Ask(const std::string& name, std::span<std::byte> sink = {}) {
    Output& output = outputs.emplace_back();
    output.name = name;
    output.sink = sink;
  }

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  int answers_ = 0;
  Status status_;
  std::map<std::string, std::vector<std::byte>> results_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

// BYTES elements of these texts.
std::vector<std::byte> Texts(const std::vector<std::string>& texts) {
  std::vector<std::byte> bytes;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    const auto* from = reinterpret_cast<const std::byte*>(&length);
    bytes.insert(bytes.end(), from, from + sizeof length);
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), begin, begin + text.size());
  }
  return bytes;
}

class InferTest : public testing::Test {
 protected:
  // References with options of their own: `references` by name.
  void Serve(std::vector<std::pair<std::string, std::string>> references,
             registry::RegistryOptions options = {}, const ServiceOptions& limits = {}) {
    service_.reset();
    registry_ = std::make_unique<registry::Registry>(
        nullptr, &metrics_,
        [this](const registry::ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
          if (!engine::IsBuiltinModel(spec.reference)) {
            engine::EncoderEngineOptions encoder;
            encoder.name = spec.name;
            return std::unique_ptr<engine::Model>(new engine::EncoderEngine(
                engine::FakeParts(families::ModelTask::kEmbedding), encoder, &metrics_));
          }
          engine::TensorEngineOptions tensors = spec.options.tensors;
          tensors.name = spec.name;
          tensors.version = spec.version;
          PENSTOCK_ASSIGN_OR_RETURN(
              std::unique_ptr<engine::Model> model,
              engine::TensorEngine::Load(spec.reference, tensors, nullptr, &metrics_));
          return model;
        },
        options);
    for (auto& [name, reference] : references) {
      registry::ModelSpec spec;
      spec.name = name;
      spec.reference = reference;
      spec.version = name == "versioned" ? 3 : 0;
      ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    registry_->StartLoading();
    const Status loaded = registry_->WaitLoaded();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    service_ = std::make_unique<Service>(registry_.get(), limits, &metrics_);
  }
  Status Infer(InferCall* call) {
    service_->Infer(call);
    return static_cast<TestCall*>(call)->Wait();
  }
  // The failure of a call that `change` made of a good one for "add".
  Status Refused(const std::function<void(TestCall*)>& change) {
    const std::vector<int32_t> a(32, 5), b(32, 2);
    TestCall call;
    call.model = "add";
    call.Add("INPUT0", signature::ElementType::kInt32, {2, 16}, a);
    call.Add("INPUT1", signature::ElementType::kInt32, {2, 16}, b);
    change(&call);
    const Status status = Infer(&call);
    EXPECT_FALSE(status.ok());
    for (const InferCall::Output& output : call.outputs) EXPECT_TRUE(output.bytes.empty());
    return status;
  }

  metrics::Metrics metrics_;
  std::unique_ptr<registry::Registry> registry_;
  std::unique_ptr<Service> service_;
};

// What /v1/stats and the web page say of tensor models, and what both count is the same.
TEST_F(InferTest, IsCountedInStatisticsAndSamples) {
  Serve({{"add", "builtin:add?type=INT32&shape=2&batch=8"}});
  const telemetry::Snapshot before = service_->TakeSnapshot();
  const std::vector<int32_t> a = {1, 2, 3, 4}, b = {10, 20, 30, 40};
  for (int i = 0; i < 3; ++i) {
    TestCall call;
    call.model = "add";
    const auto trace = std::make_shared<metrics::RequestTrace>(Clock::now());
    call.context.trace = trace;
    call.Add("INPUT0", signature::ElementType::kInt32, {2, 2}, a);
    call.Add("INPUT1", signature::ElementType::kInt32, {2, 2}, b);
    ASSERT_TRUE(Infer(&call).ok());
    EXPECT_STREQ(trace->model(), "add");
    EXPECT_EQ(trace->rows(), 2);
    EXPECT_GT(trace->ns(metrics::Stage::kForward), 0);
  }
  const auto told = [&] { return service_->GetStats().window.models.at(0); };
  ASSERT_EQ(told().kind, telemetry::Snapshot::Model::Kind::kTensors);
  // A run is counted after its answers.
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  while (told().rows < 6 && Clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(told().requests, 3u);
  EXPECT_EQ(told().tensors.queued_rows, 0);
  EXPECT_EQ(told().tensors.queued_bytes, 0);
  EXPECT_EQ(told().tensors.max_batch_size, 8);
  EXPECT_EQ(told().rows, 6u);
  const telemetry::Snapshot now = service_->TakeSnapshot();
  EXPECT_EQ(now.infers.Since(before.infers).count(), 3u);
  const telemetry::Snapshot::Model& sums = now.models.at(0);
  EXPECT_EQ(sums.rows, 6u);
  EXPECT_EQ(sums.batches, told().batches);
  EXPECT_DOUBLE_EQ(sums.fill, 6.0 / 8);
  ASSERT_TRUE(registry_->Unload("add").get().ok());
  EXPECT_EQ(told().tensors.max_batch_size, 0);
  EXPECT_EQ(told().requests, 3u);
  EXPECT_EQ(service_->TakeSnapshot().models.at(0).rows, sums.rows);
  service_->ResetStats();
  EXPECT_EQ(told().requests, 0u);
}

// Schedulers of tensor models count for themselves, and end with the model.
TEST_F(InferTest, CountsGoOnWhereAModelIsUnloadedOrRemovedAndComesAgain) {
  Serve({{"same", "builtin:identity?shape=1"}}, {.on_demand = true});
  const std::vector<float> one = {1};
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      TestCall call;
      call.model = "same";
      call.Add("INPUT0", signature::ElementType::kFp32, {1, 1}, one);
      ASSERT_TRUE(Infer(&call).ok());
    }
  };
  const auto told = [&] { return service_->TakeSnapshot().models.at(0).requests; };
  ask(3);
  EXPECT_EQ(told(), 3u);
  ASSERT_TRUE(registry_->Unload("same").get().ok());
  EXPECT_EQ(told(), 3u);
  ask(4);  // loads it
  EXPECT_EQ(told(), 7u);
  ASSERT_TRUE(registry_->Remove("same").ok());
  const telemetry::Snapshot without = service_->TakeSnapshot();
  ASSERT_EQ(without.gone.size(), 1u);
  EXPECT_EQ(without.gone[0].requests, 7u);
  registry::ModelSpec spec;
  spec.name = "same";
  spec.reference = "builtin:identity?shape=1";
  ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
  EXPECT_EQ(told(), 7u);  // what it is, nothing says yet
  ask(2);
  EXPECT_EQ(told(), 9u);
  EXPECT_EQ(service_->TakeSnapshot().Since(without).models.at(0).requests, 2u);
}

TEST_F(InferTest, AddsRows) {
  Serve({{"add", "builtin:add?type=INT32&shape=2"}});
  const std::vector<int32_t> a = {1, 2, 3, 4}, b = {10, 20, 30, 40};
  TestCall call;
  call.model = "add";
  // In another order than the model's.
  call.Add("INPUT1", signature::ElementType::kInt32, {2, 2}, b);
  call.Add("INPUT0", signature::ElementType::kInt32, {2, 2}, a);
  ASSERT_TRUE(Infer(&call).ok());
  EXPECT_EQ(call.served_model(), "add");
  EXPECT_EQ(call.served_version(), 0);
  EXPECT_THAT(call.outputs, SizeIs(2));
  EXPECT_THAT(call.Result<int32_t>("OUTPUT0"), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(call.Result<int32_t>("OUTPUT1"), ElementsAre(-9, -18, -27, -36));
  EXPECT_THAT(call.Shape("OUTPUT0"), ElementsAre(2, 2));
  EXPECT_EQ(call.outputs[0].type, signature::ElementType::kInt32);
}

TEST_F(InferTest, GivesTheOutputsThatAreAskedForWhereTheyAreWanted) {
  Serve({{"add", "builtin:add?type=INT32&shape=2"}});
  const std::vector<int32_t> a = {1, 2}, b = {10, 20};
  std::vector<int32_t> sink(2);
  TestCall call;
  call.Add("INPUT0", signature::ElementType::kInt32, {1, 2}, a);
  call.Add("INPUT1", signature::ElementType::kInt32, {1, 2}, b);
  call.Ask("OUTPUT1", std::as_writable_bytes(std::span(sink)));
  ASSERT_TRUE(Infer(&call).ok());  // without a name: the only model
  EXPECT_THAT(sink, ElementsAre(-9, -18));
  EXPECT_THAT(call.outputs, SizeIs(1));
  EXPECT_EQ(call.outputs[0].bytes.data(), std::as_bytes(std::span(sink)).data());
}

TEST_F(InferTest, ACallIsUsedAgain) {
  Serve({{"add", "builtin:add?type=INT32&shape=2"}});
  std::vector<int32_t> a = {1, 2}, b = {10, 20};
  TestCall call;
  call.model = "add";
  call.may_lead = true;
  call.Add("INPUT0", signature::ElementType::kInt32, {1, 2}, a);
  call.Add("INPUT1", signature::ElementType::kInt32, {1, 2}, b);
  for (int i = 1; i <= 100; ++i) {
    a[0] = i;
    service_->Infer(&call);
    ASSERT_TRUE(call.Wait(i).ok());
    EXPECT_THAT(call.Result<int32_t>("OUTPUT0"), ElementsAre(i + 10, 22));
  }
  // After a refusal, too.
  call.inputs[0].shape = {1, 3};
  service_->Infer(&call);
  ASSERT_FALSE(call.Wait(101).ok());
  call.inputs[0].shape = {1, 2};
  service_->Infer(&call);
  ASSERT_TRUE(call.Wait(102).ok());
}

TEST_F(InferTest, LargerThanABatch) {
  Serve({{"same", "builtin:identity?type=FP32&shape=3&batch=8"}});
  std::vector<float> values(3 * 1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  TestCall call;
  call.model = "same";
  call.Add("INPUT0", signature::ElementType::kFp32, {1000, 3}, values);
  ASSERT_TRUE(Infer(&call).ok());
  EXPECT_EQ(call.Result<float>("OUTPUT0"), values);
  EXPECT_THAT(call.Shape("OUTPUT0"), ElementsAre(1000, 3));
}

TEST_F(InferTest, AnyTypeAndShape) {
  Serve({{"bytes", "builtin:identity?type=BYTES&shape=-1&batch=0"},
         {"batch", "builtin:identity?type=BYTES&shape=1"},
         {"open", "builtin:identity?type=INT64&shape=-1x2&batch=0&inputs=2"}});
  const std::vector<std::byte> texts = Texts({"", "a", "text"});
  TestCall call;
  call.model = "bytes";
  call.Add("INPUT0", signature::ElementType::kBytes, {3}, texts);
  ASSERT_TRUE(Infer(&call).ok());
  EXPECT_EQ(call.Result<std::byte>("OUTPUT0"), texts);
  EXPECT_THAT(call.Shape("OUTPUT0"), ElementsAre(3));
  TestCall batch;
  batch.model = "batch";
  batch.Add("INPUT0", signature::ElementType::kBytes, {3, 1}, texts);
  ASSERT_TRUE(Infer(&batch).ok());
  EXPECT_EQ(batch.Result<std::byte>("OUTPUT0"), texts);

  const std::vector<int64_t> four = {1, 2, 3, 4}, none;
  TestCall open;
  open.model = "open";
  open.Add("INPUT0", signature::ElementType::kInt64, {2, 2}, four);
  open.Add("INPUT1", signature::ElementType::kInt64, {0, 2}, none);
  ASSERT_TRUE(Infer(&open).ok());
  EXPECT_EQ(open.Result<int64_t>("OUTPUT0"), four);
  EXPECT_THAT(open.Shape("OUTPUT1"), ElementsAre(0, 2));
}

TEST_F(InferTest, WrongInputsAreRefusedByName) {
  Serve({{"add", "builtin:add?type=INT32"}});
  const std::vector<float> floats(32);
  const std::vector<int32_t> ints(48);
  const auto expect = [&](const std::function<void(TestCall*)>& change, const std::string& part,
                          const char* field = "inputs") {
    const Status status = Refused(change);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(part));
    EXPECT_EQ(status.field(), field);
  };
  expect([](TestCall* call) { call->inputs.pop_back(); }, "input 'INPUT1' is missing");
  expect([](TestCall* call) { call->inputs[1].name = "INPUT0"; }, "'INPUT0' is given twice");
  expect([](TestCall* call) { call->inputs[1].name = "other"; },
         "has no input 'other'; its inputs are INPUT0, INPUT1");
  expect(
      [&](TestCall* call) {
        call->Add("third", signature::ElementType::kInt32, {2, 16}, ints);
      },
      "has no input 'third'");
  expect([](TestCall* call) { call->inputs[1].type = signature::ElementType::kFp32; },
         "'INPUT1' has type FP32; model 'add' takes INT32");
  expect([](TestCall* call) { call->inputs[1].shape = {2, 15}; }, "'INPUT1' has shape [2,15]");
  expect([](TestCall* call) { call->inputs[1].shape = {32}; }, "'INPUT1' has shape [32]");
  expect([](TestCall* call) { call->inputs[1].shape = {-2, 16}; }, "'INPUT1' has shape [-2,16]");
  expect([](TestCall* call) { call->inputs[0].shape = {0, 16}; }, "'INPUT0' has shape [0,16]");
  expect([](TestCall* call) { call->inputs[0].bytes = call->inputs[0].bytes.first(127); },
         "has 127 bytes instead of 128");
  expect(
      [](TestCall* call) {
        call->inputs[0].shape = {int64_t{1} << 60, 16};
      },
      "has 128 bytes and its shape over 2^59 elements");
  expect(
      [&](TestCall* call) {
        call->inputs[1].shape = {3, 16};
        call->inputs[1].bytes = BytesOf(ints);
      },
      "'INPUT1' has 3 rows and input 'INPUT0' 2");
  expect([](TestCall* call) { call->Ask("OUTPUT2"); }, "has no output 'OUTPUT2'", "outputs");
  expect(
      [](TestCall* call) {
        call->Ask("OUTPUT1");
        call->Ask("OUTPUT1");
      },
      "'OUTPUT1' is asked for twice", "outputs");
  std::vector<std::byte> small(127);
  expect([&](TestCall* call) { call->Ask("OUTPUT1", small); }, "'OUTPUT1' has 128 bytes",
         "outputs");
}

TEST_F(InferTest, BytesAreCounted) {
  Serve({{"bytes", "builtin:identity?type=BYTES&shape=-1&batch=0"}});
  const std::vector<std::byte> texts = Texts({"one", "two"});
  const auto refused = [&](std::span<const std::byte> bytes, int64_t elements) {
    TestCall call;
    call.model = "bytes";
    call.inputs.push_back({"INPUT0", signature::ElementType::kBytes, {elements}, bytes});
    return Infer(&call).code() == StatusCode::kInvalidArgument;
  };
  const std::span<const std::byte> whole(texts);
  EXPECT_FALSE(refused(whole, 2));
  EXPECT_TRUE(refused(whole, 1));
  EXPECT_TRUE(refused(whole, 3));
  EXPECT_TRUE(refused(whole, int64_t{1} << 59));
  EXPECT_TRUE(refused(whole.first(13), 2));
  EXPECT_TRUE(refused(whole.first(10), 2));
  EXPECT_TRUE(refused({}, 1));
  EXPECT_FALSE(refused({}, 0));
}

TEST_F(InferTest, ASinkOfAResultOfUnknownSizeIsLookedAtInTheEnd) {
  Serve({{"open", "builtin:identity?type=INT32&shape=-1&batch=0"}});
  const std::vector<int32_t> values = {1, 2, 3};
  std::vector<int32_t> sink(2);
  TestCall call;
  call.Add("INPUT0", signature::ElementType::kInt32, {3}, values);
  call.Ask("OUTPUT0", std::as_writable_bytes(std::span(sink)));
  EXPECT_EQ(Infer(&call).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(sink, ElementsAre(0, 0));
  sink.resize(3);
  call.outputs[0].sink = std::as_writable_bytes(std::span(sink));
  service_->Infer(&call);
  EXPECT_TRUE(call.Wait(2).ok());
  EXPECT_THAT(sink, ElementsAre(1, 2, 3));
}

TEST_F(InferTest, TheVersionMustBeTheServedOne) {
  Serve({{"versioned", "builtin:identity?shape=1"}, {"plain", "builtin:identity?shape=1"}});
  const std::vector<float> one = {1};
  const auto with = [&](const std::string& model, const std::string& version) {
    TestCall call;
    call.model = model;
    call.version = version;
    call.Add("INPUT0", signature::ElementType::kFp32, {1, 1}, one);
    const Status status = Infer(&call);
    EXPECT_EQ(call.served_version(), status.ok() && model == "versioned" ? 3 : 0);
    return status;
  };
  EXPECT_TRUE(with("versioned", "").ok());
  EXPECT_TRUE(with("versioned", "3").ok());
  const Status other = with("versioned", "2");
  EXPECT_EQ(other.code(), StatusCode::kNotFound);
  EXPECT_THAT(other.message(), HasSubstr("served in version 3, not '2'"));
  EXPECT_EQ(other.field(), "version");
  EXPECT_TRUE(with("plain", "").ok());
  EXPECT_TRUE(with("plain", "1").ok());
  EXPECT_EQ(with("plain", "2").code(), StatusCode::kNotFound);
}

TEST_F(InferTest, OtherModelsTakeNoTensors) {
  Serve({{"text", "embedder"}, {"same", "builtin:identity"}, {"add", "builtin:add"}});
  TestCall call;
  call.model = "text";
  const Status status = Infer(&call);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "model 'text' is for embedding: it offers embed, embed_all and similarity, and takes no "
      "tensors; 'same' does");
  TestCall nobody;
  nobody.model = "nobody";
  EXPECT_EQ(Infer(&nobody).code(), StatusCode::kNotFound);
  TestCall either;
  EXPECT_THAT(Infer(&either).message(), HasSubstr("several take tensors: 'same', 'add'"));

  // And the other way round.
  EmbedRequest request;
  request.model = "same";
  request.inputs = {{"a", {}, false}};
  std::promise<Status> embedded;
  service_->Embed(request, {},
                  [&](Expected<EmbedResponse> response) { embedded.set_value(response.status()); });
  const Status refused = embedded.get_future().get();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(),
              HasSubstr("model 'same' takes and gives tensors: it offers infer"));
  EXPECT_THAT(refused.message(), HasSubstr("not embed; 'text' does"));
}

TEST_F(InferTest, OneFailingRowHurtsNoOther) {
  Serve({{"failing", "builtin:failing?shape=1"}});
  const std::vector<float> good = {1}, bad = {-1};
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 64; ++i) {
    auto& call = calls.emplace_back(std::make_unique<TestCall>());
    call->model = "failing";
    call->Add("INPUT0", signature::ElementType::kFp32, {1, 1}, i % 16 == 7 ? bad : good);
  }
  for (const auto& call : calls) service_->Infer(call.get());
  for (int i = 0; i < 64; ++i) {
    const Status status = calls[i]->Wait();
    if (i % 16 == 7) {
      EXPECT_EQ(status.code(), StatusCode::kUnprocessable);
      EXPECT_TRUE(calls[i]->outputs[0].bytes.empty());
    } else {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  ASSERT_TRUE(service_->Drain(std::chrono::seconds(60)));  // counted once they are answered
  const std::string printed = metrics_.Render();
  EXPECT_THAT(printed,
              HasSubstr("penstock_requests_total{behaviour=\"infer\",outcome=\"ok\"} 60\n"));
  EXPECT_THAT(
      printed,
      HasSubstr("penstock_requests_total{behaviour=\"infer\",outcome=\"unprocessable\"} 4\n"));
  EXPECT_THAT(printed, HasSubstr("penstock_errors_total{kind=\"unprocessable\"} 4\n"));
  EXPECT_THAT(printed, HasSubstr("penstock_infer_duration_seconds_count 60\n"));
}

TEST_F(InferTest, TellsStatisticsAndModels) {
  Serve({{"text", "embedder"}, {"versioned", "builtin:identity?type=INT8&shape=4&batch=16"}});
  const std::vector<int8_t> row(4);
  TestCall call;
  call.model = "versioned";
  call.Add("INPUT0", signature::ElementType::kInt8, {1, 4}, row);
  ASSERT_TRUE(Infer(&call).ok());
  // A run is counted once its results are handed out.
  while (service_->InferStatistics("versioned")->rows == 0) std::this_thread::yield();
  const auto statistics = service_->InferStatistics("versioned");
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->success.count, 1u);
  EXPECT_EQ(statistics->rows, 1u);
  EXPECT_EQ(service_->InferStatistics("text").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(service_->InferStatistics("nobody").status().code(), StatusCode::kNotFound);

  const auto models = service_->Models();
  ASSERT_THAT(models, SizeIs(2));
  EXPECT_EQ(models[0].signature, nullptr);
  const ModelInfo& info = models[1];
  EXPECT_EQ(info.task, kTensorTask);
  EXPECT_TRUE(info.ready);
  EXPECT_EQ(info.version, 3);
  EXPECT_EQ(info.platform, "builtin");
  ASSERT_NE(info.signature, nullptr);
  EXPECT_EQ(info.signature->max_batch_size, 16);
  EXPECT_EQ(signature::ShapeText(info.signature->inputs[0].shape), "[1..,4]");
  EXPECT_GT(info.weights_memory, 0u);
  EXPECT_EQ(service_->Model("versioned")->name, "versioned");

  const telemetry::Snapshot window = service_->GetStats().window;
  EXPECT_EQ(window.models[1].batches, 1u);
  EXPECT_EQ(window.models[1].rows, 1u);
}

TEST_F(InferTest, ARequestLoadsItsModel) {
  Serve({{"same", "builtin:identity?shape=1"}, {"text", "embedder"}}, {.on_demand = true});
  const std::vector<float> one = {1};
  TestCall call;
  call.model = "same";
  call.Add("INPUT0", signature::ElementType::kFp32, {1, 1}, one);
  ASSERT_TRUE(Infer(&call).ok());
  ASSERT_TRUE(registry_->Unload("same").get().ok());
  EXPECT_EQ(service_->InferStatistics("same").status().code(), StatusCode::kUnavailable);
  call.context.keep_alive = std::chrono::minutes(7);
  service_->Infer(&call);
  ASSERT_TRUE(call.Wait(2).ok());
  EXPECT_EQ(service_->Models()[0].keep_alive, std::chrono::minutes(7));
  EXPECT_EQ(service_->Models()[0].loads, 2u);
  EXPECT_EQ(service_->Models()[1].loads, 0u);  // the other was not touched
}

TEST_F(InferTest, DrainWaitsForCallsThatAreUnderWay) {
  Serve({{"slow", "builtin:slow?ms=1000&shape=1"}});
  const std::vector<float> one = {1};
  TestCall call, late;
  for (TestCall* each : {&call, &late}) {
    each->model = "slow";
    each->Add("INPUT0", signature::ElementType::kFp32, {1, 1}, one);
  }
  EXPECT_TRUE(service_->Drain(std::chrono::milliseconds(0)));
  service_->Infer(&call);
  EXPECT_FALSE(service_->Drain(std::chrono::milliseconds(1)));
  service_->StopAccepting();
  service_->Infer(&late);
  EXPECT_EQ(late.answers(), 1);
  EXPECT_EQ(late.Wait().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(60)));
  EXPECT_EQ(call.answers(), 1);
  EXPECT_TRUE(call.Wait().ok());
}

// Threads that submit on and on while the service stops: each call is answered once, and those that
// were taken are answered when Drain returns.
TEST_F(InferTest, DrainUnderLoad) {
  Serve({{"same", "builtin:identity?shape=1"}});
  constexpr int kThreads = 4;
  std::atomic<int64_t> submitted{0}, succeeded{0}, refused{0};
  struct Call final : InferCall {
    void Done(const Status& status) override {
      (status.ok() ? *succeeded : *refused).fetch_add(1);
      open.store(false, std::memory_order_release);
    }
    std::atomic<int64_t>*succeeded, *refused;
    std::atomic<bool> open{false};
  };
  const std::vector<float> one = {1};
  std::vector<std::thread> threads;
  std::atomic<bool> end{false};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<std::unique_ptr<Call>> calls;
      for (int i = 0; i < 32; ++i) {
        auto& call = calls.emplace_back(std::make_unique<Call>());
        call->model = "same";
        call->succeeded = &succeeded;
        call->refused = &refused;
        call->inputs.push_back({"INPUT0", signature::ElementType::kFp32, {1, 1}, BytesOf(one)});
      }
      while (!end) {
        for (const auto& call : calls) {
          if (call->open.exchange(true)) continue;
          ++submitted;
          service_->Infer(call.get());
        }
      }
      for (const auto& call : calls) {
        while (call->open.load(std::memory_order_acquire)) std::this_thread::yield();
      }
    });
  }
  while (succeeded < 10'000) std::this_thread::yield();
  service_->StopAccepting();
  ASSERT_TRUE(service_->Drain(std::chrono::seconds(60)));
  const int64_t taken = succeeded;
  while (refused < 1000) std::this_thread::yield();
  EXPECT_EQ(succeeded, taken);
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(submitted, succeeded + refused);
}

// Sleeps until it is answered, and allocates nothing itself.
struct QuietCall final : InferCall {
  void Done(const Status& status) override {
    code = status.code();
    ++answers;
    answers.notify_all();
  }
  StatusCode Infer(Service* service) {
    const int before = answers;
    service->Infer(this);
    answers.wait(before);
    return code;
  }
  std::atomic<int> answers{0};
  StatusCode code = StatusCode::kOk;
};

TEST_F(InferTest, ACallThatIsUsedAgainAllocatesNothing) {
  Serve({{"a-name-that-does-not-fit-a-short-string", "builtin:add?type=INT32&shape=2"}});
  const std::vector<int32_t> row = {1, 2};
  for (const bool lead : {false, true}) {
    QuietCall call;
    call.model = "a-name-that-does-not-fit-a-short-string";
    call.may_lead = lead;
    call.inputs.push_back({"INPUT0", signature::ElementType::kInt32, {1, 2}, BytesOf(row)});
    call.inputs.push_back({"INPUT1", signature::ElementType::kInt32, {1, 2}, BytesOf(row)});
    for (int i = 0; i < 20; ++i) ASSERT_EQ(call.Infer(service_.get()), StatusCode::kOk);
    const long before = FailingNew::Allocations();
    for (int i = 0; i < 200; ++i) ASSERT_EQ(call.Infer(service_.get()), StatusCode::kOk);
    // Other threads of the process may; not once a call.
    EXPECT_LT(FailingNew::Allocations() - before, 20);
  }
}

TEST_F(InferTest, WithoutMemoryACallIsAnsweredOnce) {
  Serve({{"add", "builtin:add?type=INT32&shape=2"}});
  const std::vector<int32_t> row = {1, 2};
  int failures = 0;
  for (long nth = 1;; ++nth) {
    QuietCall call;
    call.model = "add";
    call.inputs.push_back({"INPUT0", signature::ElementType::kInt32, {1, 2}, BytesOf(row)});
    call.inputs.push_back({"INPUT1", signature::ElementType::kInt32, {1, 2}, BytesOf(row)});
    bool failed = false;
    {
      const FailingNew fail(nth);
      call.Infer(service_.get());
      failed = fail.failed();
    }
    EXPECT_EQ(call.answers, 1);
    EXPECT_TRUE(call.code == StatusCode::kOk || call.code == StatusCode::kResourceExhausted)
        << StatusCodeName(call.code);
    failures += call.code != StatusCode::kOk;
    if (!failed) break;
  }
  EXPECT_GT(failures, 3);
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(60)));
}

TEST_F(InferTest, BulkRunsCountTheirCalls) {
  Serve({{"same", "builtin:identity?shape=1"}});
  const auto run = service_->BeginBulkRun();
  ASSERT_TRUE(run.ok());
  const std::vector<float> one = {1};
  TestCall call;
  call.Add("INPUT0", signature::ElementType::kFp32, {1, 1}, one);
  call.context.bulk_run = run->id;
  ASSERT_TRUE(Infer(&call).ok());
  std::promise<BulkRunEnded> ended;
  service_->EndBulkRun(run->id, [&](Expected<BulkRunEnded> result) { ended.set_value(*result); });
  EXPECT_EQ(ended.get_future().get().requests, 1);
  service_->Infer(&call);
  EXPECT_EQ(call.Wait(2).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::api
