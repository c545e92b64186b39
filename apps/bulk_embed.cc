#include "bulk_embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>

#include "request_window.h"

namespace penstock {

Expected<std::optional<Row>> RowSource::Next() {
  PENSTOCK_ASSIGN_OR_RETURN(auto row, reader_->Next());
  if (!row) return row;
  PENSTOCK_RETURN_IF_ERROR(row->status);
  digest_.Add(row->text);
  if (row->id) digest_.Add(*row->id);
  ++rows_;
  return row;
}

void BulkWindow::Add(Row row) {
  const size_t bytes = row.text.size();
  bytes_ += bytes;
  rows_.push_back({std::move(row.text), std::move(row.id), std::move(row.where), bytes});
}

void BulkWindow::Count(const Usage& usage, const Truncation& truncation) {
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
  Rows order(rows_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Longest first: what is left when the window ends is quick.
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

std::vector<std::string> BulkWindow::TakeTexts(const Rows& rows) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const size_t row : rows) texts.push_back(std::move(rows_[row].text));
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
  if (dimensions_ == 0) {
    dimensions_ = dimensions;
    values_.resize(rows_.size() * width);
  }
  if (dimensions <= 0 || dimensions != dimensions_ || values.size() != rows.size() * width) {
    return Status(StatusCode::kInternal, fmt::format("{} numbers came for {} vectors of {}",
                                                     values.size(), rows.size(), dimensions_));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(i * width), width,
                values_.begin() + static_cast<ptrdiff_t>(rows[i] * width));
  }
  placed_ += rows.size();
  return placed_ == rows_.size();
}

Status BulkWindow::NameLine(const Status& status, const Rows& rows) const {
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

Status EmbedInBulk(RowSource* source, const BulkOptions& options, const StartEmbed& start,
                   const TakeWindow& take, const TakeProgress& progress) {
  struct Tag {
    std::shared_ptr<BulkWindow> window;
    BulkWindow::Rows rows;
  };
  WindowPace pace(options.window_rows, Clock::now());
  RequestWindow<EmbedResponse, Tag> in_flight(
      [&](const EmbedResponse& response, const Tag& tag) -> Status {
        BulkWindow& window = *tag.window;
        PENSTOCK_ASSIGN_OR_RETURN(const bool whole,
                                  window.Place(tag.rows, response.values, response.dimensions));
        window.Count(response.usage, response.truncation);
        progress(tag.rows.size(), response, static_cast<int64_t>(window.BytesOf(tag.rows)));
        if (!whole) return Status::Ok();
        pace.Done(window.rows(), Clock::now());
        return take(window);
      },
      options.requests);
  auto window = std::make_shared<BulkWindow>();
  const auto send = [&]() -> Status {
    const auto full = std::exchange(window, std::make_shared<BulkWindow>());
    full->SetMark(source->mark());
    // Requests enough that all of them are at work.
    const size_t request_rows =
        std::min(options.request_rows, (full->rows() + options.requests - 1) / options.requests);
    for (BulkWindow::Rows& rows : full->Cut(request_rows)) {
      if (options.stop->cancelled()) return {StatusCode::kCancelled, "stopped"};
      auto answer = Ask<EmbedResponse>([&](Callback<EmbedResponse> done) {
        start(full->TakeTexts(rows), [full, rows, done](Expected<EmbedResponse> response) {
          done(response.ok() ? std::move(response) : full->NameLine(response.status(), rows));
        });
      });
      PENSTOCK_RETURN_IF_ERROR(in_flight.Push(std::move(answer), {full, std::move(rows)}));
    }
    return Status::Ok();
  };
  while (true) {
    auto row = source->Next();
    if (options.stop->cancelled()) return {StatusCode::kCancelled, "stopped"};
    if (!row.ok()) return row.status();
    if (!*row) break;
    window->Add(std::move(**row));
    if (window->IsFull(pace.rows())) PENSTOCK_RETURN_IF_ERROR(send());
  }
  if (!window->empty()) PENSTOCK_RETURN_IF_ERROR(send());
  return in_flight.Finish();
}

int64_t BytesOfFiles(const std::vector<std::string>& files) {
  if (files.empty()) return 0;
  int64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) return 0;
    bytes += static_cast<int64_t>(std::filesystem::file_size(file, error));
  }
  return bytes;
}

}  // namespace penstock
