// The access flags of `penstock serve`: keys, hosts, origins, TLS.
#pragma once

#include "command_line.h"
#include "http/server_options.h"

namespace penstock {

void AddAccessFlags(CommandLine* line, ServerOptions* server);

// Raises the limit of open files, and lowers connections_max to what fits in it, with a warning.
void FitConnections(ServerOptions* server);

// Warns on stderr of a server without keys that other machines can reach, where the log's level
// hides the log's own warning.
void WarnIfOpen(const ServerOptions& server);

}  // namespace penstock
