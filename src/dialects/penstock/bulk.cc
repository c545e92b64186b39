#include "dialects/penstock/bulk.h"

#include "dialects/shared/fields.h"

namespace penstock::dialects {

Expected<BulkCall> ParseBulkCall(std::string_view body) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string action, GetName(parsed.object(), "action"));
  BulkCall call;
  call.begin = action == "begin";
  if (!call.begin && action != "end") {
    return Status::InvalidArgument("'action' must be \"begin\" or \"end\"", "action");
  }
  if (call.begin) return call;
  PENSTOCK_ASSIGN_OR_RETURN(call.id, GetName(parsed.object(), "id"));
  if (call.id.empty()) {
    return Status::InvalidArgument("'id' is missing: the run to end, as \"begin\" gave it", "id");
  }
  return call;
}

std::string PrintBulkRunBegun(const api::BulkRunBegun& begun) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("object", "bulk_run").Field("id", begun.id).Field("state", "open");
  json.Field("idle_s_max", begun.idle_s_max).EndObject();
  return text;
}

std::string PrintBulkRunEnded(const api::BulkRunEnded& ended) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("object", "bulk_run").Field("id", ended.id).Field("state", "ended");
  json.Field("requests", ended.requests).Field("released", ended.released);
  json.Field("reason", ended.reason).Field("released_bytes", ended.released_bytes).EndObject();
  return text;
}

}  // namespace penstock::dialects
