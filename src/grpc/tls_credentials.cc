#include "grpc/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <mutex>
#include <string>
#include <utility>

#include "common/exception_status.h"
#include "common/regular_file.h"

namespace penstock {
namespace {

constexpr size_t kPemBytesMax = 4 << 20;

template <typename T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* object) const { kFree(object); }
};
void FreeBio(BIO* bio) { BIO_free(bio); }
using Bio = std::unique_ptr<BIO, Freed<BIO, FreeBio>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;

Bio Memory(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Certificate FirstCertificate(const std::string& pem) {
  const Bio bio = Memory(pem);
  Certificate found(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return found;
}

Key ReadKey(const std::string& pem) {
  const Bio bio = Memory(pem);
  // A passphrase would have to be typed at every reload, and gRPC cannot be given one.
  Key found(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  ERR_clear_error();
  return found;
}

Expected<std::string> ReadPem(const std::string& path, const char* what, const char* field) {
  auto text = ReadRegularFile(path, kPemBytesMax);
  if (text.ok()) return text;
  return Status::InvalidArgument(
      "cannot read the TLS " + std::string(what) + " " + path + ": " + text.status().message(),
      field);
}

struct Pems {
  std::string chain, key, client_ca;

  Pems() = default;
  Pems(Pems&&) = default;
  Pems& operator=(Pems&&) = default;
  ~Pems() { OPENSSL_cleanse(key.data(), key.size()); }
};

Expected<Pems> ReadPems(const std::string& cert_file, const std::string& key_file,
                        const std::string& client_ca_file) {
  Pems pems;
  PENSTOCK_ASSIGN_OR_RETURN(pems.chain, ReadPem(cert_file, "certificate", "tls_cert_file"));
  PENSTOCK_ASSIGN_OR_RETURN(pems.key, ReadPem(key_file, "key", "tls_key_file"));
  const Certificate certificate = FirstCertificate(pems.chain);
  if (certificate == nullptr) {
    return Status::InvalidArgument(
        "cannot read the TLS certificate " + cert_file + ": it holds no certificate in PEM form",
        "tls_cert_file");
  }
  const Key key = ReadKey(pems.key);
  if (key == nullptr) {
    return Status::InvalidArgument(
        "cannot read the TLS key " + key_file +
            ": it holds no key in PEM form, or one with a passphrase, which gRPC cannot use",
        "tls_key_file");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return Status::InvalidArgument(
        "the TLS key " + key_file + " does not belong to the certificate", "tls_key_file");
  }
  if (client_ca_file.empty()) return pems;
  PENSTOCK_ASSIGN_OR_RETURN(pems.client_ca,
                            ReadPem(client_ca_file, "client authorities", "tls_client_ca_file"));
  if (FirstCertificate(pems.client_ca) == nullptr) {
    return Status::InvalidArgument("cannot read the TLS client authorities " + client_ca_file +
                                       ": it holds no certificate in PEM form",
                                   "tls_client_ca_file");
  }
  return pems;
}

}  // namespace

// What gRPC asks for before each handshake.
class TlsFiles {
 public:
  explicit TlsFiles(const ServerOptions& options)
      : cert_file_(options.tls_cert_file),
        key_file_(options.tls_key_file),
        client_ca_file_(options.tls_client_ca_file) {}

  bool asks_clients() const { return !client_ca_file_.empty(); }

  Status Read() {
    auto read = ReadPems(cert_file_, key_file_, client_ca_file_);
    if (!read.ok()) return read.status();
    const std::lock_guard lock(mutex_);
    pems_ = *std::move(read);
    fresh_ = true;
    return Status::Ok();
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* files, grpc_ssl_server_certificate_config** config) {
    auto status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    RunGuarded("TLS certificate", [&] { status = static_cast<TlsFiles*>(files)->Give(config); });
    return status;
  }

 private:
  grpc_ssl_certificate_config_reload_status Give(grpc_ssl_server_certificate_config** config) {
    const std::lock_guard lock(mutex_);
    if (!fresh_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {pems_.key.c_str(), pems_.chain.c_str()};
    // gRPC 1.51 ends the process where there are no authorities, also where it asks no client for a
    // certificate; then any will do.
    *config = grpc_ssl_server_certificate_config_create(
        asks_clients() ? pems_.client_ca.c_str() : pems_.chain.c_str(), &pair, 1);
    fresh_ = false;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::string cert_file_, key_file_, client_ca_file_;
  std::mutex mutex_;
  Pems pems_;           // guarded by mutex_
  bool fresh_ = false;  // guarded by mutex_: gRPC does not have them yet
};

namespace {

// grpcpp has no credentials whose certificates are fetched; the core has.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchedCredentials(std::shared_ptr<TlsFiles> files) : files_(std::move(files)) {
    const auto request = files_->asks_clients()
                             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    native_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, &TlsFiles::Fetch,
                                                                        files_.get()));
  }
  ~FetchedCredentials() override {
    if (native_ != nullptr) grpc_server_credentials_release(native_);
  }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    if (native_ == nullptr) return 0;
    return grpc_server_add_http2_port(server, address.c_str(), native_);
  }

  const std::shared_ptr<TlsFiles> files_;
  grpc_server_credentials* native_ = nullptr;
};

}  // namespace

Expected<std::unique_ptr<TlsCredentials>> TlsCredentials::Load(const ServerOptions& options) {
  if (options.tls_min_version != "1.2") {
    return Status::InvalidArgument(
        "gRPC takes TLS 1.2 and 1.3 and cannot be held to " + options.tls_min_version + " alone",
        "tls_min_version");
  }
  std::unique_ptr<TlsCredentials> made(new TlsCredentials);
  made->files_ = std::make_shared<TlsFiles>(options);
  PENSTOCK_RETURN_IF_ERROR(made->files_->Read());
  made->credentials_ = std::make_shared<FetchedCredentials>(made->files_);
  return made;
}

Status TlsCredentials::Reload() { return files_->Read(); }

}  // namespace penstock
