#include "metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <variant>

#include "base/status.h"

namespace penstock::metrics {

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
  PENSTOCK_CHECK(bounds_.size() <= kBoundsMax);
  PENSTOCK_CHECK(std::is_sorted(bounds_.begin(), bounds_.end(), std::less_equal<>()));
}

void Histogram::Observe(double v) {
  if (std::isnan(v)) {
    buckets_[bounds_.size()].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const size_t i = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  buckets_[i].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(v, std::memory_order_relaxed);
}

std::string MetricLabel(std::string_view key, std::string_view value) {
  std::string out(key);
  out += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::vector<double> DurationBounds() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
          0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};
}

namespace {

// Bounds of printed durations: 2^10 ns = 1 us to 2^36 ns = 69 s.
constexpr int kDurationLog2NsMin = 10;
constexpr int kDurationLog2NsMax = 36;

using Function = std::function<double()>;
using Instrument =
    std::variant<Counter*, Gauge*, SecondsMetric*, Histogram*, DurationHistogram*, Function*>;

struct Series {
  std::string labels;
  Instrument instrument;
  bool once_used = false;
};

struct Family {
  std::string name;
  std::string help;
  const char* type = "";
  std::vector<Series> series;
};

// HELP text: only backslash and line feed are escaped there.
std::string EscapeHelp(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Number(double v) {
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", v);
}

void AppendLine(const Family& family, const char* suffix, const std::string& labels,
                const std::string& value, std::string* out) {
  *out += family.name;
  *out += suffix;
  if (!labels.empty()) {
    *out += '{';
    *out += labels;
    *out += '}';
  }
  *out += ' ';
  *out += value;
  *out += '\n';
}

void AppendHistogram(const Family& family, const std::string& labels, const Histogram& histogram,
                     std::string* out) {
  const std::string prefix = labels.empty() ? "" : labels + ",";
  uint64_t total = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
    total += histogram.bucket(i);
    const std::string bound =
        i < histogram.bounds().size() ? Number(histogram.bounds()[i]) : "+Inf";
    AppendLine(family, "_bucket", prefix + "le=\"" + bound + "\"", fmt::format("{}", total), out);
  }
  AppendLine(family, "_sum", labels, Number(histogram.sum()), out);
  // The count is the sum of the buckets just read, so that the two always agree.
  AppendLine(family, "_count", labels, fmt::format("{}", total), out);
}

void AppendDurations(const Family& family, const std::string& labels,
                     const DurationSnapshot& durations, std::string* out) {
  const std::string prefix = labels.empty() ? "" : labels + ",";
  for (int log2_ns = kDurationLog2NsMin; log2_ns <= kDurationLog2NsMax; ++log2_ns) {
    AppendLine(family, "_bucket", prefix + "le=\"" + Number(std::ldexp(1.0, log2_ns) / 1e9) + "\"",
               fmt::format("{}", durations.CountBelowPowerOfTwo(log2_ns)), out);
  }
  const std::string total = fmt::format("{}", durations.count());
  AppendLine(family, "_bucket", prefix + "le=\"+Inf\"", total, out);
  AppendLine(family, "_sum", labels, Number(durations.total_s()), out);
  AppendLine(family, "_count", labels, total, out);
}

// Prints one series of any instrument.
struct AppendSeries {
  const Family& family;
  const std::string& labels;
  std::string* out;

  void operator()(const Counter* counter) const { Line(fmt::format("{}", counter->value())); }
  void operator()(const Gauge* gauge) const { Line(fmt::format("{}", gauge->value())); }
  void operator()(const SecondsMetric* seconds) const { Line(Number(seconds->value())); }
  void operator()(const Function* function) const { Line(Number((*function)())); }
  void operator()(const Histogram* histogram) const {
    AppendHistogram(family, labels, *histogram, out);
  }
  void operator()(const DurationHistogram* histogram) const {
    AppendDurations(family, labels, histogram->Snapshot(), out);
  }
  void Line(const std::string& value) const { AppendLine(family, "", labels, value, out); }
};

bool IsPrinted(const Series& series) {
  if (!series.once_used) return true;
  if (const auto* counter = std::get_if<Counter*>(&series.instrument)) {
    return (*counter)->value() > 0;
  }
  const auto* found = std::get_if<Histogram*>(&series.instrument);
  if (found == nullptr) return true;
  const Histogram& histogram = **found;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
    if (histogram.bucket(i) > 0) return true;
  }
  return false;
}

}  // namespace

struct Metrics::Impl {
  // Guards registration and Render, never an update. Instruments live in deques: their addresses
  // do not change as more are added.
  mutable std::mutex mutex;
  std::vector<Family> families;
  std::deque<Counter> counters;
  std::deque<Gauge> gauges;
  std::deque<SecondsMetric> seconds;
  std::deque<Histogram> histograms;
  std::deque<DurationHistogram> durations;
  std::deque<Function> functions;
  RouterGauges router;

  // Returns the instrument of (name, labels), made by `make` if it is new. A name belongs to one
  // type for good.
  template <typename T, typename Make>
  T& Add(std::string_view name, std::string_view help, const char* type, std::string_view labels,
         Make make, Shown shown = Shown::kAlways) {
    const std::lock_guard lock(mutex);
    auto family = std::find_if(families.begin(), families.end(),
                               [&](const Family& f) { return f.name == name; });
    if (family == families.end()) {
      families.push_back({std::string(name), std::string(help), type, {}});
      family = families.end() - 1;
    }
    PENSTOCK_CHECK(std::string_view(family->type) == type);
    for (const Series& series : family->series) {
      if (series.labels == labels) return *std::get<T*>(series.instrument);
    }
    T& instrument = make();
    family->series.push_back({std::string(labels), &instrument, shown == Shown::kOnceUsed});
    return instrument;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

RouterGauges& Metrics::router() { return impl_->router; }

Counter& Metrics::AddCounter(std::string_view name, std::string_view help, std::string_view labels,
                             Shown shown) {
  return impl_->Add<Counter>(
      name, help, "counter", labels, [&]() -> Counter& { return impl_->counters.emplace_back(); },
      shown);
}

Gauge& Metrics::AddGauge(std::string_view name, std::string_view help, std::string_view labels) {
  return impl_->Add<Gauge>(name, help, "gauge", labels,
                           [&]() -> Gauge& { return impl_->gauges.emplace_back(); });
}

namespace {

const char* TypeOf(Metrics::Kind kind) {
  return kind == Metrics::Kind::kCounter ? "counter" : "gauge";
}

}  // namespace

SecondsMetric& Metrics::AddSeconds(std::string_view name, std::string_view help, Kind kind,
                                   std::string_view labels) {
  return impl_->Add<SecondsMetric>(name, help, TypeOf(kind), labels, [&]() -> SecondsMetric& {
    return impl_->seconds.emplace_back();
  });
}

Histogram& Metrics::AddHistogram(std::string_view name, std::string_view help,
                                 std::vector<double> bounds, std::string_view labels, Shown shown) {
  return impl_->Add<Histogram>(
      name, help, "histogram", labels,
      [&]() -> Histogram& { return impl_->histograms.emplace_back(std::move(bounds)); }, shown);
}

DurationHistogram& Metrics::AddDurations(std::string_view name, std::string_view help,
                                         std::string_view labels) {
  return impl_->Add<DurationHistogram>(
      name, help, "histogram", labels,
      [&]() -> DurationHistogram& { return impl_->durations.emplace_back(); });
}

void Metrics::AddFunction(std::string_view name, std::string_view help, Kind kind,
                          std::function<double()> read, std::string_view labels) {
  Function& function = impl_->Add<Function>(name, help, TypeOf(kind), labels, [&]() -> Function& {
    return impl_->functions.emplace_back([] { return 0.0; });
  });
  const std::lock_guard lock(impl_->mutex);
  function = std::move(read);
}

std::string Metrics::Render() const {
  const std::lock_guard lock(impl_->mutex);
  std::string out;
  for (const Family& family : impl_->families) {
    bool headed = false;
    for (const Series& series : family.series) {
      if (!IsPrinted(series)) continue;
      if (!headed) {
        out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, EscapeHelp(family.help),
                           family.name, family.type);
        headed = true;
      }
      std::visit(AppendSeries{family, series.labels, &out}, series.instrument);
    }
  }
  return out;
}

}  // namespace penstock::metrics
