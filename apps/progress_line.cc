#include "progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace penstock::cli {

std::string ProgressText(const ProgressFacts& facts, size_t columns) {
  std::vector<std::string> parts;
  if (facts.done > 0) {
    parts.push_back(fmt::format("{:.1f} %", 100 * std::min(facts.done, 1.0)));
    if (facts.left_s >= 0) parts.push_back(DurationText(facts.left_s) + " left");
  }
  if (facts.texts > 0) {
    const double seconds = std::max(facts.seconds, 1e-9);
    parts.push_back(fmt::format("{} texts", facts.texts));
    parts.push_back(fmt::format("{:.0f} texts/s", static_cast<double>(facts.texts) / seconds));
    parts.push_back(fmt::format("{:.0f} tokens/s", static_cast<double>(facts.tokens) / seconds));
  }
  if (facts.cut > 0) parts.push_back(fmt::format("{} cut", facts.cut));
  if (facts.skipped > 0) parts.push_back(fmt::format("{} skipped", facts.skipped));
  std::string text = facts.stage.substr(0, columns);
  for (const std::string& part : parts) {
    std::string piece = text.empty() ? "" : text.size() == facts.stage.size() ? " " : ", ";
    piece += part;
    if (text.size() + piece.size() > columns) break;
    text += piece;
  }
  return text;
}

ProgressLine::ProgressLine(bool quiet) : ProgressLine(Options{quiet, false, false}) {
  finishes_itself_ = true;
  stage_.clear();
}

ProgressLine::ProgressLine(const Options& options)
    : line_(StatusLine::PlaceFor(options.quiet, options.bulk)),
      summary_(line_.on_terminal() || options.summary),
      start_(line_.Now()) {}

ProgressLine::~ProgressLine() {
  if (finishes_itself_) Finish();
}

void ProgressLine::Begin(const std::string& stage) {
  stage_ = stage;
  start_ = line_.Now();
  line_.Restart();
  if (line_.on_terminal()) line_.Show(Text());
}

void ProgressLine::GoOnBehind(int64_t rows, int64_t bytes) {
  rows_before_ = rows;
  bytes_before_ = bytes;
}

void ProgressLine::Add(size_t texts, const encode::Usage& usage,
                       const encode::Truncation& truncation, int64_t bytes) {
  texts_ += texts;
  bytes_ += bytes;
  tokens_ += usage.prompt_tokens;
  cut_ += truncation.inputs;
  if (!line_.IsDue()) return;
  line_.Show(Text());
  printed_ = true;
}

double ProgressLine::Seconds() const {
  return std::max(std::chrono::duration<double>(line_.Now() - start_).count(), 1e-9);
}

std::string ProgressLine::Text() const {
  ProgressFacts facts{stage_, texts_, tokens_, Seconds(), 0, -1, cut_, skipped_};
  if (bytes_total_ > 0 && bytes_ > 0) {
    const auto done = static_cast<double>(bytes_);
    const auto total = static_cast<double>(bytes_total_);
    facts.done = (static_cast<double>(bytes_before_) + done) / total;
    const double left = total - static_cast<double>(bytes_before_) - done;
    // The first requests are small and slow: nothing follows from them.
    if (facts.seconds >= 2 || done >= 0.05 * total) {
      facts.left_s = facts.seconds * std::max(left, 0.0) / done;
    }
  }
  return ProgressText(facts, line_.columns());
}

void ProgressLine::Finish() {
  if (texts_ == 0 || (!summary_ && !printed_)) return;
  const double seconds = Seconds();
  std::string text =
      fmt::format("{} texts, {} tokens in {}: {:.0f} texts/s, {:.0f} tokens/s", texts_, tokens_,
                  seconds < 10 ? fmt::format("{:.1f} s", seconds) : DurationText(seconds),
                  static_cast<double>(texts_) / seconds, static_cast<double>(tokens_) / seconds);
  if (rows_before_ > 0) text += fmt::format(", resumed from row {}", rows_before_);
  line_.End(text);
}

}  // namespace penstock::cli
