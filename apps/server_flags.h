// The flags of commands that can have their work done by a server (--url) instead of by a model of
// their own.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command_line.h"
#include "client/server_client.h"

namespace penstock::cli {

struct ServerFlags {
  std::string url;  // "" = no server
  std::string api_key;
  std::string api_key_file;
  std::string ca_cert;
  bool insecure = false;
  int connect_timeout_s = 5;
};

// Where `penstock serve` listens if it is told nothing else.
inline constexpr char kLocalServer[] = "http://127.0.0.1:8080";

void AddServerFlags(CommandLine* line, ServerFlags* flags);

// kInvalidArgument names a flag of the command line that only a model in this process has a use
// for. (Variables and the file may be for other commands too.)
Status CheckForServer(const CommandLine& line);

// Reads --api-key-file. kInvalidArgument: it cannot be read, or holds no key.
Expected<client::ServerClientOptions> ClientOptions(const ServerFlags& flags);

// The name at the server that --model means; "" = the server's default. From a variable or a file,
// where it may be meant for models in this process, NAME=REF means NAME and a folder none.
std::string NameAtServer(const CommandLine& line, const std::vector<std::string>& models);

}  // namespace penstock::cli
