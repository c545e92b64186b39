#include "doctor_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/int_math.h"
#include "devices/backends.h"
#include "doctor/decoder_text.h"
#include "doctor_decoder_types.h"
#include "engine/encoder_engine.h"
#include "families/decoder_files.h"
#include "generate/generator.h"
#include "generate/text_model.h"

namespace penstock {
namespace {

// The longest sequence that is run, if the model's own context is not shorter.
constexpr int32_t kContext = 1024;
// Tokens of the text whose bits are compared: more than a block of the cache.
constexpr size_t kTokens = 48;
// Whose logits are in memory.
constexpr int32_t kLogitRows = 32;

using Rows = std::vector<std::vector<float>>;

// Rows of a step: of the text, and of another one beside it.
struct Chunk {
  size_t rows = 0;
  size_t other_rows = 0;
};

// The tokens whose bits are compared, and in which rows.
struct Sample {
  static Expected<Sample> Make(const TextModel& model) {
    Sample sample;
    Encoding encoding;
    PENSTOCK_RETURN_IF_ERROR(model.tokenizer->Encode(DecoderText(), {}, &encoding));
    const size_t tokens =
        std::min<size_t>({kTokens, encoding.ids.size() / 2, static_cast<size_t>(model.context())});
    if (tokens == 0) return Status::InvalidArgument("the tokenizer has no tokens for English");
    const auto cut = encoding.ids.begin() + static_cast<ptrdiff_t>(tokens);
    sample.ids.assign(encoding.ids.begin(), cut);
    sample.other.assign(cut, cut + static_cast<ptrdiff_t>(tokens));
    // Where chunks and the block of the cache begin and end.
    for (const size_t place : {size_t{0}, size_t{6}, size_t{7}, size_t{31}, size_t{32}}) {
      if (place < tokens) sample.places.push_back(place);
    }
    if (sample.places.back() + 1 < tokens) sample.places.push_back(tokens - 1);
    return sample;
  }

  std::vector<int32_t> ids, other;  // equally many
  std::vector<size_t> places;       // of `ids`, ascending
};

// The logits of the sample's places, the text cut into these chunks; the last one takes all rows
// that are left.
Expected<Rows> Logits(const TextModel& model, const Sample& sample, std::span<const Chunk> chunks) {
  const size_t tokens = sample.ids.size();
  const size_t blocks = CeilDiv(tokens, size_t{kKvBlockTokens});
  StepOptions options;
  options.cache_type = model.cache_type;
  options.rows = static_cast<int32_t>(2 * tokens);
  options.picks = static_cast<int32_t>(sample.places.size());
  options.blocks = {static_cast<int32_t>(2 * blocks)};
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, model.decoder->NewRun(options));
  // The text's blocks behind those of the other.
  BlockTable others(blocks), own(blocks);
  std::iota(others.begin(), others.end(), 0);
  std::iota(own.begin(), own.end(), static_cast<int32_t>(blocks));
  Rows rows;
  size_t past = 0, other_past = 0;
  for (size_t i = 0; past < tokens; ++i) {
    Chunk chunk = chunks[std::min(i, chunks.size() - 1)];
    if (chunk.rows == 0) chunk.rows = tokens;
    chunk.rows = std::min(chunk.rows, tokens - past);
    chunk.other_rows = std::min(chunk.other_rows, tokens - other_past);
    std::vector<int32_t> ids, wanted;
    std::vector<StepSequence> sequences;
    const auto add = [&](const std::vector<int32_t>& from, size_t begin, size_t count,
                         const BlockTable& held) {
      if (count == 0) return;
      const auto first = from.begin() + static_cast<ptrdiff_t>(begin);
      ids.insert(ids.end(), first, first + static_cast<ptrdiff_t>(count));
      sequences.push_back({static_cast<int32_t>(count), static_cast<int32_t>(begin), held});
    };
    add(sample.other, other_past, chunk.other_rows, others);
    add(sample.ids, past, chunk.rows, own);
    for (const size_t place : sample.places) {
      if (place < past || place >= past + chunk.rows) continue;
      wanted.push_back(static_cast<int32_t>(chunk.other_rows + place - past));
    }
    PENSTOCK_RETURN_IF_ERROR(run->Run({ids, sequences, wanted}));
    for (size_t row = 0; row < wanted.size(); ++row) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto logits, run->Row(row));
      rows.emplace_back(logits.begin(), logits.end());
    }
    past += chunk.rows;
    other_past += chunk.other_rows;
  }
  return rows;
}

bool SameBits(const Rows& a, const Rows& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

double LargestDifference(const Rows& a, const Rows& b) {
  double largest = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i) {
      largest = std::max(largest, std::abs(double{a[row][i]} - b[row][i]));
    }
  }
  return largest;
}

// A way to cut a text. Rows 0: all that are left.
struct Cut {
  const char* name;
  std::vector<Chunk> chunks;
};
Cut Whole() { return {"in one step", {{0, 0}}}; }
Cut Alone() { return {"one by one", {{1, 0}}}; }

// Checks the logits of both texts of the sample.
void CheckFinite(const TextModel& model, const Sample& sample, DoctorReport* report) {
  const auto generator = Generator::Make(&model, kLogitRows);
  if (!generator.ok()) return report->Line(false, "finite", generator.status().message());
  std::vector<int32_t> ids = sample.ids;
  ids.insert(ids.end(), sample.other.begin(), sample.other.end());
  ids.resize(std::min(ids.size(), static_cast<size_t>(model.context())));
  std::vector<int32_t> rows(kLogitRows);
  std::iota(rows.begin(), rows.end(), 0);
  int64_t bad = 0;
  for (size_t past = 0; past < ids.size(); past += kLogitRows) {
    const size_t count = std::min<size_t>(kLogitRows, ids.size() - past);
    const Status status = (*generator)
                              ->Step(std::span(ids).subspan(past, count),
                                     static_cast<int32_t>(past), std::span(rows).first(count));
    if (!status.ok()) return report->Line(false, "finite", status.message());
    for (size_t row = 0; row < count; ++row) {
      const auto found = (*generator)->run().Row(row);
      if (!found.ok()) return report->Line(false, "finite", found.status().message());
      const std::span<const float> logits = *found;
      bad += std::count_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
    }
  }
  report->Line(bad == 0, "finite",
               bad == 0 ? fmt::format("every logit of {} tokens is finite", ids.size())
                        : fmt::format("{} logits of {} tokens are not finite", bad, ids.size()));
}

void CheckBatch(const TextModel& model, const Sample& sample, const Rows& whole,
                DoctorReport* report) {
  const Cut cuts[] = {Alone(),
                      {"in other chunks", {{7, 0}, {1, 0}, {24, 0}, {0, 0}}},
                      {"beside another text", {{7, 20}, {1, 1}, {23, 1}, {1, 16}, {0, 3}}}};
  for (const Cut& cut : cuts) {
    const auto rows = Logits(model, sample, cut.chunks);
    if (!rows.ok()) return report->Line(false, "batch", rows.status().message());
    if (SameBits(whole, *rows)) continue;
    return report->Line(
        false, "batch",
        fmt::format("{} tokens give other bits {} than {}: {:.1e}", sample.ids.size(), cut.name,
                    Whole().name, LargestDifference(whole, *rows)));
  }
  report->Line(true, "batch",
               fmt::format("{} tokens: the same bits {}, {}, {} and {}", sample.ids.size(),
                           Whole().name, cuts[0].name, cuts[1].name, cuts[2].name));
}

class DecoderDoctor {
 public:
  DecoderDoctor(const DecoderPlace& place, const ModelOptions& flags, DoctorReport* report)
      : place_(place), flags_(flags), report_(report) {}

  void Run(const AccuracyFlags& accuracy) {
    if (!CheckModel()) return;
    CheckThreads();
    CheckEachKernel(report_);
    if (accuracy.count == 0) return report_->Skip("accuracy", "--accuracy-texts is 0");
    const Status compared = Compare(accuracy);
    if (!compared.ok()) report_->Line(false, "accuracy", compared.message());
  }

 private:
  Expected<std::unique_ptr<TextModel>> Load(std::optional<DType> dtype, Backend* backend) const {
    TextModelOptions options;
    options.dtype = dtype;
    options.context = context_;
    return TextModel::Load(place_.path, backend, options);
  }
  Expected<std::unique_ptr<Backend>> BackendOf(int threads) const {
    PENSTOCK_ASSIGN_OR_RETURN(DeviceOptions options, DeviceAsked(flags_));
    options.threads = threads;
    return NewBackend(options);
  }

  // What the files say, as the last words of the line of `load`.
  Expected<std::string> ReadFiles() {
    PENSTOCK_ASSIGN_OR_RETURN(dtype_, TypeAsked(flags_));
    PENSTOCK_ASSIGN_OR_RETURN(const DecoderFiles files, DecoderFiles::Open(place_.path));
    context_ = std::min(files.config.context, kContext);
    std::vector<std::string> types;
    for (const StoredType& type : TypesInFiles(*files.store)) {
      types.emplace_back(DTypeName(type.dtype));
    }
    return fmt::format("{}, {} parameters stored as {}", files.config.architecture,
                       files.parameters, fmt::join(types, ", "));
  }

  // Loads the model and runs the checks of its results. Returns false if it cannot be loaded.
  bool CheckModel() {
    const auto fail = [&](const char* check, const Status& status) {
      report_->Line(false, check, status.message());
      return false;
    };
    const auto not_loaded = [&](const Status& status) {
      return fail("load", status.Annotate("cannot load model '" + place_.name + "'"));
    };
    const auto files = ReadFiles();
    if (!files.ok()) return not_loaded(files.status());
    const auto backend = BackendOf(flags_.threads);
    if (!backend.ok()) return not_loaded(backend.status());
    const auto model = Load(dtype_, backend->get());
    if (!model.ok()) return not_loaded(model.status());
    report_->Line(true, "load",
                  fmt::format("{}: generation, {}, computed in {}, {}", place_.name, *files,
                              ComputedTypes(*(*model)->decoder), (*backend)->name()));
    CheckTokenizer(*(*model)->tokenizer, report_);
    auto sample = Sample::Make(**model);
    if (!sample.ok()) return fail("finite", sample.status());
    sample_ = *std::move(sample);
    CheckFinite(**model, sample_, report_);
    auto whole = Logits(**model, sample_, Whole().chunks);
    if (!whole.ok()) return fail("batch", whole.status());
    whole_ = *std::move(whole);
    CheckBatch(**model, sample_, whole_, report_);
    return true;
  }

  void CheckThreads() {
    const auto backend = BackendOf(1);
    if (!backend.ok()) return report_->Line(false, "threads", backend.status().message());
    const auto model = Load(dtype_, backend->get());
    if (!model.ok()) return report_->Line(false, "threads", model.status().message());
    for (const Cut& cut : {Whole(), Alone()}) {
      const auto rows = Logits(**model, sample_, cut.chunks);
      if (!rows.ok()) return report_->Line(false, "threads", rows.status().message());
      if (SameBits(whole_, *rows)) continue;
      return report_->Line(false, "threads",
                           fmt::format("one thread gives other bits {}: {:.1e}", cut.name,
                                       LargestDifference(whole_, *rows)));
    }
    report_->Line(true, "threads", "one thread gives the same bits");
  }

  Status Compare(const AccuracyFlags& accuracy) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto backend, BackendOf(flags_.threads));
    return CompareDecoderTypes(
        [&](std::optional<DType> dtype) { return Load(dtype, backend.get()); }, accuracy, report_);
  }

  const DecoderPlace& place_;
  const ModelOptions& flags_;
  DoctorReport* const report_;
  int32_t context_ = 0;
  std::optional<DType> dtype_;
  Sample sample_;
  Rows whole_;  // its logits, in one step
};

}  // namespace

void DiagnoseDecoder(const DecoderPlace& place, const ModelOptions& model,
                     const AccuracyFlags& accuracy, DoctorReport* report) {
  DecoderDoctor(place, model, report).Run(accuracy);
}

}  // namespace penstock
