#include "bulk/checkpoint.h"

#include <fmt/format.h>

#include <cmath>

#include "json/json.h"
#include "os/output_file.h"

namespace penstock::bulk {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kFileBytesMax = 16 << 20;
constexpr int32_t kDimensionsMax = 1 << 20;

}  // namespace

void RowsDigest::Add(std::string_view row) {
  const uint64_t bytes = row.size();
  digest_.Add({reinterpret_cast<const char*>(&bytes), sizeof bytes});
  digest_.Add(row);
}

Status Checkpoint::Write(const std::string& path) const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("penstock_checkpoint", kVersion).Field("rows", rows);
  json.Field("bytes", bytes).Field("dimensions", dimensions).Field("tokens", tokens);
  json.Field("id_bytes", id_bytes).Field("skipped", skipped).Field("error_bytes", error_bytes);
  json.Field("cut", cut).Field("input", input).Field("options", options);
  json.Field("first_index", first_index).Key("first_row");
  json.Floats(first_row);
  json.EndObject();
  text += '\n';
  return ReplaceFile(path, text);
}

Expected<std::optional<Checkpoint>> Checkpoint::Read(const std::string& path) {
  const auto document = JsonDocument::ParseFile(path, kFileBytesMax);
  if (!document.ok() && document.status().code() == StatusCode::kNotFound) {
    return std::optional<Checkpoint>();
  }
  const auto read = [&]() -> Expected<Checkpoint> {
    PENSTOCK_RETURN_IF_ERROR(document.status());
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document->Object());
    PENSTOCK_RETURN_IF_ERROR(object.GetInt("penstock_checkpoint", kVersion, kVersion).status());
    Checkpoint made;
    PENSTOCK_ASSIGN_OR_RETURN(made.rows, object.GetInt("rows", 1, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.bytes, object.GetInt("bytes", 1, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.id_bytes, object.GetIntOr("id_bytes", 0, 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.skipped, object.GetIntOr("skipped", 0, 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.error_bytes, object.GetIntOr("error_bytes", 0, 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.first_index, object.GetIntOr("first_index", 0, 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t dimensions,
                              object.GetInt("dimensions", 1, kDimensionsMax));
    made.dimensions = static_cast<int32_t>(dimensions);
    PENSTOCK_ASSIGN_OR_RETURN(made.tokens, object.GetInt("tokens", 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.cut, object.GetInt("cut", 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(made.input, object.GetString("input"));
    PENSTOCK_ASSIGN_OR_RETURN(made.options, object.GetString("options"));
    PENSTOCK_ASSIGN_OR_RETURN(const auto numbers, object.GetArray("first_row", kDimensionsMax));
    for (const auto number : numbers) {
      double value = 0;
      if (!number.Get(&value)) {
        return Status::InvalidArgument("'first_row' must hold numbers", "first_row");
      }
      made.first_row.push_back(static_cast<float>(value));
    }
    const bool none = made.first_row.empty() && made.skipped == made.rows;
    if (!none && static_cast<int64_t>(made.first_row.size()) != dimensions) {
      return Status::InvalidArgument("'first_row' is not as long as 'dimensions' says",
                                     "first_row");
    }
    return made;
  };
  auto made = read();
  if (!made.ok()) return made.status().Annotate(path + " is not a checkpoint");
  return std::optional<Checkpoint>(*std::move(made));
}

bool SameVector(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr double kRelative = 1e-4;
  if (a.size() != b.size()) return false;
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    length += double{a[i]} * a[i];
  }
  return std::sqrt(difference) <= kRelative * std::sqrt(length);
}

}  // namespace penstock::bulk
