#include "hub/listing.h"

#include "base/printable.h"
#include "hub/reference.h"
#include "json/json.h"

namespace penstock::hub {
namespace {

bool IsCommit(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Expected<RepositoryListing> RepositoryListing::Parse(const std::string& json) {
  if (json.size() > kBytesMax) {
    return Status::InvalidArgument("more than " + std::to_string(kBytesMax) + " bytes");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(json));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  RepositoryListing listing;
  PENSTOCK_ASSIGN_OR_RETURN(listing.commit, object.GetString("sha", 64));
  if (!IsCommit(listing.commit)) return Status::InvalidArgument("'sha' is not a commit", "sha");
  PENSTOCK_ASSIGN_OR_RETURN(const auto siblings, object.GetArray("siblings", kFilesMax));
  for (const JsonElement sibling : siblings) {
    std::string_view name;
    if (!sibling["rfilename"].Get(&name)) {
      return Status::InvalidArgument("'siblings' without 'rfilename'", "siblings");
    }
    if (!IsRepositoryPath(name)) {
      return Status::InvalidArgument(
          "'" + Shown(name) + "' is not a path inside a repository; nothing is downloaded",
          "siblings");
    }
    uint64_t bytes = 0;
    if (!sibling["size"].Get(&bytes)) bytes = 0;
    listing.files.emplace(name, bytes);
  }
  return listing;
}

std::string RepositoryListing::ToJson() const {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("sha", commit).Key("siblings").BeginArray();
  for (const auto& [name, bytes] : files) {
    writer.BeginObject().Field("rfilename", name);
    if (bytes > 0) writer.Field("size", bytes);
    writer.EndObject();
  }
  writer.EndArray().EndObject();
  return text;
}

}  // namespace penstock::hub
