#include "checks/decoder_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/int_math.h"
#include "checks/decoder_text.h"
#include "checks/model_rows.h"
#include "generate/generator.h"

namespace penstock::checks {
namespace {

// Tokens of the text whose bits are compared: more than a block of the cache.
constexpr size_t kSampleTokens = 48;
// Whose logits are in memory.
constexpr int32_t kLogitRows = 32;

// The tokens of two texts whose bits are compared.
struct DecoderSample {
  std::vector<int32_t> ids, other;  // equally many
  std::vector<size_t> places;       // of `ids`, ascending, whose logits are looked at
};

// Rows of a step: of the text, and of another one beside it.
struct Chunk {
  size_t rows = 0;
  size_t other_rows = 0;
};

// The logits of the sample's places, the text cut into these chunks; the last one takes all rows
// that are left.
Expected<ModelRows> SampleLogits(const generate::TextModel& model, const DecoderSample& sample,
                                 std::span<const Chunk> chunks) {
  const size_t tokens = sample.ids.size();
  const size_t blocks = CeilDiv(tokens, size_t{kKvBlockTokens});
  program::PrepareOptions options;
  options.cache_type = model.cache_type;
  options.rows = static_cast<int32_t>(2 * tokens);
  options.picks = static_cast<int32_t>(sample.places.size());
  options.blocks = {static_cast<int32_t>(2 * blocks)};
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, model.decoder->NewRun(options));
  // The text's blocks behind those of the other.
  BlockTable others(blocks), own(blocks);
  std::iota(others.begin(), others.end(), 0);
  std::iota(own.begin(), own.end(), static_cast<int32_t>(blocks));
  ModelRows rows;
  size_t past = 0, other_past = 0;
  for (size_t i = 0; past < tokens; ++i) {
    Chunk chunk = chunks[std::min(i, chunks.size() - 1)];
    if (chunk.rows == 0) chunk.rows = tokens;
    chunk.rows = std::min(chunk.rows, tokens - past);
    chunk.other_rows = std::min(chunk.other_rows, tokens - other_past);
    std::vector<int32_t> ids, offsets = {0}, wanted;
    std::vector<program::CachedSequence> sequences;
    const auto add = [&](const std::vector<int32_t>& from, size_t begin, size_t count,
                         const BlockTable& held) {
      if (count == 0) return;
      const auto first = from.begin() + static_cast<ptrdiff_t>(begin);
      ids.insert(ids.end(), first, first + static_cast<ptrdiff_t>(count));
      offsets.push_back(static_cast<int32_t>(ids.size()));
      sequences.push_back({static_cast<int32_t>(begin), held});
    };
    add(sample.other, other_past, chunk.other_rows, others);
    add(sample.ids, past, chunk.rows, own);
    for (const size_t place : sample.places) {
      if (place < past || place >= past + chunk.rows) continue;
      wanted.push_back(static_cast<int32_t>(chunk.other_rows + place - past));
    }
    PENSTOCK_RETURN_IF_ERROR(
        run->Run({.ids = ids, .offsets = offsets, .cached = sequences, .picks = wanted}));
    for (size_t row = 0; row < wanted.size(); ++row) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto logits, run->Row(row));
      rows.emplace_back(logits.begin(), logits.end());
    }
    past += chunk.rows;
    other_past += chunk.other_rows;
  }
  return rows;
}

// A way to cut a text. Rows 0: all that are left.
struct Cut {
  const char* name;
  std::vector<Chunk> chunks;
};
Cut Whole() { return {"in one step", {{0, 0}}}; }
Cut Alone() { return {"one by one", {{1, 0}}}; }

class DecoderResults final : public CheckedResults {
 public:
  DecoderResults(HeldDecoder loaded, std::function<Expected<HeldDecoder>()> load_again)
      : loaded_(std::move(loaded)), load_again_(std::move(load_again)) {}

  // Looks at the logits of both texts.
  Expected<std::string> Finite() override {
    const Status taken = TakeSample();
    lost_ = !taken.ok();
    if (lost_) return taken;
    const generate::TextModel& model = *loaded_.model;
    PENSTOCK_ASSIGN_OR_RETURN(const auto generator, generate::Generator::Make(&model, kLogitRows));
    std::vector<int32_t> ids = sample_.ids;
    ids.insert(ids.end(), sample_.other.begin(), sample_.other.end());
    ids.resize(std::min(ids.size(), static_cast<size_t>(model.context())));
    std::vector<int32_t> rows(kLogitRows);
    std::iota(rows.begin(), rows.end(), 0);
    int64_t bad = 0;
    for (size_t past = 0; past < ids.size(); past += kLogitRows) {
      const size_t count = std::min<size_t>(kLogitRows, ids.size() - past);
      PENSTOCK_RETURN_IF_ERROR(generator->Step(std::span(ids).subspan(past, count),
                                               static_cast<int32_t>(past),
                                               std::span(rows).first(count)));
      for (size_t row = 0; row < count; ++row) {
        PENSTOCK_ASSIGN_OR_RETURN(const auto logits, generator->run().Row(row));
        bad +=
            std::count_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
      }
    }
    if (bad == 0) return fmt::format("every logit of {} tokens is finite", ids.size());
    return Status::Internal(fmt::format("{} logits of {} tokens are not finite", bad, ids.size()));
  }

  Expected<std::string> Batch() override {
    auto whole = SampleLogits(*loaded_.model, sample_, Whole().chunks);
    lost_ = !whole.ok();
    if (lost_) return std::move(whole).status();
    whole_ = *std::move(whole);
    const Cut cuts[] = {Alone(),
                        {"in other chunks", {{7, 0}, {1, 0}, {24, 0}, {0, 0}}},
                        {"beside another text", {{7, 20}, {1, 1}, {23, 1}, {1, 16}, {0, 3}}}};
    for (const Cut& cut : cuts) {
      PENSTOCK_ASSIGN_OR_RETURN(const ModelRows rows,
                                SampleLogits(*loaded_.model, sample_, cut.chunks));
      if (SameBits(whole_, rows)) continue;
      return Status::Internal(fmt::format("{} tokens give other bits {} than {}: {:.1e}",
                                          sample_.ids.size(), cut.name, Whole().name,
                                          LargestDifference(whole_, rows)));
    }
    return fmt::format("{} tokens: the same bits {}, {}, {} and {}", sample_.ids.size(),
                       Whole().name, cuts[0].name, cuts[1].name, cuts[2].name);
  }

  Expected<std::string> Threads() override {
    loaded_.model = nullptr;  // its memory and processors are needed for the other
    loaded_.backend = nullptr;
    PENSTOCK_ASSIGN_OR_RETURN(const HeldDecoder other, load_again_());
    for (const Cut& cut : {Whole(), Alone()}) {
      PENSTOCK_ASSIGN_OR_RETURN(const ModelRows rows,
                                SampleLogits(*other.model, sample_, cut.chunks));
      if (SameBits(whole_, rows)) continue;
      return Status::Internal(fmt::format("one thread gives other bits {}: {:.1e}", cut.name,
                                          LargestDifference(whole_, rows)));
    }
    return std::string("one thread gives the same bits");
  }

 private:
  Status TakeSample() {
    const generate::TextModel& model = *loaded_.model;
    text::Encoding encoding;
    PENSTOCK_RETURN_IF_ERROR(model.tokenizer->Encode(DecoderText(), {}, &encoding));
    const size_t tokens = std::min<size_t>(
        {kSampleTokens, encoding.ids.size() / 2, static_cast<size_t>(model.context())});
    if (tokens == 0) return Status::InvalidArgument("the tokenizer has no tokens for English");
    const auto cut = encoding.ids.begin() + static_cast<ptrdiff_t>(tokens);
    sample_.ids.assign(encoding.ids.begin(), cut);
    sample_.other.assign(cut, cut + static_cast<ptrdiff_t>(tokens));
    // Where chunks and the block of the cache begin and end.
    for (const size_t place : {size_t{0}, size_t{6}, size_t{7}, size_t{31}, size_t{32}}) {
      if (place < tokens) sample_.places.push_back(place);
    }
    if (sample_.places.back() + 1 < tokens) sample_.places.push_back(tokens - 1);
    return Status::Ok();
  }

  HeldDecoder loaded_;
  const std::function<Expected<HeldDecoder>()> load_again_;
  DecoderSample sample_;
  ModelRows whole_;  // its logits, in one step
};

}  // namespace

std::unique_ptr<CheckedResults> DecoderResultsOf(
    HeldDecoder loaded, std::function<Expected<HeldDecoder>()> load_again) {
  return std::make_unique<DecoderResults>(std::move(loaded), std::move(load_again));
}

}  // namespace penstock::checks
