// Whole models through the Service: texts in, what sentence-transformers and transformers give out.
// Files and how they were made: tests/golden/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <future>

#include "api/service.h"
#include "cpu/cpu_backend.h"
#include "json/json.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

namespace fs = std::filesystem;

// As a share of the largest number of a row. The README says by how much the reference itself
// differs in float32.
constexpr double kEmbeddingErrorMax = 1e-5;
constexpr double kLogitErrorMax = 5e-5;
constexpr size_t kExpectedBytesMax = 64 << 20;

// "models/NAME" of encoders, "embedders/NAME" of decoders.
std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string kind : {"models", "embedders"}) {
    for (const auto& entry : fs::directory_iterator(PENSTOCK_GOLDEN_DIR "/" + kind, ignored)) {
      if (!fs::exists(entry.path() / "expected.json")) continue;
      names.push_back(kind + "/" + entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<double> Numbers(JsonElement array) {
  std::vector<double> numbers;
  JsonArray items;
  EXPECT_TRUE(array.Get(&items));
  for (const JsonElement item : items) EXPECT_TRUE(item.Get(&numbers.emplace_back()));
  return numbers;
}

// `scale`: where all of `want` is smaller than that, the error is of it.
void ExpectClose(std::span<const float> got, const std::vector<double>& want, double error_max,
                 double scale = 1e-30) {
  ASSERT_EQ(got.size(), want.size());
  double largest = scale, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(want[i] - double{got[i]}));
  }
  EXPECT_LE(error, error_max * largest);
}

class GoldenServiceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = std::string(PENSTOCK_GOLDEN_DIR "/") + GetParam();
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false});
    ASSERT_TRUE(backend.ok());
    backend_ = *std::move(backend);
    registry_ = std::make_unique<registry::Registry>(backend_.get(), &metrics_);
    registry::ModelSpec spec;
    spec.name = "m";
    spec.reference = folder;
    spec.options.encoder.dtype = numbers::DType::kF32;  // as the references
    ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    registry_->StartLoading();
    const Status loaded = registry_->WaitLoaded();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    // Scores are asked for twice, raw and not: the second time they come from here.
    ServiceOptions limits;
    limits.result_cache_bytes = 1 << 20;
    service_ = std::make_unique<Service>(registry_.get(), limits, &metrics_);
    auto expected = JsonDocument::ParseFile(folder + "/expected.json", kExpectedBytesMax);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    expected_.emplace(*std::move(expected));
  }

  // All texts in one request where that can be, so that they share batches.
  void CheckEmbeddings(JsonArray texts) {
    for (const auto element : texts) {
      JsonObject text;
      ASSERT_TRUE(element.Get(&text));
      EmbedRequest request;
      Input input;
      input.text = *text.GetString("text");
      SCOPED_TRACE(input.text);
      request.inputs = {input, input};
      if (text.Has("prompt_name")) request.text.prompt_name = *text.GetString("prompt_name");
      const auto embed = [&] {
        std::promise<Expected<EmbedResponse>> promise;
        service_->Embed(request, {}, [&](auto r) { promise.set_value(std::move(r)); });
        return promise.get_future().get();
      };
      const auto response = embed();
      ASSERT_TRUE(response.ok()) << response.status().ToString();
      const auto again = embed();
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(again->values, response->values);  // to the bit
      const auto want = Numbers(*text.Find("embedding"));
      const std::span<const float> values = response->values;
      ExpectClose(values.first(want.size()), want, kEmbeddingErrorMax);
      ExpectClose(values.subspan(want.size()), want, kEmbeddingErrorMax);
      ++checked_;
    }
  }

  // The largest of a model's numbers. One that is small has cancelled, on some processors more
  // than on others.
  static double LargestOf(JsonArray texts, const char* key) {
    double largest = 0;
    for (const auto element : texts) {
      JsonObject text;
      EXPECT_TRUE(element.Get(&text));
      for (const double number : Numbers(*text.Find(key))) {
        largest = std::max(largest, std::abs(number));
      }
    }
    return largest;
  }

  void CheckScores(JsonArray texts) {
    const double logits_scale = LargestOf(texts, "logits");
    const double scores_scale = LargestOf(texts, "scores");
    for (const auto element : texts) {
      JsonObject text;
      ASSERT_TRUE(element.Get(&text));
      ClassifyInput input{*text.GetString("text"), std::nullopt};
      SCOPED_TRACE(input.first);
      if (text.Has("text_pair")) input.second = *text.GetString("text_pair");
      for (const bool raw : {true, false}) {
        // The pipeline, not the folder, decides how classify scores a cross-encoder.
        const bool reranks = registry_->List()[0].As<engine::EncoderEngine>()->task() ==
                             families::ModelTask::kReranking;
        if (!raw && reranks) continue;
        if (registry_->List()[0].As<engine::EncoderEngine>()->folder().pair_template)
          continue;  // takes no loose pairs
        ClassifyRequest request;
        request.inputs = {input};
        request.raw_scores = raw;
        std::promise<Expected<ClassifyResponse>> promise;
        service_->Classify(request, {}, [&](auto r) { promise.set_value(std::move(r)); });
        const auto response = promise.get_future().get();
        ASSERT_TRUE(response.ok()) << response.status().ToString();
        const auto& labels = response->inputs[0];
        std::vector<float> row(labels.size());
        for (const auto& label : labels) row[label.id] = label.score;
        ExpectClose(row, Numbers(*text.Find(raw ? "logits" : "scores")), kLogitErrorMax,
                    raw ? logits_scale : scores_scale);
      }
      if (input.second && registry_->List()[0].As<engine::EncoderEngine>()->task() ==
                              families::ModelTask::kReranking) {
        RerankRequest request;
        request.query = input.first;
        request.documents = {*input.second};
        if (request.query.empty()) continue;
        std::promise<Expected<RerankResponse>> promise;
        service_->Rerank(request, {}, [&](auto r) { promise.set_value(std::move(r)); });
        const auto response = promise.get_future().get();
        ASSERT_TRUE(response.ok()) << response.status().ToString();
        ExpectClose({&response->items[0].score, 1}, Numbers(*text.Find("scores")), kLogitErrorMax,
                    scores_scale);
      }
      ++checked_;
    }
  }

  metrics::Metrics metrics_;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<registry::Registry> registry_;
  std::unique_ptr<Service> service_;
  std::optional<JsonDocument> expected_;
  int checked_ = 0;
};

TEST_P(GoldenServiceTest, TextsGiveTheReferenceResults) {
  const auto root = expected_->Object();
  ASSERT_TRUE(root.ok());
  const auto texts = root->GetArray("texts");
  ASSERT_TRUE(texts.ok());
  if (*root->GetString("task") == "embed") {
    CheckEmbeddings(*texts);
  } else {
    CheckScores(*texts);
  }
  EXPECT_GT(checked_, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenServiceTest, testing::ValuesIn(ModelNames()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenServiceTest);

}  // namespace
}  // namespace penstock::api
