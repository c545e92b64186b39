// Logits of whole texts, and their distance from those that others computed, for tests.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/decoder.h"

namespace penstock::generate {

using LogitRows = std::vector<std::vector<double>>;

inline std::vector<int32_t> ReadIds(simdjson::dom::element array) {
  std::vector<int32_t> ids;
  for (const auto one : array.get_array()) ids.push_back(static_cast<int32_t>(one.get_int64()));
  return ids;
}

inline LogitRows ReadRows(simdjson::dom::element array) {
  LogitRows rows;
  for (const auto row : array.get_array()) {
    auto& to = rows.emplace_back();
    for (const auto x : row.get_array()) to.push_back(x.get_double());
  }
  return rows;
}

// Null, and a failure, where it cannot be loaded.
inline std::unique_ptr<models::DecoderModel> LoadDecoder(const std::string& path,
                                                         program::Backend* backend,
                                                         std::optional<numbers::DType> dtype,
                                                         int32_t context = 0) {
  auto files = families::DecoderFiles::Open(path);
  EXPECT_TRUE(files.ok()) << files.status().ToString();
  if (!files.ok()) return nullptr;
  auto model = models::DecoderModel::Load(*files, backend, {dtype, context});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return model.ok() ? *std::move(model) : nullptr;
}

// Blocks 0, 1, ... that hold `tokens`.
inline std::vector<int32_t> BlocksFor(size_t tokens) {
  std::vector<int32_t> blocks(tokens / kKvBlockTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

// The logits of every id of a text, run `chunk` ids a step; 0: in one step.
inline LogitRows LogitsOf(const models::DecoderModel& model, const std::vector<int32_t>& ids,
                          numbers::DType cache, size_t chunk = 0) {
  if (chunk == 0) chunk = ids.size();
  const std::vector<int32_t> blocks = BlocksFor(ids.size());
  std::vector<int32_t> picked(chunk);
  std::iota(picked.begin(), picked.end(), 0);
  const auto most = static_cast<int32_t>(chunk);
  auto run = model.NewRun({cache, {static_cast<int32_t>(blocks.size())}, most, most});
  EXPECT_TRUE(run.ok()) << run.status().ToString();
  LogitRows all;
  if (!run.ok()) return all;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const size_t rows = std::min(chunk, ids.size() - begin);
    const program::SingleSequence sequence(rows, begin, blocks, (*run)->LongRope(ids.size()));
    const Status status = (*run)->Run(
        sequence.Batch(std::span(ids).subspan(begin, rows), std::span(picked).first(rows)));
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) return all;
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const float> logits = *(*run)->Row(row);
      all.emplace_back(logits.begin(), logits.end());
    }
  }
  return all;
}

// Tokens of the largest logits after `ids`, each with the logits it is the largest of: the text in
// one step, then token by token.
inline std::vector<std::pair<int32_t, std::vector<double>>> GreedyWithLogits(
    const models::DecoderModel& model, std::vector<int32_t> ids, numbers::DType cache,
    size_t count) {
  std::vector<std::pair<int32_t, std::vector<double>>> out;
  const std::vector<int32_t> blocks = BlocksFor(ids.size() + count);
  auto run = model.NewRun(
      {cache, {static_cast<int32_t>(blocks.size())}, static_cast<int32_t>(ids.size()), 1});
  EXPECT_TRUE(run.ok()) << run.status().ToString();
  for (size_t past = 0; run.ok() && out.size() < count;) {
    const program::SingleSequence sequence(ids.size(), past, blocks,
                                           (*run)->LongRope(past + ids.size()));
    const int32_t row = static_cast<int32_t>(ids.size()) - 1;
    const Status status = (*run)->Run(sequence.Batch(ids, {&row, 1}));
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) return out;
    const std::span<const float> logits = *(*run)->Row(0);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    out.push_back({static_cast<int32_t>(best), {logits.begin(), logits.end()}});
    past += ids.size();
    ids = {static_cast<int32_t>(best)};
  }
  return out;
}

// The largest difference, over the largest logit.
inline double WorstError(const LogitRows& got, const LogitRows& want) {
  EXPECT_EQ(got.size(), want.size());
  double scale = 0, worst = 0;
  for (const auto& row : want) {
    for (const double x : row) scale = std::max(scale, std::abs(x));
  }
  for (size_t t = 0; t < std::min(got.size(), want.size()); ++t) {
    EXPECT_EQ(got[t].size(), want[t].size());
    for (size_t i = 0; i < std::min(got[t].size(), want[t].size()); ++i) {
      EXPECT_TRUE(std::isfinite(got[t][i]));
      worst = std::max(worst, std::abs(got[t][i] - want[t][i]));
    }
  }
  return worst / scale;
}

}  // namespace penstock::generate
