// penstock health: asks a server whether it is ready. The health check of a container, which has no
// other program to ask with.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "server_commands.h"
#include "server_flags.h"

namespace penstock::cli {
namespace {

// Where `penstock serve` listens that is set up by the same variables.
std::string UrlBesideServer() {
  const char* const port = std::getenv("PENSTOCK_PORT");
  const char* const certificate = std::getenv("PENSTOCK_TLS_CERT");
  const bool tls = certificate != nullptr && *certificate != '\0';
  return fmt::format("{}://127.0.0.1:{}", tls ? "https" : "http",
                     port != nullptr && *port != '\0' ? port : "8080");
}

}  // namespace

int RunHealth(const std::vector<std::string>& args) {
  CommandLine line(
      "health",
      "Ask a server whether it is ready: exit code 0 if so, else 1. For health checks of "
      "containers.",
      "  penstock health\n"
      "  penstock health --live --url http://10.0.0.5:8080\n");
  ServerFlags flags;
  bool live = false;
  line.flags().AddSwitch("--live", live,
                         "Ask whether it runs (/livez), not whether its models are loaded "
                         "(/readyz).");
  AddServerFlags(&line, &flags);
  line.flags()
      .Get("--url")
      ->Description("The server.")
      ->DefaultText("http://127.0.0.1:8080, or as PENSTOCK_PORT and PENSTOCK_TLS_CERT say");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.url.empty()) {
    flags.url = UrlBesideServer();
    // Both routes are open to everybody, and the variables of keys are the server's.
    flags.api_key.clear();
    flags.api_key_file.clear();
    setenv("no_proxy", "*", 1);
    // This machine's own, whose certificate names another host.
    flags.insecure = flags.insecure || flags.ca_cert.empty();
  }
  const auto options = ClientOptions(flags);
  if (!options.ok()) return line.FailUsage(options.status().message());
  const auto answer = client::ServerClient(*options).GetOnce(live ? "/livez" : "/readyz");
  if (!answer.ok()) return line.Fail(answer.status());
  if (answer->status != 200) return line.Fail(client::StatusOfAnswer(*answer));
  std::printf("%s\n", live ? "live" : "ready");
  return kExitOk;
}

}  // namespace penstock::cli
