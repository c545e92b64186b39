#include "access_flags.h"

#include <cstdio>

#include "frontend/allowed_hosts.h"
#include "http/descriptors.h"
#include "log/log.h"

namespace penstock::cli {
void AddAccessFlags(CommandLine* line, http::ServerOptions* server) {
  const FlagGroup access(&line->flags(), "Access");
  const std::string files =
      " One key a line, or KEY weight=N for a larger share beside other clients; empty lines and "
      "lines that begin with # are skipped. Read again on SIGHUP.";
  access.AddRepeated(
      "--api-key-file", server->api_key_files, "FILE",
      "File of keys that clients must send as a bearer token." + files + " May be given again.");
  access.AddRepeated("--api-key", server->api_keys, "KEY",
                     "One such key. Better a file, or set as PENSTOCK_API_KEY: others can read "
                     "command lines. May be given again.");
  access.AddRepeated("--bulk-api-key-file", server->bulk_api_key_files, "FILE",
                     "As --api-key-file; everything that comes with these keys is bulk work, which "
                     "goes after interactive work. May be given again.");
  access.AddRepeated("--bulk-api-key", server->bulk_api_keys, "KEY",
                     "One such key. May be given again.");
  access.AddRepeated("--admin-api-key-file", server->admin_api_key_files, "FILE",
                     "As --api-key-file; with such keys, /v1/stats/reset, /v1/bulk, /admin, "
                     "/api/pull and /api/delete ask for one. May be given again.");
  access.AddRepeated("--admin-api-key", server->admin_api_keys, "KEY",
                     "One such key. May be given again.");
  access.Switch(
      "--admin-metrics", server->admin_metrics,
      "/metrics, /v1/stats, /v1/live and /v1/requests ask for a key of --admin-api-key too.");
  access.Switch("--share-caches", server->shares_caches,
                "All keys share what is cached of prompts, tokens and results; else each has its "
                "own, and can tell nothing of the texts of others by times or cached_tokens.");
  access.AddRepeated("--allowed-host", server->allowed_hosts, "HOST",
                     "Host that requests may name; *.NAME = all below it, * = any. Default: any; "
                     "without keys and on a loopback address only addresses, localhost and this "
                     "machine's own name. May be given again.");
  access.AddRepeated("--cors-allow-origin", server->cors_allow_origins, "ORIGIN",
                     "Origin that browsers may call from; * = any. May be given again.");
  access.Add("--tls-cert", server->tls_cert_file, "FILE",
             "PEM file, chain first: serve HTTPS, and gRPC over TLS. Read again on SIGHUP.");
  access.Add("--tls-key", server->tls_key_file, "FILE", "PEM file of the certificate's key.");
  access.Add(
      "--tls-client-ca", server->tls_client_ca_file, "FILE",
      "PEM file of authorities: clients must show a certificate that one of them has signed. "
      "Read again on SIGHUP.");
  access.Add("--tls-min-version", server->tls_min_version, "VERSION", OneOf({"1.2", "1.3"}),
             "Oldest TLS to speak: 1.2 or 1.3.");
  line->RefuseEmpty({"api-key", "api-key-file", "bulk-api-key", "bulk-api-key-file",
                     "admin-api-key", "admin-api-key-file", "allowed-host", "tls-cert", "tls-key",
                     "tls-client-ca", "tls-min-version"});
}

void FitConnections(http::ServerOptions* server) {
  const int64_t open_files_max = http::RaiseOpenFilesMax();
  const int32_t fit =
      http::ConnectionsThatFit(open_files_max, server->io_threads, server->connections_max);
  if (fit == server->connections_max) return;
  LogWarn(
      "--max-connections {} does not fit the {} files this process may open (ulimit -n); it is {}",
      server->connections_max, open_files_max, fit);
  server->connections_max = fit;
}

void WarnIfOpen(const http::ServerOptions& server) {
  if (LogEnabled(LogLevel::kWarn) || server.AsksForKey() || frontend::IsLoopback(server.host))
    return;
  std::fprintf(stderr,
               "penstock serve: no API key is asked for, and other machines can reach this server; "
               "see --api-key\n");
}

}  // namespace penstock::cli
