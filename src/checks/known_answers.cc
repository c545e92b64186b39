#include "checks/known_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "checks/model_rows.h"
#include "gate/bulk_turn.h"
#include "threads/waiting_lock.h"

namespace penstock::checks {
namespace {

constexpr std::chrono::milliseconds kTimeMin{200};
// Lengths of sequences: one block of rows and less, and more than that.
constexpr int32_t kLengths[] = {3, 17, 40};
constexpr float kNearShare = 1e-3f;
// Bytes of weights a second, of a step with few rows. Memory of ordinary machines.
constexpr double kWeightBytesPerSecond = 8e9;

Status Refuse(const std::string& what) {
  return Status::Internal(
      "a check of known answers failed: " + what +
      "; penstock doctor looks closer, --no-check-models loads the model all the same");
}

std::vector<int32_t> Sequence(int32_t length, int32_t vocab_size) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto place = static_cast<int64_t>(i) + 1;
    ids[i] = static_cast<int32_t>((place * 7919 + int64_t{length} * 104'729) % vocab_size);
  }
  return ids;
}

Status CheckFinite(std::span<const float> numbers, const std::string& of) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return Status::Ok();
  return Refuse(fmt::format("number {} of the result of {} is {}", bad - numbers.begin(), of,
                            std::isnan(*bad) ? "nan" : "infinite"));
}

bool IsOneNumber(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](float number) { return number == numbers[0]; });
}

// That not every row is one number over and over; where rows are one number each, that these
// differ.
Status CheckVaried(const ModelRows& rows) {
  if (rows.empty()) return Status::Ok();
  const bool single = rows[0].size() == 1;
  const bool same = single ? rows.size() > 1 && std::all_of(rows.begin(), rows.end(),
                                                            [&](const std::vector<float>& row) {
                                                              return row == rows[0];
                                                            })
                           : std::all_of(rows.begin(), rows.end(), IsOneNumber);
  if (!same) return Status::Ok();
  return Refuse(fmt::format("results are {} wherever they are looked at", rows[0][0]));
}

// `share` 0: the same bits; else nearly, to that share of the largest number.
Status CheckSame(std::span<const float> alone, std::span<const float> among, float share,
                 const std::string& of) {
  float largest = 0;
  for (const float number : alone) largest = std::max(largest, std::abs(number));
  for (size_t i = 0; i < alone.size(); ++i) {
    const bool same = share == 0 ? std::memcmp(&alone[i], &among[i], sizeof(float)) == 0
                                 : std::abs(alone[i] - among[i]) <= share * largest;
    if (same) continue;
    return Refuse(fmt::format("number {} of the result of {} is {} alone and {} among others", i,
                              of, alone[i], among[i]));
  }
  return Status::Ok();
}

std::string NameOf(const std::vector<int32_t>& text) {
  return fmt::format("{} tokens", text.size());
}

class RunnerResults final : public CheckedResults {
 public:
  RunnerResults(const RunnerToCheck* model, CheckClock* clock) : model_(*model), clock_(*clock) {}

  Expected<std::string> Finite() override {
    const auto width = static_cast<size_t>(model_.runner->OutputWidth(model_.output));
    if (width == 0 || model_.vocab_size <= 0) return std::string();
    for (const int32_t length : kLengths) {
      texts_.push_back(Sequence(std::min(length, model_.max_tokens), model_.vocab_size));
      if (!clock_.Allows(Seconds({&texts_.back(), 1}))) break;
      std::vector<float>& row = alone_.emplace_back(width);
      PENSTOCK_RETURN_IF_ERROR(RunBatch({&texts_.back(), 1}, {&row, 1}));
      PENSTOCK_RETURN_IF_ERROR(CheckFinite(row, NameOf(texts_.back())));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckVaried(alone_));
    return std::string();
  }

  Expected<std::string> Batch() override {
    texts_.resize(alone_.size());
    if (texts_.size() < 2 || !clock_.Allows(Seconds(texts_))) return std::string();
    std::reverse(texts_.begin(), texts_.end());
    ModelRows together(texts_.size(), std::vector<float>(alone_[0].size()));
    PENSTOCK_RETURN_IF_ERROR(RunBatch(texts_, together));
    std::reverse(together.begin(), together.end());
    std::reverse(texts_.begin(), texts_.end());
    const float share = model_.same_bits ? 0 : kNearShare;
    for (size_t i = 0; i < texts_.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(CheckSame(alone_[i], together[i], share, NameOf(texts_[i])));
    }
    return std::string();
  }

 private:
  using Texts = std::span<const std::vector<int32_t>>;

  double Seconds(Texts texts) const {
    double tokens = 0, work = 0;
    for (const auto& text : texts) {
      const auto length = static_cast<double>(text.size());
      tokens += length;
      work += length * length;
    }
    return slower_ * model_.times.Seconds(tokens, work);
  }

  Status RunBatch(Texts texts, std::span<std::vector<float>> rows) {
    std::vector<int32_t> ids, offsets{0};
    std::vector<float*> sinks;
    for (size_t i = 0; i < texts.size(); ++i) {
      ids.insert(ids.end(), texts[i].begin(), texts[i].end());
      offsets.push_back(static_cast<int32_t>(ids.size()));
      sinks.push_back(rows[i].data());
    }
    const double planned = Seconds(texts);
    const auto before = clock_.took();
    const Status status = clock_.Run([&] {
      return model_.runner->Run({ids, {}, offsets, {}, {}}, model_.output, sinks);
    });
    const double took = std::chrono::duration<double>(clock_.took() - before).count();
    if (planned > 0) slower_ = std::max(1.0, slower_ * took / planned);
    return status;
  }

  const RunnerToCheck& model_;
  CheckClock& clock_;
  double slower_ = 1;  // was the last batch, than the model's times say
  std::vector<std::vector<int32_t>> texts_;
  ModelRows alone_;  // of the first texts, as far as the time allowed
};

class StepResults final : public CheckedResults {
 public:
  StepResults(StepsToCheck model, CheckClock* clock)
      : model_(std::move(model)),
        clock_(*clock),
        ids_(Sequence(std::min(5, model_.context), model_.vocab_size)) {
    if (ids_.size() > 1) rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  }

  Expected<std::string> Finite() override {
    PENSTOCK_ASSIGN_OR_RETURN(run_, model_.prepare(&step_s_));
    if (!clock_.Allows(step_s_)) return std::string();
    const BlockTable block = {0};
    const program::SingleSequence one(ids_.size(), 0, block, run_->LongRope(ids_.size()));
    const auto before = clock_.took();
    PENSTOCK_RETURN_IF_ERROR(clock_.Run([&] { return run_->Run(one.Batch(ids_, rows_)); }));
    for (size_t row = 0; row < rows_.size(); ++row) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::span<const float> logits, run_->Row(row));
      PENSTOCK_RETURN_IF_ERROR(CheckFinite(logits, fmt::format("token {}", rows_[row])));
      alone_.emplace_back(logits.begin(), logits.end());
    }
    PENSTOCK_RETURN_IF_ERROR(CheckVaried(alone_));
    step_s_ = std::max(step_s_, std::chrono::duration<double>(clock_.took() - before).count());
    return std::string();
  }

  Expected<std::string> Batch() override {
    if (alone_.empty() || !clock_.Allows(step_s_)) return std::string();
    std::vector<int32_t> both = Sequence(std::min(3, model_.context), model_.vocab_size);
    const auto other = static_cast<int32_t>(both.size());
    both.insert(both.end(), ids_.begin(), ids_.end());
    std::vector<int32_t> moved = rows_;
    for (int32_t& row : moved) row += other;
    const BlockTable first = {0}, second = {1};
    const int32_t offsets[] = {0, other, static_cast<int32_t>(both.size())};
    const program::CachedSequence two[] = {{0, second, run_->LongRope(static_cast<size_t>(other))},
                                           {0, first, run_->LongRope(ids_.size())}};
    PENSTOCK_RETURN_IF_ERROR(clock_.Run([&] {
      return run_->Run({.ids = both, .offsets = offsets, .cached = two, .picks = moved});
    }));
    for (size_t row = 0; row < rows_.size(); ++row) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::span<const float> logits, run_->Row(row));
      PENSTOCK_RETURN_IF_ERROR(
          CheckSame(alone_[row], logits, 0, fmt::format("token {}", rows_[row])));
    }
    return std::string();
  }

 private:
  const StepsToCheck model_;
  CheckClock& clock_;
  double step_s_ = 0;
  std::unique_ptr<program::ProgramRun> run_;
  const std::vector<int32_t> ids_;
  std::vector<int32_t> rows_ = {0};  // that are looked at: the first and the last one
  ModelRows alone_;
};

double WeightBytes(const program::Op& op) {
  double bytes = 0;
  for (const program::PackedLinear* weight : program::WeightsOf(op))
    bytes += static_cast<double>(weight->bytes());
  return bytes;
}

bool IsLast(const program::Op& op) { return std::holds_alternative<program::PicksOp>(op); }

}  // namespace

Clock::duration CheckTimeOf(Clock::duration load) {
  return std::max<Clock::duration>(load / 100, kTimeMin);
}

CheckClock::CheckClock(Clock::duration limit, gate::ComputeGate* gate, Now now)
    : limit_(limit),
      gate_(gate),
      now_(std::move(now)),
      begin_(now_()),
      waited_before_(WaitingLock::Waited()) {}

Clock::duration CheckClock::took() const {
  return now_() - begin_ - waited_ - (WaitingLock::Waited() - waited_before_);
}

bool CheckClock::Allows(double seconds) {
  const bool fits = std::chrono::duration<double>(left()).count() >= seconds;
  complete_ = complete_ && fits;
  return fits;
}

Status CheckClock::Run(const std::function<Status()>& work) {
  if (gate_ == nullptr) return work();
  const auto begin = Clock::now();
  const gate::BulkTurn turn(gate_);
  waited_ += Clock::now() - begin;
  return work();
}

Status CheckLinear(const LinearChecker& linear, CheckClock* clock) {
  if (linear == nullptr || !clock->Allows(0)) return Status::Ok();
  program::KernelDifference check;
  PENSTOCK_RETURN_IF_ERROR(clock->Run([&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(check, linear());
    return Status::Ok();
  }));
  if (check.ok()) return Status::Ok();
  return Refuse(fmt::format(
      "{} differs from plain arithmetic by {:.1e} of the largest number, {:.1e} is allowed",
      check.of, check.error, check.error_max));
}

program::Program ProgramWithin(const program::Program& program, double seconds, double* step_s) {
  program::Program cut = program;
  cut.ops.clear();
  double bytes = 0, layer_bytes = 0;
  for (const program::Op& op : program.ops) bytes += IsLast(op) ? WeightBytes(op) : 0;
  std::vector<program::Op> layer;  // an attention and what follows it
  // At least one layer.
  const auto end_layer = [&] {
    if (layer.empty()) return true;
    const bool first = cut.ops.size() <= 1;
    if (!first && (bytes + layer_bytes) / kWeightBytesPerSecond > seconds) return false;
    bytes += layer_bytes;
    cut.ops.insert(cut.ops.end(), layer.begin(), layer.end());
    layer.clear();
    layer_bytes = 0;
    return true;
  };
  bool fits = true;
  for (const program::Op& op : program.ops) {
    const bool begins = program::UsesCache(op);
    if (fits && (begins || IsLast(op))) fits = end_layer();
    if (IsLast(op) || std::holds_alternative<program::EmbedOp>(op)) {
      cut.ops.push_back(op);
    } else if (fits) {
      layer.push_back(op);
      layer_bytes += WeightBytes(op);
    }
  }
  *step_s = bytes / kWeightBytesPerSecond;
  return cut;
}

std::unique_ptr<CheckedResults> ResultsOf(const RunnerToCheck* model, CheckClock* clock) {
  return std::make_unique<RunnerResults>(model, clock);
}

std::unique_ptr<CheckedResults> ResultsOf(StepsToCheck model, CheckClock* clock) {
  return std::make_unique<StepResults>(std::move(model), clock);
}

}  // namespace penstock::checks
