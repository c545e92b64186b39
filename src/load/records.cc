#include "load/records.h"

#include "json/json_writer.h"
#include "load/text_file.h"

namespace penstock::load {

void BenchRecords::Add(std::string_view name, double value, std::string_view unit,
                       std::string_view row) {
  records_.push_back({std::string(name), value, std::string(unit), std::string(row)});
}

std::string BenchRecords::ToJsonLines() const {
  std::string text;
  for (const Record& record : records_) {
    JsonWriter json(&text);
    json.BeginObject().Field("name", record.name).Field("value", record.value);
    json.Field("unit", record.unit);
    if (!record.row.empty()) json.Field("row", record.row);
    json.EndObject();
    text += '\n';
  }
  return text;
}

Status BenchRecords::WriteFile(const std::string& path) const {
  return WriteTextFile(path, ToJsonLines());
}

}  // namespace penstock::load
