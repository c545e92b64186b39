#include "bulk/bulk_embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "base/printable.h"
#include "bulk/request_window.h"

namespace penstock::bulk {
namespace {

// What fits `bytes_max`, without a part of a character at the end.
std::string LabelOf(const std::string& text, size_t bytes_max) {
  size_t bytes = std::min(text.size(), bytes_max);
  while (bytes > 0 && bytes < text.size() &&
         (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) {
    --bytes;
  }
  return Printable(std::string_view(text).substr(0, bytes));
}

}  // namespace

Expected<std::optional<corpus::Row>> RowSource::Next() {
  PENSTOCK_ASSIGN_OR_RETURN(auto row, reader_->Next());
  if (!row) return row;
  if (row->status.ok()) {
    digest_.Add(row->text);
  } else {
    if (!keeps_bad_) return row->status;
    // No text begins so: it would not be UTF-8.
    digest_.Add("\xff" + row->Reason());
  }
  if (row->id) digest_.Add(*row->id);
  ++rows_;
  bytes_ += static_cast<int64_t>(row->text.size());
  return row;
}

void BulkWindow::Add(corpus::Row row) {
  const size_t bytes = row.text.size();
  bytes_ += bytes;
  std::optional<std::string> error;
  if (!row.status.ok()) {
    error = row.Reason();
    ++skipped_;
  }
  std::string label = LabelOf(row.text, label_bytes_);
  rows_.push_back({std::move(row.text), std::move(row.id), std::move(row.where), std::move(error),
                   std::move(label), bytes});
}

void BulkWindow::Skip(size_t row, std::string reason) {
  rows_[row].error = std::move(reason);
  ++skipped_;
}

void BulkWindow::SetDimensions(int32_t dimensions) {
  dimensions_ = dimensions;
  values_.resize(rows_.size() * static_cast<size_t>(dimensions));
}

void BulkWindow::Count(const encode::Usage& usage, const encode::Truncation& truncation) {
  tokens_ += usage.prompt_tokens;
  cut_ += truncation.inputs;
}

void WindowPace::Done(size_t rows, Clock::time_point now) {
  const std::chrono::duration<double> took = now - std::exchange(last_, now);
  const double fit = static_cast<double>(rows) * kWindowS / std::max(took.count(), 1e-6);
  const size_t most = std::min(rows_max_, rows_ * kGrowth);
  rows_ = fit >= static_cast<double>(most) ? most : std::max<size_t>(static_cast<size_t>(fit), 1);
}

std::vector<BulkWindow::Rows> BulkWindow::Cut(size_t rows_max) const {
  Rows order;
  order.reserve(rows_.size());
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!rows_[row].error) order.push_back(row);
  }
  // Longest first: the requests left at the window's end are quick.
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return rows_[a].bytes > rows_[b].bytes; });
  std::vector<Rows> requests;
  size_t bytes = 0;
  for (const size_t row : order) {
    if (requests.empty() || requests.back().size() == rows_max ||
        bytes + rows_[row].bytes > kRequestBytesMax) {
      requests.emplace_back();
      bytes = 0;
    }
    requests.back().push_back(row);
    bytes += rows_[row].bytes;
  }
  return requests;
}

std::vector<std::string> BulkWindow::Texts(const Rows& rows, bool keep) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const size_t row : rows) {
    if (keep) {
      texts.push_back(rows_[row].text);
    } else {
      texts.push_back(std::move(rows_[row].text));
    }
  }
  return texts;
}

size_t BulkWindow::BytesOf(const Rows& rows) const {
  size_t bytes = 0;
  for (const size_t row : rows) bytes += rows_[row].bytes;
  return bytes;
}

Expected<bool> BulkWindow::Place(const Rows& rows, std::span<const float> values,
                                 int32_t dimensions) {
  const auto width = static_cast<size_t>(dimensions);
  if (dimensions_ == 0) SetDimensions(dimensions);
  if (dimensions <= 0 || dimensions != dimensions_ || values.size() != rows.size() * width) {
    return Status(StatusCode::kInternal, fmt::format("{} numbers came for {} vectors of {}",
                                                     values.size(), rows.size(), dimensions_));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(i * width), width,
                values_.begin() + static_cast<ptrdiff_t>(rows[i] * width));
  }
  placed_ += rows.size();
  return IsWhole();
}

bool IsOfRow(const Status& failure) {
  const std::string& field = failure.field();
  const bool entry = field.starts_with("input[") || field.starts_with("inputs[");
  switch (failure.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kPayloadTooLarge:
    case StatusCode::kUnprocessable:
      return entry || field.empty() || field == "input" || field == "inputs";
    case StatusCode::kInternal:  // a vector with NaN
      return entry;
    default:
      return false;
  }
}

Status BulkWindow::NameLine(const Status& status, const Rows& rows) const {
  if (!IsOfRow(status)) return status;
  const std::string& field = status.field();
  const size_t bracket = field.find('[');
  size_t index = 0;
  std::string where;
  if (bracket != std::string::npos &&
      std::from_chars(field.data() + bracket + 1, field.data() + field.size(), index).ec ==
          std::errc() &&
      index < rows.size()) {
    where = rows_[rows[index]].where;
  } else {
    where = rows_[rows.front()].where;
    if (rows.size() > 1) where += fmt::format(" or one of {} lines like it", rows.size() - 1);
  }
  return status.Annotate(where);
}

namespace {

// The first request that failed by itself. Others are cancelled for it, and one of them may be the
// first in line: it is not what the run failed for.
struct FirstFailure {
  std::mutex mutex;
  Status status;  // guarded by mutex

  void Note(const Status& failure) {
    const std::lock_guard lock(mutex);
    if (status.ok() && failure.code() != StatusCode::kCancelled) status = failure;
  }
  Status InsteadOf(const Status& end) {
    const std::lock_guard lock(mutex);
    return end.code() == StatusCode::kCancelled && !status.ok() ? status : end;
  }
};

// The outcome of a request.
struct BulkAnswer {
  api::EmbedResponse response;
  Status refused;  // not OK: there is no response, because of one of the rows
};

struct BulkTag {
  std::shared_ptr<BulkWindow> window;
  BulkWindow::Rows rows;
};

class BulkRun {
 public:
  BulkRun(const BulkOptions& options, const StartEmbed& start, const TakeWindow& take,
          const TakeProgress& progress)
      : options_(options),
        start_(start),
        take_(take),
        progress_(progress),
        pace_(options.window_rows, Clock::now()),
        in_flight_([this](const BulkAnswer& answer,
                          const BulkTag& tag) { return TakeAnswer(answer, tag); },
                   options.requests) {}

  Status Run(RowSource* source) { return failure_->InsteadOf(RunAll(source)); }

 private:
  Status RunAll(RowSource* source);
  std::future<Expected<BulkAnswer>> Start(const BulkTag& tag);
  Status Send(std::shared_ptr<BulkWindow> window);
  Status TakeAnswer(const BulkAnswer& answer, const BulkTag& tag);
  // Vectors to their places, or rows to be skipped.
  Status Settle(const BulkAnswer& answer, const BulkTag& tag);
  Status Deliver(BulkWindow* window);
  Status Stopped() const {
    return options_.stop->cancelled() ? Status(StatusCode::kCancelled, "stopped") : Status::Ok();
  }

  const BulkOptions& options_;
  const StartEmbed& start_;
  const TakeWindow& take_;
  const TakeProgress& progress_;
  WindowPace pace_;
  const std::shared_ptr<FirstFailure> failure_ = std::make_shared<FirstFailure>();
  RequestWindow<BulkAnswer, BulkTag> in_flight_;
};

std::future<Expected<BulkAnswer>> BulkRun::Start(const BulkTag& tag) {
  return Ask<BulkAnswer>([&](const api::Callback<BulkAnswer>& done) {
    const bool skip = options_.skip;
    start_(tag.window->Texts(tag.rows, skip),
           [tag, skip, done, failure = failure_](Expected<api::EmbedResponse> response) {
             if (response.ok()) return done(BulkAnswer{*std::move(response), {}});
             if (skip && IsOfRow(response.status())) return done(BulkAnswer{{}, response.status()});
             const Status named = tag.window->NameLine(response.status(), tag.rows);
             failure->Note(named);
             done(named);
           });
  });
}

Status BulkRun::Settle(const BulkAnswer& answer, const BulkTag& tag) {
  BulkWindow& window = *tag.window;
  const auto bytes = static_cast<int64_t>(window.BytesOf(tag.rows));
  if (answer.refused.ok()) {
    const api::EmbedResponse& response = answer.response;
    PENSTOCK_RETURN_IF_ERROR(window.Place(tag.rows, response.values, response.dimensions).status());
    window.Count(response.usage, response.truncation);
    progress_(tag.rows.size(), response, bytes);
    return Status::Ok();
  }
  if (tag.rows.size() == 1) {
    window.Skip(tag.rows.front(), answer.refused.message());
    progress_(0, {}, bytes);
    return Status::Ok();
  }
  const auto middle = tag.rows.begin() + static_cast<ptrdiff_t>(tag.rows.size() / 2);
  for (const BulkTag& half : {BulkTag{tag.window, {tag.rows.begin(), middle}},
                              BulkTag{tag.window, {middle, tag.rows.end()}}}) {
    PENSTOCK_RETURN_IF_ERROR(Stopped());
    PENSTOCK_ASSIGN_OR_RETURN(const BulkAnswer again, Start(half).get());
    PENSTOCK_RETURN_IF_ERROR(Settle(again, half));
  }
  return Status::Ok();
}

Status BulkRun::TakeAnswer(const BulkAnswer& answer, const BulkTag& tag) {
  PENSTOCK_RETURN_IF_ERROR(Settle(answer, tag));
  return tag.window->IsWhole() ? Deliver(tag.window.get()) : Status::Ok();
}

Status BulkRun::Deliver(BulkWindow* window) {
  if (window->dimensions() == 0) window->SetDimensions(options_.dimensions);
  pace_.Done(window->rows(), Clock::now());
  return take_(*window);
}

Status BulkRun::Send(std::shared_ptr<BulkWindow> window) {
  if (window->IsWhole()) {
    // Nothing of it is to be embedded.
    PENSTOCK_RETURN_IF_ERROR(in_flight_.Finish());
    return Deliver(window.get());
  }
  // Requests enough that all of them are at work.
  const size_t request_rows =
      std::min(options_.request_rows, (window->rows() + options_.requests - 1) / options_.requests);
  for (BulkWindow::Rows& rows : window->Cut(request_rows)) {
    PENSTOCK_RETURN_IF_ERROR(Stopped());
    BulkTag tag{window, std::move(rows)};
    auto answer = Start(tag);
    PENSTOCK_RETURN_IF_ERROR(in_flight_.Push(std::move(answer), std::move(tag)));
  }
  return Status::Ok();
}

Status BulkRun::RunAll(RowSource* source) {
  auto window = std::make_shared<BulkWindow>(options_.label_bytes);
  const auto send = [&] {
    window->SetMark(source->mark());
    return Send(std::exchange(window, std::make_shared<BulkWindow>(options_.label_bytes)));
  };
  while (true) {
    auto row = source->Next();
    PENSTOCK_RETURN_IF_ERROR(Stopped());
    if (!row.ok()) return row.status();
    if (!*row) break;
    window->Add(std::move(**row));
    if (window->IsFull(pace_.rows())) PENSTOCK_RETURN_IF_ERROR(send());
  }
  if (!window->empty()) PENSTOCK_RETURN_IF_ERROR(send());
  return in_flight_.Finish();
}

}  // namespace

Status EmbedInBulk(RowSource* source, const BulkOptions& options, const StartEmbed& start,
                   const TakeWindow& take, const TakeProgress& progress) {
  return BulkRun(options, start, take, progress).Run(source);
}

}  // namespace penstock::bulk
