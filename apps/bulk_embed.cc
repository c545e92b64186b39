#include "bulk_embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <numeric>

#include "request_window.h"

namespace penstock {

void BulkWindow::Add(std::string text, std::string where) {
  bytes_ += text.size();
  const size_t bytes = text.size();
  rows_.push_back({std::move(text), std::move(where), bytes});
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

Status EmbedInBulk(LineReader* reader, const BulkOptions& options, const StartEmbed& start,
                   const TakeVectors& take, const TakeProgress& progress) {
  struct Tag {
    std::shared_ptr<BulkWindow> window;
    BulkWindow::Rows rows;
  };
  RequestWindow<EmbedResponse, Tag> in_flight(
      [&](const EmbedResponse& response, const Tag& tag) -> Status {
        PENSTOCK_ASSIGN_OR_RETURN(
            const bool whole, tag.window->Place(tag.rows, response.values, response.dimensions));
        progress(tag.rows.size(), response, static_cast<int64_t>(tag.window->BytesOf(tag.rows)));
        return whole ? take(tag.window->values(), response.dimensions) : Status::Ok();
      },
      options.requests);
  auto window = std::make_shared<BulkWindow>();
  const auto send = [&]() -> Status {
    const auto full = std::exchange(window, std::make_shared<BulkWindow>());
    for (BulkWindow::Rows& rows : full->Cut(options.request_rows)) {
      auto answer = Ask<EmbedResponse>([&](Callback<EmbedResponse> done) {
        start(full->TakeTexts(rows), [full, rows, done](Expected<EmbedResponse> response) {
          done(response.ok() ? std::move(response) : full->NameLine(response.status(), rows));
        });
      });
      PENSTOCK_RETURN_IF_ERROR(in_flight.Push(std::move(answer), {full, std::move(rows)}));
    }
    return Status::Ok();
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachLine(reader, [&](const LineReader::Line& line) -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(auto text, TextOfLine(line, {"text", "input", "content"}));
    window->Add(std::move(text), line.where);
    return window->IsFull(options.window_rows) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
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
