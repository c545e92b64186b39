// AheadRun: a run that draws tokens itself and has two steps under way, made of one that does not.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "program/program_run.h"
#include "sample/draw_best.h"

namespace penstock::generate {

class AheadRun final : public program::ProgramRun {
 public:
  AheadRun(std::unique_ptr<program::ProgramRun> inner, size_t vocabulary)
      : inner_(std::move(inner)), vocabulary_(vocabulary) {}

  // Steps started while another was under way; calls of Start, failed ones included.
  size_t ahead() const { return ahead_; }
  size_t started() const { return started_; }
  void FailStart(size_t step) { fails_start_ = step; }
  void FailFinish(size_t step) { fails_finish_ = step; }
  // The next `count` draws give a wrong token.
  void DrawWrongly(int count) { wrong_ = count; }

  bool draws() const override { return true; }
  Status Start(const program::PackedBatch& batch) override {
    if (results_.size() == 2) return Status::Internal("two steps are under way");
    if (++started_ == fails_start_) return Status::Internal("it does not start");
    std::vector<int32_t> ids(batch.ids.begin(), batch.ids.end());
    for (size_t row = 0; row < batch.sources.size(); ++row) {
      if (batch.sources[row] < 0) continue;
      ids[row] = last_drawn_.at(static_cast<size_t>(batch.sources[row]));
      EXPECT_GE(ids[row], 0);
    }
    program::PackedBatch known = batch;
    known.ids = ids;
    known.sources = {};
    known.draws = {};
    PENSTOCK_RETURN_IF_ERROR(inner_->Run(known));
    if (!results_.empty()) ++ahead_;
    Results& results = results_.emplace_back();
    results.step = started_;
    results.wants.assign(batch.wants.begin(), batch.wants.end());
    if (!batch.picks.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto rows, inner_->Rows(0, batch.picks.size()));
      results.rows.assign(rows.begin(), rows.end());
    }
    last_drawn_.clear();
    for (size_t pick = 0; pick < batch.picks.size(); ++pick) {
      last_drawn_.push_back(Draw(std::span(results.rows).subspan(pick * vocabulary_, vocabulary_),
                                 batch.draws.empty() ? sample::DrawRule{} : batch.draws[pick]));
    }
    results.drawn = last_drawn_;
    return Status::Ok();
  }
  Status Finish() override {
    if (results_.empty()) return Status::Internal("no step is under way");
    current_ = std::move(results_.front());
    results_.pop_front();
    return current_.step == fails_finish_ ? Status::Internal("it failed") : Status::Ok();
  }
  Status Run(size_t, const program::PackedBatch& batch, std::span<float* const>) override {
    PENSTOCK_RETURN_IF_ERROR(Start(batch));
    return Finish();
  }
  program::FoundLogits Found(size_t pick) const override { return {{}, {}, current_.drawn[pick]}; }
  Expected<std::span<const float>> Rows(size_t first, size_t count) override {
    return std::span<const float>(current_.rows).subspan(first * vocabulary_, count * vocabulary_);
  }
  std::span<const CacheGroup> groups() const override { return inner_->groups(); }
  int32_t rope_switch() const override { return inner_->rope_switch(); }
  uint64_t block_bytes(size_t group) const override { return inner_->block_bytes(group); }
  int32_t page_blocks() const override { return inner_->page_blocks(); }
  uint64_t CommittedBytes() const override { return inner_->CommittedBytes(); }
  uint64_t ReleaseBlocks(size_t group, std::span<const int32_t> blocks) override {
    return inner_->ReleaseBlocks(group, blocks);
  }

 private:
  struct Results {
    size_t step = 0;
    std::vector<float> rows;
    std::vector<program::PickWant> wants;
    std::vector<int32_t> drawn;
  };

  int32_t Draw(std::span<const float> logits, const sample::DrawRule& rule) {
    if (rule.keep == 0) return -1;
    sample::LogitScan scan;
    scan.Reset(static_cast<size_t>(rule.keep), false);
    scan.Add(logits, 0, nullptr);
    const auto best = scan.Part().best;
    std::vector<double> weights(best.size());
    const int32_t at =
        sample::DrawBest(rule, static_cast<int32_t>(best.size()), weights.data(),
                         [&](int32_t i) { return best[static_cast<size_t>(i)].logit; });
    const int32_t id = best[static_cast<size_t>(at)].id;
    return wrong_-- > 0 ? (id + 1) % static_cast<int32_t>(logits.size()) : id;
  }

  const std::unique_ptr<program::ProgramRun> inner_;
  const size_t vocabulary_;
  std::deque<Results> results_;
  Results current_;
  std::vector<int32_t> last_drawn_;
  size_t ahead_ = 0, started_ = 0, fails_start_ = 0, fails_finish_ = 0;
  int wrong_ = 0;
};

}  // namespace penstock::generate
