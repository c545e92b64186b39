// TlsCredentials: certificate, key and the clients' authorities of the gRPC server, read from the
// same files as those of HTTP and, like those, read again on SIGHUP: connections made later have
// the new ones.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/status.h"
#include "http/server_options.h"

namespace penstock {

class TlsFiles;

class TlsCredentials {
 public:
  // Reads tls_cert_file, tls_key_file and tls_client_ca_file. kInvalidArgument names the option at
  // fault: a file that cannot be read, a key that needs a passphrase or does not belong to the
  // certificate, a least version of TLS other than 1.2, which this gRPC cannot be held to.
  static Expected<std::unique_ptr<TlsCredentials>> Load(const ServerOptions& options);

  // Reads the files again; on an error all stays as it was.
  Status Reload();

  // For the one port of a server. It may outlive this object.
  std::shared_ptr<grpc::ServerCredentials> Get() const { return credentials_; }

 private:
  TlsCredentials() = default;
  std::shared_ptr<TlsFiles> files_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
};

}  // namespace penstock
