// Where a Linux system keeps the certificates of authorities that it trusts.
#pragma once

#include <string>

namespace penstock::net {

// The PEM file to read beside OpenSSL's own places; "": those will do. OpenSSL knows the places of
// the system it was built on, and a wheel carries it to others. SSL_CERT_FILE and SSL_CERT_DIR go
// before everything.
std::string SystemCertificateFile();

}  // namespace penstock::net
