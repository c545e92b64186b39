// An encoder from a GGUF file that others wrote, against the embeddings they have for it.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace penstock::models {
namespace {

namespace fs = std::filesystem;

// The largest difference of a number, of vectors of length 1.
double WorstError(const families::ModelFolder& folder, const simdjson::dom::element& expected) {
  auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false});
  EXPECT_TRUE(backend.ok());
  auto model = EncoderModel::Load(folder, backend->get());
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  if (!model.ok()) return 1;
  EncoderSession session(model->get());
  double worst = 0;
  size_t cases = 0;
  for (const simdjson::dom::element entry : expected["cases"].get_array()) {
    std::vector<int32_t> ids;
    for (const simdjson::dom::element id : entry["ids"].get_array()) {
      ids.push_back(static_cast<int32_t>(id.get_int64().value()));
    }
    const std::vector<int32_t> types(ids.size(), 0);
    const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())};
    std::vector<float> row(
        static_cast<size_t>((*model)->OutputWidth(program::EncoderOutput::kPooled)));
    const Status status =
        session.Run({ids, types, offsets, {}}, program::EncoderOutput::kPooled, row);
    EXPECT_TRUE(status.ok()) << status.ToString();
    double length = 0;  // the caller normalises
    for (const float number : row) length += double{number} * double{number};
    length = std::sqrt(length);
    size_t i = 0;
    for (const simdjson::dom::element number : entry["embedding"].get_array()) {
      worst = std::max(worst, std::abs(double{row[i++]} / length - number.get_double().value()));
    }
    EXPECT_EQ(i, row.size());
    ++cases;
  }
  EXPECT_EQ(cases, 5u);
  return worst;
}

TEST(GgufEncoder, GivesTheEmbeddingsOfOthers) {
  const char* data = std::getenv("PENSTOCK_TESTDATA");
  const fs::path root = data != nullptr ? data : PENSTOCK_SOURCE_DIR "/../shared/testdata";
  if (!fs::exists(root)) GTEST_SKIP() << "NO TEST DATA at " << root << ": set PENSTOCK_TESTDATA";
  const fs::path folder_path = root / "mayouni__stzlib";
  auto folder = families::ModelFolder::Read((folder_path / "tiny_bert.gguf").string());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_FALSE(folder->pooling_declared);
  EXPECT_EQ(folder->encoder.vocab_size, 24);
  EXPECT_EQ(folder->max_tokens, 64);
  EXPECT_TRUE(folder->normalize);
  folder->pooling = families::PoolingMode::kMean;
  simdjson::dom::parser parser;
  const auto expected = parser.load((folder_path / "bert_parity_expected.json").string()).value();
  EXPECT_LT(WorstError(*folder, expected), 2e-4);
  // Theirs is the approximation of gelu by tanh, from a table of float16.
  folder->encoder.hidden_act = families::HiddenActivation::kGeluTanh;
  EXPECT_LT(WorstError(*folder, expected), 1e-4);
}

}  // namespace
}  // namespace penstock::models
