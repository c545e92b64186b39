// The certificate, its key and the TLS settings, and which protocols are agreed on (RFC 7301).
// Internal to the connection layer.
//
// TLS 1.2 with key exchange by ECDHE and authenticated encryption only (AES-GCM,
// ChaCha20-Poly1305), and TLS 1.3; no renegotiation.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "http/server_options.h"

namespace penstock::http {

class TlsContext {
 public:
  using Context = boost::asio::ssl::context;

  // kBoth: "h2" where the client has it, else "http/1.1", also for a client that names none it
  // knows. kHttp2: "h2"; a client that names others alone is refused.
  enum class Protocols { kBoth, kHttp2 };

  // Reads tls_cert_file, tls_key_file and tls_client_ca_file. kInvalidArgument names the option at
  // fault.
  static Expected<std::unique_ptr<TlsContext>> Load(const ServerOptions& options,
                                                    Protocols protocols = Protocols::kBoth);

  // Reads the files again: connections accepted later have the new certificate. On an error the
  // context stays as it was; a key with a passphrase is an error, as it would have to be typed.
  Status Reload();

  // The context for a new connection, which itself keeps the parts it needs. Any thread.
  std::shared_ptr<Context> Get() const;

 private:
  TlsContext(const ServerOptions& options, Protocols protocols);

  Expected<std::shared_ptr<Context>> Read(bool ask_passphrase) const;

  const std::string cert_file_, key_file_, client_ca_file_, min_version_;
  const Protocols protocols_;
  mutable std::mutex mutex_;
  std::shared_ptr<Context> context_;  // guarded by mutex_
};

}  // namespace penstock::http
