// penstock list: the models in the hub's cache, or of a server.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/printable.h"
#include "cache_flags.h"
#include "commands.h"
#include "hub/cache.h"
#include "hub/inventory.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "server_commands.h"
#include "server_flags.h"

namespace penstock::cli {
namespace {

std::string Ago(int64_t unix_s) {
  const int64_t seconds = std::max<int64_t>(0, std::time(nullptr) - unix_s);
  const auto text = [](int64_t count, const char* unit) {
    return fmt::format("{} {}{} ago", count, unit, count == 1 ? "" : "s");
  };
  if (seconds < 120) return "now";
  if (seconds < 7200) return text(seconds / 60, "minute");
  if (seconds < 48 * 3600) return text(seconds / 3600, "hour");
  return text(seconds / 86400, "day");
}

std::string RevisionText(const hub::CachedModel& model) {
  std::string text;
  for (const std::string& name : model.revisions) text += (text.empty() ? "" : ",") + name;
  const std::string commit = model.commit.substr(0, 8);
  return text.empty() ? commit : text + " " + commit;
}

std::string PrintJson(const std::vector<hub::CachedModel>& models) {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginArray();
  for (const hub::CachedModel& model : models) {
    writer.BeginObject().Field("reference", model.reference).Field("repository", model.repository);
    writer.Key("revisions").BeginArray();
    for (const std::string& name : model.revisions) writer.String(name);
    writer.EndArray().Field("commit", model.commit).Field("format", model.format);
    writer.Field("quantisation", model.quantisation).Field("path", model.path);
    writer.Field("files", model.files).Field("bytes", model.bytes);
    writer.Field("complete", model.complete).Field("last_used", model.last_used_s).EndObject();
  }
  writer.EndArray();
  return text + '\n';
}

std::string PrintText(const std::vector<hub::CachedModel>& models) {
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "REVISION", "FORMAT", "SIZE", "LAST USED", ""}};
  for (const hub::CachedModel& model : models) {
    const bool odd = !model.complete && model.format != "partial" && model.format != "other";
    rows.push_back({model.reference, RevisionText(model), model.format, BytesText(model.bytes),
                    Ago(model.last_used_s), odd ? "(incomplete)" : ""});
  }
  return TableText(rows, {3});
}

// "12 s", "5 min", "2 h".
std::string DurationOf(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} h", seconds / 3600);
}

// A row of /v1/models. Other servers than Penstock say less.
Expected<std::vector<std::string>> RowOf(const JsonObject& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string id, model.GetString("id"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string task, model.GetStringOr("task", ""));
  std::vector<std::string> row = {id, "", task, "", "", ""};
  if (!model.Has("lifecycle")) return row;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject lifecycle, model.GetObject("lifecycle"));
  PENSTOCK_ASSIGN_OR_RETURN(row[1], lifecycle.GetStringOr("state", ""));
  if (lifecycle.Has("load_percent")) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t percent, lifecycle.GetInt("load_percent", 0, 100));
    row[1] += fmt::format(" {} %", percent);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject memory, lifecycle.GetObjectOrEmpty("memory"));
  double bytes = 0;
  for (const char* part : {"weights_bytes", "activations_bytes", "cache_bytes"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const double count, memory.GetNumberOr(part, 0, 0));
    bytes += count;
  }
  if (bytes > 0) row[3] = BytesText(static_cast<uint64_t>(bytes));
  PENSTOCK_ASSIGN_OR_RETURN(const double idle_s, lifecycle.GetNumberOr("idle_s", -1));
  if (idle_s >= 0) row[4] = DurationOf(idle_s);
  PENSTOCK_ASSIGN_OR_RETURN(const double left_s, lifecycle.GetNumberOr("unload_in_s", -1));
  PENSTOCK_ASSIGN_OR_RETURN(const bool pinned, lifecycle.GetBoolOr("pinned", false));
  if (idle_s >= 0) row[5] = pinned ? "pinned" : left_s < 0 ? "stays" : DurationOf(left_s);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string error, lifecycle.GetStringOr("error", ""));
  if (!error.empty()) row[5] = error;
  return row;
}

// `loaded`: only what takes memory, or is about to.
Expected<std::string> PrintServed(const std::string& answer, bool loaded) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(answer));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const auto models, object.GetArray("data"));
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "STATE", "TASK", "MEMORY", "IDLE", "UNLOADED IN"}};
  for (const JsonElement& one : models) {
    JsonObject model;
    if (!one.Get(&model)) {
      return Status::InvalidArgument("/v1/models lists something else than models");
    }
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> row, RowOf(JsonObject(model)));
    const std::string& state = row[1];
    if (loaded && (state.starts_with("absent") || state == "waiting" || state == "failed"))
      continue;
    for (std::string& cell : row) cell = Printable(cell);
    rows.push_back(std::move(row));
  }
  return TableText(rows, {3, 4});
}

// The models of a running server.
Expected<std::string> ListServed(const ServerFlags& flags, bool json, bool loaded = false) {
  PENSTOCK_ASSIGN_OR_RETURN(client::ServerClientOptions options, ClientOptions(flags));
  client::ServerClient client(std::move(options));
  PENSTOCK_ASSIGN_OR_RETURN(const client::PostAnswer answer, client.GetOnce("/v1/models"));
  if (answer.status != 200) return client::StatusOfAnswer(answer);
  if (json) return answer.body + '\n';
  return PrintServed(answer.body, loaded);
}

}  // namespace

int RunList(const std::vector<std::string>& args) {
  CommandLine line("list",
                   "List the models in the hub's cache: revision, format, size, and when a file "
                   "of it was last read or written, as far as the disk notes it. With --url, the "
                   "models of a server: state, memory, and when they leave.",
                   "  penstock list\n"
                   "  penstock list --url http://127.0.0.1:8080\n"
                   "  penstock list --json | jq -r '.[] | select(.bytes > 1e9) | .reference'\n");
  bool json = false;
  FlagGroup(&line.flags(), "Output")
      .Switch("--json", json, "One JSON array; with --url, the server's answer.");
  ServerFlags server;
  AddServerFlags(&line, &server);
  line.flags().Get("--url")->Description(
      "Server whose models are listed, such as http://127.0.0.1:8080.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!server.url.empty()) {
    const auto listed = ListServed(server, json);
    if (!listed.ok()) return line.Fail(listed.status());
    std::fputs(listed->c_str(), stdout);
    return kExitOk;
  }
  const std::string root = hub::DefaultCacheRoot();
  const std::vector<hub::CachedModel> models = hub::ListCachedModels(root);
  if (!json && models.empty()) {
    std::fprintf(stderr, "penstock list: no models in the cache %s\n", root.c_str());
    return kExitOk;
  }
  std::fputs((json ? PrintJson(models) : PrintText(models)).c_str(), stdout);
  return kExitOk;
}

int RunPs(const std::vector<std::string>& args) {
  CommandLine line("ps",
                   "List the models that a server has loaded: state, memory, and when they leave. "
                   "penstock list --url has those that it would load, too.",
                   "  penstock ps\n"
                   "  penstock ps --url http://10.0.0.5:8080 --api-key-file key\n");
  ServerFlags server;
  AddServerFlags(&line, &server);
  server.url = kLocalServer;
  line.flags().Get("--url")->Description("The server.")->DefaultText(kLocalServer);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  const auto listed = ListServed(server, /*json=*/false, /*loaded=*/true);
  if (!listed.ok()) return line.Fail(listed.status());
  std::fputs(listed->c_str(), stdout);
  return kExitOk;
}

}  // namespace penstock::cli
