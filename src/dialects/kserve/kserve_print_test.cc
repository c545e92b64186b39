#include "dialects/kserve/kserve_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "api/model_state.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;

signature::TensorSpec Spec(const char* name, signature::ElementType type,
                           std::vector<signature::DimensionRange> shape) {
  return {name, type, std::move(shape)};
}

api::ModelInfo Model(const char* state = "ready") {
  signature::TensorSignature signature;
  signature.max_batch_size = 8;
  signature.inputs = {Spec("x", signature::ElementType::kFp32, {{1, -1}, {3, 3}, {0, -1}}),
                      Spec("s", signature::ElementType::kBytes, {{1, -1}, {2, 4}})};
  signature.outputs = {Spec("y", signature::ElementType::kInt64, {{1, -1}}),
                       {"z", signature::ElementType::kBool, std::nullopt}};
  api::ModelInfo model;
  model.name = "a/b";
  model.platform = "onnxruntime_onnx";
  model.state = state;
  model.signature = std::make_shared<const signature::TensorSignature>(signature);
  return model;
}

TEST(KservePrint, MetadataHaveTheDimensionOfRows) {
  EXPECT_EQ(PrintKserveModel(Model()),
            R"({"name":"a/b","versions":["1"],"platform":"onnxruntime_onnx","inputs":[)"
            R"({"name":"x","datatype":"FP32","shape":[-1,3,-1]},)"
            R"({"name":"s","datatype":"BYTES","shape":[-1,-1]}],"outputs":[)"
            R"({"name":"y","datatype":"INT64","shape":[-1]},)"
            R"({"name":"z","datatype":"BOOL","shape":[-1]}]})");
  api::ModelInfo versioned = Model();
  versioned.version = 7;
  EXPECT_THAT(PrintKserveModel(versioned), HasSubstr(R"("versions":["7"])"));
}

TEST(KservePrint, TheConfigurationHasThemNot) {
  const std::string config = PrintKserveConfig(Model());
  EXPECT_THAT(config, HasSubstr(R"("max_batch_size":8)"));
  EXPECT_THAT(config, HasSubstr(R"("dims":[3,-1])"));
  EXPECT_THAT(config, HasSubstr("TYPE_STRING"));
}

TEST(KservePrint, StatisticsHaveTheNamesOfTriton) {
  sched::TensorStatistics statistics;
  statistics.success = {3, 300};
  statistics.fail = {1, 10};
  statistics.queue = {3, 30};
  statistics.input = {2, 20};
  statistics.infer = {2, 200};
  statistics.output = {2, 22};
  statistics.rows = 5;
  statistics.runs = 2;
  statistics.last_run_unix_ms = 1234;
  statistics.batches[4] = {{1, 11}, {1, 100}, {1, 12}};
  const KserveModelStatistics each = {Model(), statistics};
  EXPECT_EQ(PrintKserveStatistics({&each, 1}),
            R"({"model_stats":[{"name":"a/b","version":"1","last_inference":1234,)"
            R"("inference_count":5,"execution_count":2,"inference_stats":{)"
            R"("success":{"count":3,"ns":300},"fail":{"count":1,"ns":10},)"
            R"("queue":{"count":3,"ns":30},"compute_input":{"count":2,"ns":20},)"
            R"("compute_infer":{"count":2,"ns":200},"compute_output":{"count":2,"ns":22},)"
            R"("cache_hit":{"count":0,"ns":0},"cache_miss":{"count":0,"ns":0}},)"
            R"("response_stats":{},"batch_stats":[{"batch_size":4,)"
            R"("compute_input":{"count":1,"ns":11},"compute_infer":{"count":1,"ns":100},)"
            R"("compute_output":{"count":1,"ns":12}}],"memory_usage":[]}]})");
  EXPECT_EQ(PrintKserveStatistics({}), R"({"model_stats":[]})");
}

TEST(KservePrint, TheIndexTellsWhyAModelIsNotReady) {
  std::vector<api::ModelInfo> models;
  for (const char* state :
       {"ready", "parked", "loading", "waiting", "draining", "failed", "absent", "absent"}) {
    models.push_back(Model(state));
    models.back().name = std::string("m") + std::to_string(models.size());
  }
  models[5].error = "no such file";
  models[7].loads = 1;
  EXPECT_EQ(PrintKserveIndex(models, false),
            R"([{"name":"m1","version":"1","state":"READY","reason":""},)"
            R"({"name":"m2","version":"1","state":"READY","reason":""},)"
            R"({"name":"m3","version":"1","state":"LOADING","reason":""},)"
            R"({"name":"m4","version":"1","state":"LOADING","reason":""},)"
            R"({"name":"m5","version":"1","state":"UNLOADING","reason":""},)"
            R"({"name":"m6","version":"1","state":"UNAVAILABLE","reason":"no such file"},)"
            R"({"name":"m7","version":"1","state":"UNAVAILABLE",)"
            R"("reason":"not loaded yet: the first request does"},)"
            R"({"name":"m8","version":"1","state":"UNAVAILABLE","reason":"unloaded"}])");
  EXPECT_EQ(PrintKserveIndex({&models[1], 3}, true),
            R"([{"name":"m2","version":"1","state":"READY","reason":""}])");
}

TEST(KservePrint, AModelIsReadyWhereItIsLoadedOrWillBeForTheFirstTime) {
  for (const char* ready : {"ready", "parked", "absent"})
    EXPECT_TRUE(api::IsReadyForRequests(Model(ready)));
  for (const char* state : {"loading", "waiting", "draining", "failed"}) {
    EXPECT_FALSE(api::IsReadyForRequests(Model(state))) << state;
  }
  api::ModelInfo unloaded = Model("absent");
  unloaded.loads = 1;
  EXPECT_FALSE(api::IsReadyForRequests(unloaded));
}

TEST(KservePrint, TheServerTellsItsExtensions) {
  EXPECT_THAT(PrintKserveServer(true), HasSubstr("system_shared_memory"));
  const std::string plain = PrintKserveServer(false);
  EXPECT_THAT(plain, testing::Not(HasSubstr("system_shared_memory")));
  EXPECT_THAT(plain, HasSubstr(R"("name":"penstock","version":")"));
}

}  // namespace
}  // namespace penstock::dialects
