#include "http/tls_context.h"

#include <openssl/ssl.h>

#include <utility>

namespace penstock::http {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

// For TLS 1.2; those of TLS 1.3 are all of this kind.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

Expected<std::shared_ptr<ssl::context>> ReadFiles(const std::string& cert_file,
                                                  const std::string& key_file,
                                                  const std::string& client_ca_file,
                                                  const std::string& min_version,
                                                  bool ask_passphrase) {
  auto tls = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = tls->native_handle();
  error_code ec;
  tls->set_options(ssl::context::default_workarounds | SSL_OP_NO_RENEGOTIATION, ec);
  const int version = min_version == "1.3" ? TLS1_3_VERSION : TLS1_2_VERSION;
  if (ec || SSL_CTX_set_min_proto_version(native, version) != 1 ||
      SSL_CTX_set_cipher_list(native, kCiphers) != 1) {
    return Status::Internal("TLS cannot be set up");
  }
  if (!ask_passphrase) {
    SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return -1; });
  }
  tls->use_certificate_chain_file(cert_file, ec);
  if (ec) {
    return Status::InvalidArgument(
        "cannot read the TLS certificate " + cert_file + ": " + ec.message(), "tls_cert_file");
  }
  tls->use_private_key_file(key_file, ssl::context::pem, ec);
  if (ec) {
    return Status::InvalidArgument("cannot read the TLS key " + key_file + ": " + ec.message(),
                                   "tls_key_file");
  }
  if (SSL_CTX_check_private_key(native) != 1) {
    return Status::InvalidArgument(
        "the TLS key " + key_file + " does not belong to the certificate", "tls_key_file");
  }
  if (client_ca_file.empty()) return tls;
  tls->load_verify_file(client_ca_file, ec);
  if (ec) {
    return Status::InvalidArgument(
        "cannot read the TLS client authorities " + client_ca_file + ": " + ec.message(),
        "tls_client_ca_file");
  }
  tls->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, ec);
  if (ec) return Status::Internal("TLS cannot be set up to ask for clients' certificates");
  // Sessions are resumed within this server alone; without a name none could be.
  SSL_CTX_set_session_id_context(native, reinterpret_cast<const unsigned char*>("penstock"), 8);
  return tls;
}

// The server's choice of a protocol; `only_http2`: not null.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned offered_size, void* only_http2) {
  static constexpr unsigned char kKnown[] = "\x02h2\x08http/1.1";
  const unsigned size = only_http2 != nullptr ? 3 : sizeof kKnown - 1;
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_size, kKnown, size, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return only_http2 != nullptr ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsContext::TlsContext(const ServerOptions& options, Protocols protocols)
    : cert_file_(options.tls_cert_file),
      key_file_(options.tls_key_file),
      client_ca_file_(options.tls_client_ca_file),
      min_version_(options.tls_min_version),
      protocols_(protocols) {}

Expected<std::shared_ptr<TlsContext::Context>> TlsContext::Read(bool ask_passphrase) const {
  PENSTOCK_ASSIGN_OR_RETURN(auto context, ReadFiles(cert_file_, key_file_, client_ca_file_,
                                                    min_version_, ask_passphrase));
  static char yes;
  SSL_CTX_set_alpn_select_cb(context->native_handle(), ChooseProtocol,
                             protocols_ == Protocols::kHttp2 ? &yes : nullptr);
  return context;
}

Expected<std::unique_ptr<TlsContext>> TlsContext::Load(const ServerOptions& options,
                                                       Protocols protocols) {
  if (options.tls_min_version != "1.2" && options.tls_min_version != "1.3") {
    return Status::InvalidArgument("the least version of TLS must be 1.2 or 1.3",
                                   "tls_min_version");
  }
  std::unique_ptr<TlsContext> made(new TlsContext(options, protocols));
  PENSTOCK_ASSIGN_OR_RETURN(made->context_, made->Read(true));
  return made;
}

Status TlsContext::Reload() {
  auto read = Read(false);
  if (!read.ok()) return read.status();
  const std::lock_guard lock(mutex_);
  context_ = *std::move(read);
  return Status::Ok();
}

std::shared_ptr<TlsContext::Context> TlsContext::Get() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace penstock::http
