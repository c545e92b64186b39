#include "checks/text_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::checks {
namespace {

// Texts of different lengths and scripts, for different shapes of batches.
const std::vector<std::string>& DoctorTexts() {
  static const std::vector<std::string> texts = {
      "That is a happy person",
      "That is a very happy person",
      "a",
      "The penstock carries water from the reservoir to the turbine; its gate regulates the flow.",
      "Größe, naïve café, 北京大学, здравствуйте, 🙂",
      "0123456789 3.14159 https://example.org/path?query=1#fragment",
      std::string(2000, 'x') + " a word longer than any vocabulary",
      [] {
        std::string text;
        for (int i = 0; i < 300; ++i) text += "water flows down the pipe and turns the wheel ";
        return text;
      }(),
  };
  return texts;
}

// Cosines of sentence pairs as sentence-transformers 6.2.0 gives them on a CPU; the same numbers as
// in tests/golden/minilm/expected.json.
struct KnownModel {
  const char* name_part;
  int32_t layers;
  int32_t dimensions;
  const char* first;
  const char* second;
  double cosine;
};
constexpr KnownModel kKnownModels[] = {
    {"all-MiniLM-L6-v2", 6, 384, "That is a happy person", "That is a very happy person", 0.942915},
};

// What was found, as that of a check that held or did not.
Expected<std::string> Found(bool ok, std::string text) {
  if (ok) return text;
  return Status::Internal(std::move(text));
}

class TextResults final : public CheckedResults {
 public:
  explicit TextResults(TextsSource source) : source_(std::move(source)) {}

  Expected<std::string> Finite() override {
    auto rows = source_.rows(DoctorTexts());
    lost_ = !rows.ok();
    if (lost_) return std::move(rows).status();
    together_ = *std::move(rows);
    double worst = 0;
    bool finite = true;
    for (const auto& row : together_) {
      double squares = 0;
      for (const float x : row) {
        finite = finite && std::isfinite(x);
        squares += double{x} * x;
      }
      worst = std::max(worst, std::abs(std::sqrt(squares) - 1));
    }
    return Found(finite && (!source_.unit_length || worst < 1e-5),
                 source_.unit_length ? fmt::format("lengths differ from 1 by {:.1e} at most", worst)
                                     : "every number is finite");
  }

  Expected<std::string> Batch() override {
    const std::vector<std::string>& texts = DoctorTexts();
    for (size_t i = 0; i < texts.size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const ModelRows alone, source_.rows({texts[i]}));
      if (SameBits(alone.front(), together_[i])) continue;
      return Status::Internal(
          fmt::format("text {} gives other bits alone than among others: {:.1e}", i,
                      RelativeDifference(alone.front(), together_[i])));
    }
    return fmt::format("{} texts: the same bits alone and together", texts.size());
  }

  Expected<std::string> Threads() override {
    PENSTOCK_ASSIGN_OR_RETURN(const ModelRows rows,
                              source_.rows_again(DoctorTexts(), TextsSource::Again::kOneThread));
    return Found(SameBits(together_, rows), "one thread gives the same bits");
  }

  Status Answers(double tolerance, const Say& say) override {
    for (const KnownModel& known : kKnownModels) {
      if (source_.name.find(known.name_part) == std::string::npos ||
          source_.dimensions != known.dimensions || source_.layers != known.layers) {
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(const ModelRows rows, source_.rows({known.first, known.second}));
      const double cosine = CosineOf(rows[0], rows[1]);
      const std::string text =
          fmt::format("{}: cosine of a known pair is {:.6f}, the reference {:.6f}", known.name_part,
                      cosine, known.cosine);
      if (!(std::abs(cosine - known.cosine) < tolerance)) return Status::Internal(text);
      say(Verdict::kOk, text);
      return Status::Ok();
    }
    say(Verdict::kSkipped, "no known answers for this model");
    return Status::Ok();
  }

  Expected<std::string> Kernels(double tolerance) override {
    PENSTOCK_ASSIGN_OR_RETURN(const ModelRows plain,
                              source_.rows_again(DoctorTexts(), TextsSource::Again::kPlainKernels));
    double worst = 0;
    for (size_t i = 0; i < together_.size(); ++i) {
      worst = std::max(worst, RelativeDifference(together_[i], plain[i]));
    }
    return Found(worst < tolerance,
                 fmt::format("{} and plain kernels differ by {:.1e} of the largest number",
                             source_.backend, worst));
  }

 private:
  const TextsSource source_;
  ModelRows together_;
};

}  // namespace

std::unique_ptr<CheckedResults> TextResultsOf(TextsSource source) {
  return std::make_unique<TextResults>(std::move(source));
}

}  // namespace penstock::checks
