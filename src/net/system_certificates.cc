#include "net/system_certificates.h"

#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>

namespace penstock::net {

std::string SystemCertificateFile() {
  for (const char* const variable :
       {X509_get_default_cert_file_env(), X509_get_default_cert_dir_env()}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return "";
  }
  if (access(X509_get_default_cert_dir(), R_OK) == 0 ||
      access(X509_get_default_cert_file(), R_OK) == 0) {
    return "";
  }
  // Debian, Alpine; Fedora, RHEL, Amazon; openSUSE; RHEL 7; others.
  for (const char* const path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/cert.pem"}) {
    if (access(path, R_OK) == 0) return path;
  }
  return "";
}

}  // namespace penstock::net
