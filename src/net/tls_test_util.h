// Certificates for the servers of tests, made by OpenSSL.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace penstock::net {

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

class TestAuthority {
 public:
  TestAuthority() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(nullptr, X509_free) {
    certificate_ = Sign(key_.get(), "authority", NID_basic_constraints, "critical,CA:TRUE");
  }

  // Its own certificate as PEM.
  void Write(const std::string& path) const {
    const Owned<std::FILE> file(std::fopen(path.c_str(), "w"),
                                [](std::FILE* one) { std::fclose(one); });
    ASSERT_TRUE(file);
    EXPECT_EQ(PEM_write_X509(file.get(), certificate_.get()), 1);
  }
  // The context of a server with a certificate for `names`: "DNS:a.example,IP:127.0.0.1".
  // Valid from now on for so long; less than 0: not any more.
  Owned<SSL_CTX> ServerFor(const std::string& names, long valid_s = 86'400) const {
    const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const auto certificate = Sign(key.get(), "server", NID_subject_alt_name, names, valid_s);
    Owned<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
    return context;
  }

 private:
  Owned<X509> Sign(EVP_PKEY* key, const std::string& name, int extension, const std::string& value,
                   long valid_s = 86'400) const {
    Owned<X509> out(X509_new(), X509_free);
    X509_set_version(out.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(out.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(out.get()), -172'800);
    X509_gmtime_adj(X509_getm_notAfter(out.get()), valid_s);
    X509_set_pubkey(out.get(), key);
    SetName(X509_get_subject_name(out.get()), name);
    SetName(X509_get_issuer_name(out.get()), "authority");
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, out.get(), out.get(), nullptr, nullptr, 0);
    const Owned<X509_EXTENSION> made(
        X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str()), X509_EXTENSION_free);
    EXPECT_EQ(X509_add_ext(out.get(), made.get(), -1), 1);
    EXPECT_GT(X509_sign(out.get(), key_.get(), EVP_sha256()), 0);
    return out;
  }
  static void SetName(X509_NAME* to, const std::string& name) {
    X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  }

  Owned<EVP_PKEY> key_;
  Owned<X509> certificate_;
  mutable long serial_ = 0;
};

}  // namespace penstock::net
