#include "checks/known_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "common/waiting_lock.h"
#include "gate/bulk_turn.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kTimeMin{200};
// Of sequences: one block of rows and less, and more than that.
constexpr int32_t kLengths[] = {3, 17, 40};
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

using Numbers = std::vector<float>;

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
Status CheckVaried(const std::vector<Numbers>& rows) {
  if (rows.empty()) return Status::Ok();
  const bool single = rows[0].size() == 1;
  const bool same =
      single ? rows.size() > 1 && std::all_of(rows.begin(), rows.end(),
                                              [&](const Numbers& row) { return row == rows[0]; })
             : std::all_of(rows.begin(), rows.end(), IsOneNumber);
  if (!same) return Status::Ok();
  return Refuse(fmt::format("results are {} wherever they are looked at", rows[0][0]));
}

Status CheckSameBits(std::span<const float> alone, std::span<const float> among,
                     const std::string& of) {
  for (size_t i = 0; i < alone.size(); ++i) {
    if (std::memcmp(&alone[i], &among[i], sizeof(float)) == 0) continue;
    return Refuse(fmt::format("number {} of the result of {} is {} alone and {} among others", i,
                              of, alone[i], among[i]));
  }
  return Status::Ok();
}

// To a thousandth of the largest number.
Status CheckNear(std::span<const float> alone, std::span<const float> among,
                 const std::string& of) {
  constexpr float kShare = 1e-3f;
  float largest = 0;
  for (const float number : alone) largest = std::max(largest, std::abs(number));
  for (size_t i = 0; i < alone.size(); ++i) {
    if (std::abs(alone[i] - among[i]) <= kShare * largest) continue;
    return Refuse(fmt::format("number {} of the result of {} is {} alone and {} among others", i,
                              of, alone[i], among[i]));
  }
  return Status::Ok();
}

// The checks of one runner.
class RunnerChecker {
 public:
  RunnerChecker(const RunnerToCheck& model, CheckClock* clock) : model_(model), clock_(*clock) {}

  Status Run() {
    const auto width = static_cast<size_t>(model_.runner->OutputWidth(model_.output));
    if (width == 0 || model_.vocab_size <= 0) return Status::Ok();
    std::vector<std::vector<int32_t>> texts;
    std::vector<Numbers> alone;
    for (const int32_t length : kLengths) {
      texts.push_back(Sequence(std::min(length, model_.max_tokens), model_.vocab_size));
      if (!clock_.Allows(Seconds({&texts.back(), 1}))) break;
      Numbers& row = alone.emplace_back(width);
      PENSTOCK_RETURN_IF_ERROR(RunBatch({&texts.back(), 1}, {&row, 1}));
      PENSTOCK_RETURN_IF_ERROR(CheckFinite(row, NameOf(texts.back())));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckVaried(alone));
    texts.resize(alone.size());
    if (texts.size() < 2 || !clock_.Allows(Seconds(texts))) return Status::Ok();
    std::reverse(texts.begin(), texts.end());
    std::vector<Numbers> together(texts.size(), Numbers(width));
    PENSTOCK_RETURN_IF_ERROR(RunBatch(texts, together));
    std::reverse(together.begin(), together.end());
    std::reverse(texts.begin(), texts.end());
    const auto check = model_.same_bits ? CheckSameBits : CheckNear;
    for (size_t i = 0; i < texts.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(check(alone[i], together[i], NameOf(texts[i])));
    }
    return Status::Ok();
  }

 private:
  static std::string NameOf(const std::vector<int32_t>& text) {
    return fmt::format("{} tokens", text.size());
  }
  double Seconds(std::span<const std::vector<int32_t>> texts) const {
    double tokens = 0, work = 0;
    for (const auto& text : texts) {
      const auto length = static_cast<double>(text.size());
      tokens += length;
      work += length * length;
    }
    return slower_ * model_.times.Seconds(tokens, work);
  }
  Status RunBatch(std::span<const std::vector<int32_t>> texts, std::span<Numbers> rows) {
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
};

double WeightBytes(const Op& op) {
  double bytes = 0;
  for (const PackedLinear* weight : WeightsOf(op)) bytes += static_cast<double>(weight->bytes());
  return bytes;
}

bool IsLast(const Op& op) { return std::holds_alternative<PicksOp>(op); }

}  // namespace

Clock::duration CheckTimeOf(Clock::duration load) {
  return std::max<Clock::duration>(load / 100, kTimeMin);
}

CheckClock::CheckClock(Clock::duration limit, ComputeGate* gate, Now now)
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
  const BulkTurn turn(gate_);
  waited_ += Clock::now() - begin;
  return work();
}

Status CheckLinear(const LinearChecker& linear, CheckClock* clock) {
  if (linear == nullptr || !clock->Allows(0)) return Status::Ok();
  LinearCheck check;
  PENSTOCK_RETURN_IF_ERROR(clock->Run([&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(check, linear());
    return Status::Ok();
  }));
  if (check.ok()) return Status::Ok();
  return Refuse(fmt::format(
      "{} differs from plain arithmetic by {:.1e} of the largest number, {:.1e} is allowed",
      check.layer, check.error, check.error_max));
}

Status CheckRunner(const RunnerToCheck& model, const LinearChecker& linear, CheckClock* clock) {
  PENSTOCK_RETURN_IF_ERROR(CheckLinear(linear, clock));
  return RunnerChecker(model, clock).Run();
}

Program ProgramWithin(const Program& program, double seconds, double* step_s) {
  Program cut = program;
  cut.ops.clear();
  double bytes = 0, layer_bytes = 0;
  for (const Op& op : program.ops) bytes += IsLast(op) ? WeightBytes(op) : 0;
  std::vector<Op> layer;  // an attention and what follows it
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
  for (const Op& op : program.ops) {
    const bool begins = UsesCache(op);
    if (fits && (begins || IsLast(op))) fits = end_layer();
    if (IsLast(op) || std::holds_alternative<EmbedOp>(op)) {
      cut.ops.push_back(op);
    } else if (fits) {
      layer.push_back(op);
      layer_bytes += WeightBytes(op);
    }
  }
  *step_s = bytes / kWeightBytesPerSecond;
  return cut;
}

Status CheckSteps(ProgramRun* run, int32_t vocab_size, int32_t context, double step_s,
                  CheckClock* clock) {
  if (!clock->Allows(step_s)) return Status::Ok();
  const int32_t length = std::min(5, context), other_length = std::min(3, context);
  const std::vector<int32_t> ids = Sequence(length, vocab_size);
  const BlockTable first = {0}, second = {1};
  // The first and the last row.
  std::vector<int32_t> rows = {0};
  if (length > 1) rows.push_back(length - 1);
  const auto step = [&](const PackedBatch& batch) {
    return clock->Run([&] { return run->Run(batch); });
  };
  const auto long_rope = [run](int32_t rows) { return run->LongRope(static_cast<size_t>(rows)); };
  const SingleSequence one(ids.size(), 0, first, long_rope(length));
  const auto before = clock->took();
  PENSTOCK_RETURN_IF_ERROR(step(one.Batch(ids, rows)));
  std::vector<Numbers> alone;
  for (size_t row = 0; row < rows.size(); ++row) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::span<const float> logits, run->Row(row));
    PENSTOCK_RETURN_IF_ERROR(CheckFinite(logits, fmt::format("token {}", rows[row])));
    alone.emplace_back(logits.begin(), logits.end());
  }
  PENSTOCK_RETURN_IF_ERROR(CheckVaried(alone));
  const double took = std::chrono::duration<double>(clock->took() - before).count();
  if (!clock->Allows(std::max(step_s, took))) return Status::Ok();
  std::vector<int32_t> both = Sequence(other_length, vocab_size);
  both.insert(both.end(), ids.begin(), ids.end());
  std::vector<int32_t> moved = rows;
  for (int32_t& row : moved) row += other_length;
  const int32_t offsets[] = {0, other_length, other_length + length};
  const CachedSequence two[] = {{0, second, long_rope(other_length)},
                                {0, first, long_rope(length)}};
  PENSTOCK_RETURN_IF_ERROR(step({.ids = both, .offsets = offsets, .cached = two, .picks = moved}));
  for (size_t row = 0; row < rows.size(); ++row) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::span<const float> logits, run->Row(row));
    PENSTOCK_RETURN_IF_ERROR(CheckSameBits(alone[row], logits, fmt::format("token {}", rows[row])));
  }
  return Status::Ok();
}

}  // namespace penstock
