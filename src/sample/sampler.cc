#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>

#include "sample/philox.h"

namespace penstock::sample {
namespace {

// The logit of an end that min_tokens holds back: below all others but those that a grammar forbids.
constexpr float kHeldLogit = -kLogitMax / 2;

bool IsAllowed(std::span<const uint32_t> allowed, int32_t id) {
  const auto bit = static_cast<size_t>(id);
  return (allowed[bit / 32] >> (bit % 32) & 1) != 0;
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

RowNeed NeedOf(const SamplingOptions& options, bool small, bool holds) {
  bool lowers = options.penalizes() || holds;
  bool raises = options.presence_penalty < 0 || options.frequency_penalty < 0 ||
                (options.repetition_penalty < 1 && options.repetition_window != 0);
  for (const LogitBias& entry : options.logit_bias) {
    raises |= entry.bias > 0;
    lowers |= entry.bias < 0;
  }
  if (!small || raises) return RowNeed::kAlways;
  return lowers ? RowNeed::kPerhaps : RowNeed::kNever;
}

// Puts the first `count` in order at the front.
void SortFirst(std::vector<Candidate>* all, size_t count) {
  std::partial_sort(all->begin(), all->begin() + static_cast<ptrdiff_t>(count), all->end(), Before);
}

// Whether no token that a part dropped can come before the last of `first`, `wanted` of which there
// should be.
bool Proven(std::span<const Candidate> first, size_t wanted, std::span<const LogitPart> parts) {
  for (const LogitPart& part : parts) {
    if (!part.dropped) continue;
    if (first.size() < wanted || part.best.empty()) return false;
    if (Before(part.best.back(), first.back())) return false;
  }
  return true;
}

}  // namespace

Status BadLogit(int32_t id) {
  return Status::Internal("the logit of token " + std::to_string(id) +
                          " is not a number within 1e30");
}

void SamplerScratch::Reserve(size_t vocabulary, size_t parts_max) {
  scan_.Reset(kCandidatesMax, false);
  blocks_.resize(LogitBlocks(vocabulary));
  raw_.reserve(parts_max * kCandidatesMax);
  merged_.reserve(parts_max * kCandidatesMax);
  top_.reserve(static_cast<size_t>(kTopLogprobsMax));
}

Sampler::Sampler(const SamplingOptions& options, int32_t vocabulary, size_t tokens_max,
                 size_t parts_max, std::vector<int32_t> held,
                 std::shared_ptr<SamplerScratch> scratch)
    : options_(options),
      biases_(options.logit_bias),
      held_(std::move(held)),
      vocabulary_(static_cast<size_t>(vocabulary)),
      top_k_(options.top_k > 0 && options.top_k <= static_cast<int32_t>(kCandidatesMax)
                 ? static_cast<size_t>(options.top_k)
                 : 0),
      seed_(options.seed ? *options.seed : RandomSeed()),
      row_need_(NeedOf(options, small(), holds())),
      adjusts_(options.penalizes() || !options.logit_bias.empty()),
      scratch_(std::move(scratch)) {
  std::sort(biases_.begin(), biases_.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  filter_ = {options.temperature, options.top_k > 0 ? static_cast<size_t>(options.top_k) : 0,
             options.top_p, options.min_p};
  if (options.penalizes()) {
    const bool by_prompt = options.repetition_penalty != 1;
    counts_.Reset(by_prompt ? options.repetition_window : 0, tokens_max, vocabulary_);
  }
  scratch_->Reserve(vocabulary_, parts_max);
  if (!small()) scratch_->row_draw_.Reserve(vocabulary_, filter_);
  if (adjusts_ || holds()) scratch_->adjusted_.resize(vocabulary_);
}

Expected<Sampler> Sampler::Make(const SamplingOptions& options, int32_t vocabulary,
                                size_t tokens_max, size_t parts_max, std::span<const int32_t> ends,
                                std::shared_ptr<SamplerScratch> scratch) {
  if (vocabulary < 1) return Status::InvalidArgument("the vocabulary is empty");
  PENSTOCK_RETURN_IF_ERROR(options.Check(vocabulary));
  std::vector<int32_t> held;
  for (const int32_t id : ends) {
    if (options.min_tokens > 0 && id >= 0 && id < vocabulary) held.push_back(id);
  }
  std::sort(held.begin(), held.end());
  if (scratch == nullptr) scratch = std::make_shared<SamplerScratch>();
  return Sampler(options, vocabulary, tokens_max, parts_max, std::move(held), std::move(scratch));
}

int64_t Sampler::HeapBytes(const SamplingOptions& options, int32_t vocabulary, size_t tokens_max) {
  // Its own copies of the options, and the ends.
  int64_t bytes = 2 * options.HeapBytes() + static_cast<int64_t>(kStopTokensMax * sizeof(int32_t));
  if (options.penalizes()) {
    const bool by_prompt = options.repetition_penalty != 1;
    bytes += TokenCounts::HeapBytes(by_prompt ? options.repetition_window : 0, tokens_max,
                                    static_cast<size_t>(vocabulary));
  }
  return bytes;
}

void Sampler::AddPrompt(std::span<const int32_t> ids) {
  if (options_.penalizes() && options_.repetition_penalty != 1) counts_.AddPrompt(ids);
}

void Sampler::Accept(int32_t id) {
  ++generated_;
  if (options_.penalizes()) counts_.AddGenerated(id);
}

float Sampler::Penalized(float logit, const TokenCounts::Entry& entry) const {
  float x = logit;
  if (entry.recent > 0) {
    x = x > 0 ? x / options_.repetition_penalty : x * options_.repetition_penalty;
  }
  if (entry.generated > 0) {
    x -= options_.frequency_penalty * static_cast<float>(entry.generated);
    x -= options_.presence_penalty;
  }
  return std::clamp(x, -kLogitMax, kLogitMax);
}

float Sampler::Adjusted(const Candidate& candidate, bool holds_ends) const {
  if (holds_ends && std::binary_search(held_.begin(), held_.end(), candidate.id)) return kHeldLogit;
  float x = candidate.logit;
  if (const TokenCounts::Entry* entry = counts_.Find(candidate.id)) x = Penalized(x, *entry);
  const auto bias =
      std::lower_bound(biases_.begin(), biases_.end(), candidate.id,
                       [](const LogitBias& entry, int32_t id) { return entry.id < id; });
  return bias != biases_.end() && bias->id == candidate.id ? x + bias->bias : x;
}

bool Sampler::HoldsEnds(std::span<const uint32_t> allowed) const {
  if (!holds() || allowed.empty()) return holds();
  size_t ends = 0;
  size_t all = 0;
  for (const int32_t id : held_) ends += IsAllowed(allowed, id) ? 1 : 0;
  for (const uint32_t word : allowed) all += static_cast<size_t>(std::popcount(word));
  return all > ends;
}

void Sampler::AdjustRow(const Logits& logits) {
  const std::span<const float> row = logits.row;
  std::vector<float>& adjusted = scratch_->adjusted_;
  adjusted.resize(vocabulary_);
  std::copy(row.begin(), row.end(), adjusted.begin());
  for (const TokenCounts::Entry& entry : counts_.entries()) {
    if (static_cast<uint32_t>(entry.id) >= row.size()) continue;
    float& x = adjusted[static_cast<size_t>(entry.id)];
    if (std::fabs(x) <= kLogitMax) x = Penalized(x, entry);  // else the scan reports it
  }
  for (const LogitBias& entry : biases_) adjusted[static_cast<size_t>(entry.id)] += entry.bias;
  if (HoldsEnds(logits.allowed)) {
    for (const int32_t id : held_) {
      float& x = adjusted[static_cast<size_t>(id)];
      if (std::fabs(x) <= kLogitMax) x = kHeldLogit;
    }
  }
  for (size_t word = 0; word < logits.allowed.size(); ++word) {
    const size_t begin = 32 * word;
    const size_t end = std::min(begin + 32, row.size());
    if (logits.allowed[word] == ~uint32_t{0}) continue;
    for (size_t id = begin; id < end; ++id) {
      float& x = adjusted[id];
      const bool allowed = (logits.allowed[word] >> (id - begin) & 1) != 0;
      if (!allowed && std::fabs(x) <= kLogitMax) x = -kLogitMax;
    }
  }
}

void Sampler::SetTop(std::span<const Candidate> best, double log_sum, SampledToken* out) {
  std::vector<TokenLogprob>& top = scratch_->top_;
  top.clear();
  for (const Candidate& c :
       best.first(std::min(best.size(), static_cast<size_t>(options_.top_logprobs)))) {
    top.push_back({c.id, static_cast<float>(static_cast<double>(c.logit) - log_sum)});
  }
  out->top = top;
}

Status Sampler::Sample(const Logits& logits, uint64_t position, SampledToken* out) {
  out->top = {};
  const double uniform = options_.greedy() ? 0 : UniformAt(seed_, position);
  if (row_need_ != RowNeed::kAlways && !logits.parts.empty()) {
    int32_t bad_id = -1;
    for (const LogitPart& part : logits.parts) {
      if (part.bad_id >= 0) bad_id = bad_id < 0 ? part.bad_id : std::min(bad_id, part.bad_id);
    }
    if (bad_id >= 0) return BadLogit(bad_id);
    if (FromParts(logits, uniform, out)) return Status::Ok();
  }
  if (logits.row.size() != vocabulary_) {
    return Status::Internal("sampling needs a row of " + std::to_string(vocabulary_) +
                            " logits, has " + std::to_string(logits.row.size()));
  }
  return FromRow(logits, uniform, out);
}

bool Sampler::FromParts(const Logits& logits, double uniform, SampledToken* out) {
  std::vector<Candidate>& raw = scratch_->raw_;
  std::vector<Candidate>& merged = scratch_->merged_;
  if (options_.logprobs && logits.blocks.size() != scratch_->blocks_.size()) return false;
  raw.clear();
  for (const LogitPart& part : logits.parts) {
    raw.insert(raw.end(), part.best.begin(), part.best.end());
  }
  if (raw.empty()) return false;
  merged = raw;
  if (!logits.allowed.empty()) {
    std::erase_if(merged, [&](const Candidate& c) { return !IsAllowed(logits.allowed, c.id); });
    if (merged.empty()) return false;
  }
  if (adjusts(logits)) {
    const bool holds_ends = HoldsEnds(logits.allowed);
    for (Candidate& c : merged) c.logit = Adjusted(c, holds_ends);
  }
  const size_t wanted = std::min(options_.greedy() ? 1 : top_k_, vocabulary_);
  const size_t count = std::min(wanted, merged.size());
  SortFirst(&merged, count);
  const std::span<const Candidate> best = std::span(merged).first(count);
  if (!Proven(best, wanted, logits.parts)) return false;
  const auto top_wanted = static_cast<size_t>(options_.logprobs ? options_.top_logprobs : 0);
  if (top_wanted > 0) {
    const size_t top_count = std::min(top_wanted, raw.size());
    SortFirst(&raw, top_count);
    if (!Proven(std::span(raw).first(top_count), std::min(top_wanted, vocabulary_), logits.parts)) {
      return false;
    }
  }
  out->id = DrawFrom(best, uniform);
  if (!options_.logprobs) return true;
  const double log_sum = LogSumExp(logits.blocks);
  const auto chosen =
      std::find_if(raw.begin(), raw.end(), [&](const Candidate& c) { return c.id == out->id; });
  out->logprob = static_cast<float>(static_cast<double>(chosen->logit) - log_sum);
  SetTop(raw, log_sum, out);
  return true;
}

Status Sampler::FromRow(const Logits& logits, double uniform, SampledToken* out) {
  const std::span<const float> row = logits.row;
  LogitScan& scan = scratch_->scan_;
  std::vector<LogitBlock>& blocks = scratch_->blocks_;
  const size_t keep = !small() || options_.greedy() ? 1 : top_k_;
  const size_t keep_top =
      options_.logprobs ? std::max<size_t>(1, static_cast<size_t>(options_.top_logprobs)) : 1;
  const bool adjusts_row = adjusts(logits);
  double log_sum = 0;
  // What is known of the row as it came; without adjustments also what the draw needs.
  LogitPart part;
  if (options_.logprobs || !adjusts_row) {
    scan.Reset(adjusts_row ? keep_top : std::max(keep, keep_top), options_.logprobs);
    scan.Add(row, 0, blocks.data());
    part = scan.Part();
    if (part.bad_id >= 0) return BadLogit(part.bad_id);
  }
  if (options_.logprobs) {
    log_sum = LogSumExp(blocks);
    SetTop(part.best, log_sum, out);
  }
  std::span<const float> drawn = row;
  if (adjusts_row) {
    AdjustRow(logits);
    drawn = scratch_->adjusted_;
    scan.Reset(keep, false);
    scan.Add(drawn, 0, blocks.data());
    part = scan.Part();
    if (part.bad_id >= 0) return BadLogit(part.bad_id);
  }
  out->id = small() ? DrawFrom(part.best.first(std::min(keep, part.best.size())), uniform)
                    : scratch_->row_draw_.Draw(drawn, blocks, filter_, uniform);
  // The sums of a draw are rounded: one that ends beyond all weights takes the best.
  if (!logits.allowed.empty() && !IsAllowed(logits.allowed, out->id)) out->id = part.best[0].id;
  if (options_.logprobs) {
    out->logprob =
        static_cast<float>(static_cast<double>(row[static_cast<size_t>(out->id)]) - log_sum);
  }
  return Status::Ok();
}

DrawRule Sampler::RuleWith(double uniform) const {
  const size_t keep = std::min(options_.greedy() ? size_t{1} : top_k_, vocabulary_);
  return {uniform, options_.greedy() ? 0.0F : options_.temperature, options_.top_p, options_.min_p,
          static_cast<int32_t>(keep)};
}

std::optional<DrawRule> Sampler::RuleAt(uint64_t position) const {
  if (row_need_ != RowNeed::kNever) return std::nullopt;
  return RuleWith(options_.greedy() ? 0 : UniformAt(seed_, position));
}

int32_t Sampler::DrawFrom(std::span<const Candidate> best, double uniform) const {
  std::array<double, kCandidatesMax> weights;
  const int32_t chosen =
      DrawBest(RuleWith(uniform), static_cast<int32_t>(best.size()), weights.data(),
               [&](int32_t i) { return best[static_cast<size_t>(i)].logit; });
  return best[static_cast<size_t>(chosen)].id;
}

}  // namespace penstock::sample
