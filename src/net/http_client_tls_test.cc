// By TLS: whom the client believes, and what it takes for a whole answer.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "net/client_test_util.h"
#include "net/http_client.h"
#include "net/tls_test_util.h"

namespace penstock::net {
namespace {

using Clock = std::chrono::steady_clock;

class HttpClientTlsTest : public HttpClientTest {
 protected:
  static constexpr const char* kNames = "DNS:localhost,DNS:*.localhost,IP:127.0.0.1,IP:::1";

  void SetUp() override {
    HttpClientTest::SetUp();
    authority_.Write(ca_file_);
  }
  // The answer of a server of its own to one request, by a client of its own.
  static Got Ask(const HttpClientOptions& options, const HttpRequest& request) {
    Got got;
    HttpClient client(options);
    got.result = client.Follow(request, 5, SinkOf(&got));
    return got;
  }
  HttpClientOptions Trusting() const { return {2000, ca_file_, false}; }
  static void AnswerAll(Peer* peer) {
    while (!peer->Read().empty()) peer->Answer("secret");
  }

  const TempFolder folder_;
  const std::string ca_file_ = folder_ / "ca.pem";
  const TestAuthority authority_;
  const Owned<SSL_CTX> context_ = authority_.ServerFor(kNames);
};

TEST_F(HttpClientTlsTest, OnlyWhoIsTrustedIsBelieved) {
  bool was_asked = false;
  Server server(
      [&](Peer* peer) {
        // With TLS 1.3 a server takes the handshake for done before the client looks.
        while (!peer->Read().empty()) {
          was_asked = true;
          peer->Answer("secret");
        }
      },
      context_.get());
  const HttpRequest request = To(server.at());
  const Got strange = Ask({2000, "", false}, request);
  EXPECT_EQ(strange.result.failure, HttpFailure::kCertificate);
  EXPECT_EQ(strange.result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(strange.result.may_pass());
  const std::string& said = strange.result.status.message();
  EXPECT_EQ(said.find("127.0.0.1:"), 0u) << said;
  EXPECT_NE(said.find("certificate is not trusted"), std::string::npos) << said;
  EXPECT_NE(said.find("issuer"), std::string::npos) << said;
  const TestAuthority other;
  other.Write(folder_ / "other.pem");
  EXPECT_EQ(Ask({2000, folder_ / "other.pem", false}, request).result.failure,
            HttpFailure::kCertificate);
  EXPECT_FALSE(was_asked);
  EXPECT_EQ(Ask(Trusting(), request).body, "secret");
  EXPECT_EQ(Ask({2000, "", true}, request).body, "secret");
}

TEST_F(HttpClientTlsTest, TheVariableNamesCertificatesToo) {
  Server server(AnswerAll, context_.get());
  setenv("SSL_CERT_FILE", ca_file_.c_str(), 1);
  const Got got = Ask({2000, "", false}, To(server.at()));
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(got.body, "secret") << got.result.status.ToString();
}

TEST_F(HttpClientTlsTest, CertificatesThatCannotBeReadAreNamed) {
  folder_.Write("text.pem", "no certificate");
  for (const char* const name : {"none.pem", "text.pem"}) {
    const Got got = Ask({2000, folder_ / name, false}, To("https://127.0.0.1:1/"));
    EXPECT_EQ(got.result.failure, HttpFailure::kRefused);
    EXPECT_NE(got.result.status.message().find(name), std::string::npos);
  }
}

TEST_F(HttpClientTlsTest, TheCertificateIsThatOfTheHost) {
  const std::pair<const char*, bool> cases[] = {
      {"DNS:localhost", true},      {"DNS:LocalHost", true}, {"DNS:localhost2", false},
      {"DNS:*.localhost", false},   {"DNS:local*", false},   {"IP:127.0.0.1", false},
      {"DNS:a,DNS:localhost", true}};
  for (const auto& [names, is_taken] : cases) {
    const auto context = authority_.ServerFor(names);
    Server server(AnswerAll, context.get());
    const Got got = Ask(Trusting(), To(server.at("/", "localhost")));
    EXPECT_EQ(got.result.failure, is_taken ? HttpFailure::kNone : HttpFailure::kCertificate)
        << names << ": " << got.result.status.ToString();
    EXPECT_EQ(got.body, is_taken ? "secret" : "");
    if (is_taken) continue;
    EXPECT_NE(got.result.status.message().find("mismatch"), std::string::npos)
        << got.result.status.message();
    EXPECT_EQ(Ask({2000, "", true}, To(server.at("/", "localhost"))).body, "secret");
  }
  const std::pair<const char*, bool> addresses[] = {
      {"IP:127.0.0.1", true}, {"IP:127.0.0.2", false}, {"DNS:127.0.0.1", false}};
  for (const auto& [names, is_taken] : addresses) {
    const auto context = authority_.ServerFor(names);
    Server server(AnswerAll, context.get());
    EXPECT_EQ(Ask(Trusting(), To(server.at())).body, is_taken ? "secret" : "") << names;
  }
  const auto past = authority_.ServerFor(kNames, -10);
  Server server(AnswerAll, past.get());
  const Got got = Ask(Trusting(), To(server.at()));
  EXPECT_EQ(got.result.failure, HttpFailure::kCertificate);
  EXPECT_NE(got.result.status.message().find("expired"), std::string::npos);
}

TEST_F(HttpClientTlsTest, TheServerIsToldTheName) {
  std::string name = "?", request;
  Server server(
      [&](Peer* peer) {
        name = peer->server_name();
        request = peer->Read();
        peer->Answer("x");
      },
      context_.get());
  EXPECT_EQ(Ask(Trusting(), To(server.at("/", "LocalHost"))).body, "x");
  EXPECT_EQ(name, "localhost");
  EXPECT_NE(request.find("\r\nHost: localhost:"), std::string::npos) << request;
  // It would be unpacked by no one.
  EXPECT_EQ(request.find("ccept-"), std::string::npos) << request;
  EXPECT_EQ(Ask(Trusting(), To(server.at())).body, "x");
  EXPECT_EQ(name, "") << "an address is not a name";
}

TEST_F(HttpClientTlsTest, OldVersionsAreRefused) {
  SSL_CTX_set_security_level(context_.get(), 0);
  SSL_CTX_set_max_proto_version(context_.get(), TLS1_1_VERSION);
  Server server(AnswerAll, context_.get());
  EXPECT_EQ(Ask(Trusting(), To(server.at())).result.failure, HttpFailure::kTls);
}

TEST_F(HttpClientTlsTest, OneThatDoesNotSpeakTls) {
  Server server([](Peer* peer) {
    peer->Write("HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n");
    (void)peer->Read();
  });
  std::string url = server.at();
  url.insert(4, "s");
  const Got got = Ask(Trusting(), To(url));
  EXPECT_EQ(got.result.failure, HttpFailure::kTls) << got.result.status.ToString();
  EXPECT_NE(got.result.status.message().find("TLS"), std::string::npos);
}

TEST_F(HttpClientTlsTest, KeepsItsConnection) {
  const std::string body(1'000'000, 'b');
  Server server(
      [&](Peer* peer) {
        for (std::string text; !(text = peer->Read()).empty();) {
          peer->Answer(text.substr(text.find("\r\n\r\n") + 4));
        }
      },
      context_.get());
  HttpClient client(Trusting());
  HttpRequest post = To(server.at());
  post.method = "POST";
  post.body = &body;
  for (int i = 0; i < 3; ++i) {
    Got got;
    got.result = client.Exchange(post, SinkOf(&got));
    ASSERT_TRUE(got.result.ok()) << got.result.status.ToString();
    EXPECT_TRUE(got.body == body);
  }
  EXPECT_EQ(server.connections(), 1);
}

// A body that was cut is none, however its end is told, and whether or not TLS says good-bye.
TEST_F(HttpClientTlsTest, APartIsNotTheWhole) {
  struct Case {
    const char* answer;
    bool is_whole_if_ended, is_whole_if_cut;
  };
  const Case cases[] = {
      {"HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nabcde", true, true},
      {"HTTP/1.1 200 x\r\nContent-Length: 6\r\n\r\nabcde", false, false},
      {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", true, true},
      {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n", false, false},
      {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", false, false},
      {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcde", false, false},
      {"HTTP/1.1 200 x\r\n\r\nabcde", true, false},
      {"HTTP/1.1 200 x\r\nConnection: close\r\n\r\nabcde", true, false},
      {"HTTP/1.1 200 x\r\nX: y\r\n", false, false},
  };
  const Case* now = nullptr;
  bool cut = false;
  Server server(
      [&](Peer* peer) {
        (void)peer->Read();
        peer->Write(now->answer);
        if (cut) peer->Cut();
      },
      context_.get());
  for (const Case& one : cases) {
    for (const bool is_cut : {false, true}) {
      now = &one;
      cut = is_cut;
      const bool is_whole = cut ? one.is_whole_if_cut : one.is_whole_if_ended;
      const Got got = Ask(Trusting(), To(server.at()));
      EXPECT_EQ(got.result.failure, is_whole ? HttpFailure::kNone : HttpFailure::kBroken)
          << one.answer << (cut ? " cut: " : " ended: ") << got.result.status.ToString();
    }
  }
}

TEST_F(HttpClientTlsTest, RedirectsLeadUpAndNotDown) {
  std::string seen;
  const auto answer = [&](Peer* peer) {
    for (std::string text; !(text = peer->Read()).empty();) {
      seen = text;
      const size_t to = text.find("?to=");
      if (to == std::string::npos) return peer->Answer("there");
      const std::string location = text.substr(to + 4, text.find(' ', to) - to - 4);
      peer->Answer("moved", "Location: " + location + "\r\n", 302);
    }
  };
  Server other(answer, context_.get());
  Server secure(answer, context_.get());
  std::string plain_saw;
  Server plain([&](Peer* peer) {
    plain_saw = peer->Read();
    peer->Answer("moved", "Location: " + secure.at("/up") + "\r\n", 301);
  });
  HttpRequest request = To(plain.at());
  request.headers = {{"authorization", "Bearer token"}, {"Cookie", "a=b"}, {"X-Mine", "1"}};
  EXPECT_EQ(Ask(Trusting(), request).body, "there");
  EXPECT_NE(plain_saw.find("Bearer token"), std::string::npos);
  EXPECT_EQ(seen.find("Bearer token"), std::string::npos) << "it went to another origin";
  EXPECT_EQ(seen.find("a=b"), std::string::npos);
  EXPECT_NE(seen.find("X-Mine"), std::string::npos);

  plain_saw.clear();
  request.url = *ParseUrl(secure.at("/?to=" + plain.at()));
  const Got down = Ask(Trusting(), request);
  EXPECT_EQ(down.result.failure, HttpFailure::kRefused);
  EXPECT_FALSE(down.result.may_pass());
  EXPECT_NE(down.result.status.message().find("https to http"), std::string::npos);
  EXPECT_EQ(plain_saw, "") << "nothing goes there";

  request.url = *ParseUrl(secure.at("/?to=" + other.at("/", "localhost")));
  request.url.user = "me:password";
  EXPECT_EQ(Ask(Trusting(), request).body, "there");
  EXPECT_EQ(seen.find("uthorization"), std::string::npos) << seen;
  request.url = *ParseUrl(secure.at("/?to=/here"));
  EXPECT_EQ(Ask(Trusting(), request).body, "there");
  EXPECT_NE(seen.find("Bearer token"), std::string::npos) << seen;
}

// The name or address of a certificate is checked for each host, also where one was believed.
TEST_F(HttpClientTlsTest, ARedirectIsCheckedAsTheFirstHostWas) {
  const auto for_address = authority_.ServerFor("IP:127.0.0.1");
  Server second(AnswerAll, for_address.get());
  Server first(
      [&](Peer* peer) {
        (void)peer->Read();
        peer->Answer("", "Location: " + second.at("/", "localhost") + "\r\n", 302);
      },
      context_.get());
  EXPECT_EQ(Ask(Trusting(), To(first.at())).result.failure, HttpFailure::kCertificate);
}

// A server that shakes hands and says no more, and one that does not even shake hands.
TEST_F(HttpClientTlsTest, SilenceEnds) {
  Server secure([](Peer* peer) { (void)(peer->Read(), peer->Read()); }, context_.get());
  Server mute([](Peer* peer) { (void)(peer->Read(), peer->Read()); });
  std::string mute_url = mute.at();
  mute_url.insert(4, "s");
  for (const std::string& url : {secure.at(), mute_url}) {
    HttpRequest request = To(url);
    request.timeout_ms = 300;
    auto begin = Clock::now();
    EXPECT_EQ(Ask(Trusting(), request).result.failure, HttpFailure::kTimeout);
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1500));
    request.timeout_ms = 0;
    std::optional<Clock::time_point> cancelled_at;
    begin = Clock::now();
    request.cancelled = [&] {
      const bool is = Clock::now() - begin > std::chrono::milliseconds(150);
      if (is && !cancelled_at) cancelled_at = begin + std::chrono::milliseconds(150);
      return is;
    };
    EXPECT_EQ(Ask(Trusting(), request).result.failure, HttpFailure::kCancelled);
    // It is asked ten times a second.
    EXPECT_LT(Clock::now() - *cancelled_at, std::chrono::milliseconds(200));
  }
  HttpRequest request = To(mute_url);
  const auto begin = Clock::now();
  EXPECT_EQ(Ask({300, ca_file_, false}, request).result.failure, HttpFailure::kTimeout);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1500));
}

// Plain bytes behind the answer to CONNECT are not what the host says by TLS.
TEST_F(HttpClientTlsTest, AProxySaysNothingForTheHost) {
  const std::string more = "HTTP/1.1 200 x\r\nContent-Length: 6\r\n\r\nforged";
  Server proxy([&](Peer* peer) {
    (void)peer->Read();
    peer->Write("HTTP/1.1 200 x\r\n\r\n" + more);
    (void)peer->Read();
  });
  setenv("https_proxy", proxy.at().c_str(), 1);
  const Got got = Ask({2000, "", true}, To("https://hub.invalid/"));
  EXPECT_EQ(got.result.failure, HttpFailure::kRefused) << got.result.status.ToString();
  EXPECT_EQ(got.body, "");
}

}  // namespace
}  // namespace penstock::net
