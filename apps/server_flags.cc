#include "server_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "base/regular_file.h"
#include "frontend/api_keys.h"
#include "log/log.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

constexpr size_t kKeyFileBytesMax = 1 << 20;

// The key of the first line that is neither empty nor a comment.
Expected<std::string> KeyOfFile(const std::string& path) {
  const auto refuse = [](const std::string& why) {
    return Status::InvalidArgument("--api-key-file: " + why, "api-key-file");
  };
  const auto text = ReadRegularFile(path, kKeyFileBytesMax);
  if (!text.ok()) return refuse(text.status().message());
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t from = line.find_first_not_of(" \t\r");
    if (from == std::string::npos || line[from] == '#') continue;
    const auto parsed = frontend::ParseKeyLine(
        std::string_view(line).substr(from, line.find_last_not_of(" \t\r") - from + 1));
    if (!parsed.ok()) return refuse(path + ": " + parsed.status().message());
    return std::string(parsed->key);
  }
  return refuse(path + " holds no key");
}

bool IsOfLocalModels(const std::string& name, const std::string& group) {
  return group == "Speed" || group == "Caches" || group == "Texts" || group == "Generation" ||
         name == "pooling" || name == "dtype" || name == "int8-keep" || name == "context" ||
         name == "cache-type" || name == "chat-template";
}

}  // namespace

void AddServerFlags(CommandLine* line, ServerFlags* flags) {
  const FlagGroup group(&line->flags(), "By a server");
  group.Add(
      "--url", flags->url, "URL",
      "Server to send the texts to, such as http://127.0.0.1:8080, instead of loading a model. "
      "What may pass is tried again. --model is the name it serves, if it serves several.");
  group.Add("--api-key", flags->api_key, "KEY",
            "Key for that server. Better a file, or set as PENSTOCK_API_KEY: others can read "
            "command lines.");
  group.Add("--api-key-file", flags->api_key_file, "FILE",
            "File whose first line that is not a # comment is the key. --api-key goes before.");
  group.Add("--connect-timeout", flags->connect_timeout_s, "S", InRange(1, 3600),
            "Seconds to wait for a server that has not answered once.");
  group.Add("--ca-cert", flags->ca_cert, "FILE",
            "Certificates to trust, as PEM. Default: SSL_CERT_FILE, else the system's.");
  group.Switch("--insecure", flags->insecure, "Do not check the server's certificate.");
}

Status CheckForServer(const CommandLine& line) {
  for (const auto& [name, typed] : line.on_line()) {
    if (!IsOfLocalModels(name, line.flags().GroupOf("--" + name))) continue;
    return Status::InvalidArgument(
        fmt::format("{} is for a model in this process; with --url the server has its own", typed),
        name);
  }
  return Status::Ok();
}

Expected<client::ServerClientOptions> ClientOptions(const ServerFlags& flags) {
  client::ServerClientOptions options;
  options.url = flags.url;
  options.api_key = flags.api_key;
  if (options.api_key.empty() && !flags.api_key_file.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(options.api_key, KeyOfFile(flags.api_key_file));
  }
  options.http.connect_timeout_ms = flags.connect_timeout_s * 1000;
  options.http.ca_file = flags.ca_cert;
  options.http.insecure = flags.insecure;
  options.first_answer_ms = flags.connect_timeout_s * 1000;
  return options;
}

std::string NameAtServer(const CommandLine& line, const std::vector<std::string>& models) {
  if (models.empty()) return "";
  const std::string& model = models.front();
  if (line.on_line().contains("model")) return model;
  const runtime::ModelNames names = runtime::SplitModel(model);
  if (!names.names.empty()) return names.names.front();
  std::error_code ignored;
  if (!std::filesystem::is_directory(model, ignored)) return model;
  LogWarn(
      "--model {}, from a variable or a file, is a folder here and no name at the server; left out",
      model);
  return "";
}

}  // namespace penstock::cli
