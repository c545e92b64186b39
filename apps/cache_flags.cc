#include "cache_flags.h"

#include <algorithm>

#include "base/printable.h"
#include "log/log.h"
#include "os/disk_room.h"

namespace penstock::cli {

Flag* AddReferences(CommandLine* line, std::vector<std::string>* references,
                    const std::string& description) {
  return line->flags().AddOption("REFERENCES", *references, description)->TypeName("REF");
}

void LogWarnings() {
  LogOptions options;
  options.level = LogLevel::kWarn;
  InitLog(options);
}

Expected<hub::ModelReference> HubReference(const std::string& text, const std::string& why) {
  PENSTOCK_ASSIGN_OR_RETURN(hub::ModelReference reference, hub::ModelReference::Parse(text));
  if (!reference.local()) return reference;
  return Status::InvalidArgument("'" + text + "' is a path on this machine; " + why);
}

bool IsReference(const std::string& text) {
  const auto reference = hub::ModelReference::Parse(text);
  return reference.ok() ? !reference->local() : reference.code() == StatusCode::kNotFound;
}

std::string TableText(const std::vector<std::vector<std::string>>& rows,
                      const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Printable(row[i]).size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Printable(row[i]);
      const std::string space(widths[i] - cell.size(), ' ');
      const bool flush = std::find(right.begin(), right.end(), i) != right.end();
      line += (i > 0 ? "  " : "") + (flush ? space + cell : cell + space);
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + '\n';
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  return bytes == 0 ? "?" : SizeText(static_cast<int64_t>(bytes));
}

}  // namespace penstock::cli
