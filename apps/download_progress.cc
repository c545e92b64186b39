#include "download_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "os/disk_room.h"

namespace penstock::cli {
namespace {

constexpr std::chrono::seconds kRateWindow{8};
constexpr size_t kNameBytesShown = 60;
constexpr uint64_t kBytesAnnounced = 1'000'000;
constexpr size_t kBarMin = 10;
constexpr size_t kBarMax = 40;

std::string Size(uint64_t bytes) { return SizeText(static_cast<int64_t>(bytes)); }

}  // namespace

std::string DownloadText(const DownloadFacts& facts, size_t columns, bool bar) {
  const double share =
      facts.bytes_total == 0
          ? 0
          : std::min(static_cast<double>(facts.bytes) / static_cast<double>(facts.bytes_total),
                     1.0);
  std::string text = Printable(facts.what, kNameBytesShown);
  std::string end;
  if (facts.checking) {
    end = "checking " + Size(facts.bytes_total);
  } else {
    end =
        fmt::format("{:.0f} %, {} of {}", 100 * share, Size(facts.bytes), Size(facts.bytes_total));
    if (facts.bytes_per_second > 0) {
      const auto left =
          static_cast<double>(facts.bytes_total - std::min(facts.bytes, facts.bytes_total));
      end += fmt::format(", {}/s, {} left", Size(static_cast<uint64_t>(facts.bytes_per_second)),
                         DurationText(left / facts.bytes_per_second));
    }
  }
  const size_t taken = text.size() + end.size() + 5;
  if (bar && taken + kBarMin <= columns) {
    const size_t width = std::min(columns - taken, kBarMax);
    const auto filled = static_cast<size_t>(share * static_cast<double>(width));
    text += " [" + std::string(filled, '#') + std::string(width - filled, ' ') + "]";
  } else if (!bar) {
    text += ":";
  }
  text += ' ' + end;
  return text.substr(0, columns);
}

DownloadProgress::DownloadProgress(std::string what, bool quiet)
    : what_(std::move(what)), line_(StatusLine::PlaceFor(quiet, /*in_log=*/true)) {}

std::function<bool(const hub::HubProgress&)> DownloadProgress::Callback() {
  return [this](const hub::HubProgress& progress) {
    Tell(progress);
    return true;
  };
}

// Over the last seconds, so that it follows a line that changes.
double DownloadProgress::BytesPerSecond(uint64_t bytes, StatusLine::TimePoint now) {
  if (samples_.empty() || now - samples_.back().first >= StatusLine::kOnTerminal) {
    samples_.emplace_back(now, bytes);
  }
  while (samples_.size() > 2 && now - samples_.front().first > kRateWindow) samples_.pop_front();
  const double seconds = std::chrono::duration<double>(now - samples_.front().first).count();
  const uint64_t before = samples_.front().second;
  return seconds < 0.5 || bytes <= before ? 0 : static_cast<double>(bytes - before) / seconds;
}

void DownloadProgress::Tell(const hub::HubProgress& progress) {
  if (progress.bytes_total == 0) return;
  const auto now = line_.Now();
  bytes_ = progress.bytes_done;
  if (!began_) {
    began_ = true;
    start_ = now;
    bytes_at_start_ = bytes_;
    line_.Restart();
  }
  // What is to come is known once the small files that name the others are here.
  if (!announced_ && progress.bytes_total >= kBytesAnnounced) {
    announced_ = true;
    if (!line_.on_terminal()) {
      line_.Show(Printable(what_) + ": downloading " + Size(progress.bytes_total));
    }
  }
  const double rate = BytesPerSecond(bytes_, now);
  // A terminal shows at once that the bytes are there and are checked.
  if (!line_.IsDue() && (!line_.on_terminal() || progress.checking == checking_)) return;
  checking_ = progress.checking;
  const DownloadFacts facts{what_, bytes_, progress.bytes_total, rate, progress.checking};
  line_.Show(DownloadText(facts, line_.columns(), /*bar=*/line_.on_terminal()));
}

void DownloadProgress::Finish() {
  if (!began_) return;
  const double seconds =
      std::max(std::chrono::duration<double>(line_.Now() - start_).count(), 1e-3);
  const uint64_t bytes = bytes_ - std::min(bytes_, bytes_at_start_);
  line_.End(fmt::format("{}: downloaded {} in {}, {}/s", Printable(what_), Size(bytes),
                        seconds < 10 ? fmt::format("{:.1f} s", seconds) : DurationText(seconds),
                        Size(static_cast<uint64_t>(static_cast<double>(bytes) / seconds))));
}

Expected<std::string> ResolveShown(const std::string& reference, bool tokenizer_only) {
  hub::ResolveOptions options;
  options.tokenizer_only = tokenizer_only;
  DownloadProgress progress(reference, /*quiet=*/false);
  options.progress = progress.Callback();
  auto path = hub::ResolveModel(reference, options);
  if (path.ok()) progress.Finish();
  return path;
}

}  // namespace penstock::cli
