// The access flags of `penstock serve`: keys, hosts, origins, TLS.
#pragma once

#include "cli/command_line.h"
#include "http/server_options.h"

namespace penstock::cli {

void AddAccessFlags(CommandLine* line, http::ServerOptions* server);

// Raises the limit of open files, and lowers connections_max to what fits in it, with a warning.
void FitConnections(http::ServerOptions* server);

// Warns on stderr of a server without keys that other machines can reach, where the log's level
// hides the log's own warning.
void WarnIfOpen(const http::ServerOptions& server);

}  // namespace penstock::cli
