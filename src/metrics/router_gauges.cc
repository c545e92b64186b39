#include "metrics/router_gauges.h"

#include <algorithm>
#include <charconv>

#include "metrics/metrics.h"

namespace penstock::metrics {
namespace {

constexpr std::array<std::string_view, RouterGauges::kFamilies> kNames = {
    "penstock_requests_in_flight", "penstock_generate_waiting", "penstock_generate_running",
    "penstock_kv_usage_ratio",     "penstock_kv_block_size",    "penstock_kv_blocks",
    "penstock_queue_seconds",
};

// Appends without growing `out`. False: it does not fit.
bool Append(std::string_view text, std::string* out) {
  if (out->size() + text.size() > RouterGauges::kBytesMax) return false;
  out->append(text);
  return true;
}

template <typename Number>
bool AppendNumber(Number number, std::string* out) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return Append({text.data(), static_cast<size_t>(end - text.data())}, out);
}

struct AppendValue {
  std::string* out;
  bool operator()(int64_t value) const { return AppendNumber(value, out); }
  bool operator()(const Gauge* gauge) const { return AppendNumber(gauge->value(), out); }
  bool operator()(const SecondsMetric* seconds) const {
    return AppendNumber(seconds->value(), out);
  }
  bool operator()(const RouterGauges::Ratio& ratio) const {
    return AppendNumber(RatioOf(*ratio.part, *ratio.whole), out);
  }
};

struct ValueOf {
  double operator()(int64_t value) const { return static_cast<double>(value); }
  double operator()(const Gauge* gauge) const { return static_cast<double>(gauge->value()); }
  double operator()(const SecondsMetric* seconds) const { return seconds->value(); }
  double operator()(const RouterGauges::Ratio& ratio) const {
    return RatioOf(*ratio.part, *ratio.whole);
  }
};

}  // namespace

double RouterGauges::Total(Family family) const {
  const List& list = lists_[static_cast<size_t>(family)];
  const size_t count = list.size.load(std::memory_order_acquire);
  const bool largest = family == Family::kKvUsage || family == Family::kQueueSeconds;
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = std::visit(ValueOf{}, list.series[i].source);
    total = largest ? std::max(total, value) : total + value;
  }
  return total;
}

void RouterGauges::Add(Family family, std::string_view labels, Source source) {
  const auto index = static_cast<size_t>(family);
  std::string name(kNames[index]);
  if (!labels.empty()) name.append("{").append(labels).append("}");
  List& list = lists_[index];
  const std::lock_guard lock(mutex_);
  const size_t size = list.size.load(std::memory_order_relaxed);
  const auto end = list.series.begin() + static_cast<ptrdiff_t>(size);
  const bool known = std::any_of(list.series.begin(), end,
                                 [&](const Series& series) { return series.name == name; });
  if (known || size == kSeriesMax) return;
  *end = {std::move(name), source};
  list.size.store(size + 1, std::memory_order_release);
}

bool RouterGauges::Print(size_t series, std::string* out) const {
  out->clear();
  for (size_t family = 0; family < kFamilies; ++family) {
    const List& list = lists_[family];
    const size_t count = std::min(series, list.size.load(std::memory_order_acquire));
    if (count == 0) continue;
    if (!Append("# TYPE ", out) || !Append(kNames[family], out) || !Append(" gauge\n", out)) {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      const Series& one = list.series[i];
      if (!Append(one.name, out) || !Append(" ", out) ||
          !std::visit(AppendValue{out}, one.source) || !Append("\n", out)) {
        return false;
      }
    }
  }
  return true;
}

std::string RouterGauges::Render() const {
  std::string out;
  out.reserve(kBytesMax);
  for (size_t series = kSeriesMax; series > 0; --series) {
    if (Print(series, &out)) return out;
  }
  out.clear();
  return out;
}

}  // namespace penstock::metrics
