#include "embed_run.h"

#include <cstdio>

#include "base/printable.h"
#include "log/status_line.h"

namespace penstock::cli {
namespace {

// Prints skipped rows, where no file names them.
void TellSkipped(const bulk::BulkWindow& window) {
  const int64_t first = window.mark().rows - static_cast<int64_t>(window.rows());
  for (size_t row = 0; row < window.rows(); ++row) {
    if (!window.error(row)) continue;
    StatusLine::MakeRoom();
    std::fprintf(stderr, "penstock embed: row %lld is skipped: %s: %s\n",
                 static_cast<long long>(first + static_cast<int64_t>(row)),
                 Printable(window.where(row)).c_str(), Printable(*window.error(row)).c_str());
  }
}

// Everything before the first row is embedded: the model or server is asked, the rows that are done
// are read over, and the output is opened.
Status BeginWork(const EmbedRun& run, const Embedder& embedder, bulk::RowSource* source,
                 bulk::BulkOptions* options) {
  bulk::EmbedOutput* const output = run.output;
  if (output->rows_before() > 0) run.progress->Begin("reading the rows that are done");
  PENSTOCK_RETURN_IF_ERROR(output->SkipRowsBefore(source, embedder.embed_one));
  if (output->rows_before() > 0 && !run.flags.text.quiet) {
    StatusLine::MakeRoom();
    std::fprintf(stderr, "penstock embed: going on after the %lld rows that are done\n",
                 static_cast<long long>(output->rows_before()));
  }
  // A failure of this text is not a row's.
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> vector, embedder.embed_one("a"));
  options->dimensions = static_cast<int32_t>(vector.size());
  if (*run.plot) options->label_bytes = bulk::EmbedPlot::kLabelBytes;
  PENSTOCK_RETURN_IF_ERROR(output->CheckRoom(run.scan.rows, options->dimensions));
  output->Expect(run.scan.RowsExpected());
  PENSTOCK_RETURN_IF_ERROR(output->Open());
  run.progress->Expect(run.scan.TextBytesExpected());
  run.progress->GoOnBehind(output->rows_before(), source->bytes());
  run.progress->Begin("embedding");
  return Status::Ok();
}

}  // namespace

Status EmbedInto(const EmbedRun& run, const Embedder& embedder) {
  bulk::BulkOptions options = run.flags.bulk_options;
  corpus::InputOptions input = run.flags.text.input;
  input.stop_fd = run.interruption->fd();
  corpus::RowReader reader(run.input, input);
  bulk::RowSource source(&reader, options.skip);
  const Interruption::Stop stop(run.interruption, [&options, &embedder] {
    options.stop->Cancel();
    embedder.stop();
  });
  PENSTOCK_RETURN_IF_ERROR(BeginWork(run, embedder, &source, &options));
  return bulk::EmbedInBulk(
      &source, options, embedder.start,
      [&run](const bulk::BulkWindow& window) {
        run.progress->AddSkipped(static_cast<int64_t>(window.skipped()));
        if (run.output->ErrorsPath().empty()) TellSkipped(window);
        if (*run.plot) (*run.plot)->Add(window);
        if (run.check) PENSTOCK_RETURN_IF_ERROR(run.check());
        return run.output->Append(window);
      },
      [&run](size_t texts, const api::EmbedResponse& response, int64_t bytes) {
        run.progress->Add(texts, response.usage, response.truncation, bytes);
      });
}

void ReportSkipped(int64_t rows, const std::string& errors_path) {
  std::fprintf(
      stderr, "penstock embed: %lld row%s skipped%s%s\n", static_cast<long long>(rows),
      rows == 1 ? " was" : "s were", errors_path.empty() ? "" : "; ",
      errors_path.empty() ? "" : (errors_path + " names " + (rows == 1 ? "it" : "them")).c_str());
}

}  // namespace penstock::cli
