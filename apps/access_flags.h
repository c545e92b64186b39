// The flags of `penstock serve` that say who may use it, and how.
#pragma once

#include "command_line.h"
#include "http/server_options.h"

namespace penstock {

void AddAccessFlags(CommandLine* line, ServerOptions* server);

// Raises the limit of open files, and lowers connections_max to what fits in it, with a warning.
void FitConnections(ServerOptions* server);

// Tells of a server that asks for no key and can be reached from elsewhere on stderr, where the
// log's level keeps its own warning from being seen.
void WarnIfOpen(const ServerOptions& server);

}  // namespace penstock
