// penstock stop: unloads models of a server.
#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "commands.h"
#include "json/json_writer.h"
#include "server_commands.h"
#include "server_flags.h"

namespace penstock::cli {
namespace {

std::string Body(const std::string& model, bool ollama) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("model", model);
  if (ollama) json.Field("keep_alive", 0).Field("stream", false);
  json.EndObject();
  return body;
}

// By Penstock's own route, which is for administrators; where it is not there, as Ollama's clients
// do, for models that generate text.
Status StopOne(client::ServerClient* client, const std::string& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const client::PostAnswer answer,
                            client->PostOnce("/admin/models/unload", Body(model, false)));
  if (answer.status == 200) return Status::Ok();
  const Status refused = client::StatusOfAnswer(answer);
  const bool named = refused.message().find(model) != std::string::npos;
  if (answer.status != 404 || named) return refused;
  PENSTOCK_ASSIGN_OR_RETURN(const client::PostAnswer other,
                            client->PostOnce("/api/generate", Body(model, true)));
  return other.status == 200 ? Status::Ok() : refused;
}

}  // namespace

int RunStop(const std::vector<std::string>& args) {
  CommandLine line(
      "stop", "Unload models of a server; the next request for one loads it again.",
      "  penstock stop SmolLM2-135M-Instruct\n"
      "  penstock stop rank embed --url http://10.0.0.5:8080 --api-key-file admin-key\n");
  std::vector<std::string> models;
  line.flags().AddOption("MODELS", models, "Names as penstock ps lists them.")->TypeName("NAME");
  ServerFlags flags;
  AddServerFlags(&line, &flags);
  flags.url = kLocalServer;
  line.flags().Get("--url")->Description("The server.")->DefaultText(kLocalServer);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (models.empty()) return line.FailUsage("name a model: penstock ps has them");
  const auto options = ClientOptions(flags);
  if (!options.ok()) return line.FailUsage(options.status().message());
  client::ServerClient client(*options);
  int exit_code = kExitOk;
  for (const std::string& model : models) {
    const Status stopped = StopOne(&client, model);
    if (stopped.ok()) {
      std::printf("unloaded %s\n", Printable(model).c_str());
    } else {
      exit_code = line.Fail(stopped.Annotate(model));
    }
  }
  return exit_code;
}

}  // namespace penstock::cli
