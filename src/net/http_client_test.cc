#include "net/http_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/client_test_util.h"

namespace penstock::net {
namespace {

using Clock = std::chrono::steady_clock;

TEST_F(HttpClientTest, KeepsItsConnection) {
  std::vector<std::string> requests;
  Server server([&](Peer* peer) {
    for (std::string text; !(text = peer->Read()).empty();) {
      requests.push_back(text);
      peer->Answer("hello", "X-Name:  value \r\nx-name: last\r\n");
    }
  });
  const std::string body(300'000, 'b');
  HttpRequest post = To(server.at("/a?b=1"));
  post.method = "POST";
  post.body = &body;
  post.headers = {{"Content-Type", "text/plain"}};
  for (const HttpRequest& request : {To(server.at()), post, To(server.at())}) {
    const Got got = Exchange(request);
    ASSERT_TRUE(got.result.ok()) << got.result.status.ToString();
    EXPECT_EQ(got.head.status, 200);
    EXPECT_EQ(got.head.headers.at("x-name"), "last");
    EXPECT_EQ(got.body, "hello");
  }
  EXPECT_EQ(server.connections(), 1);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].find("GET / HTTP/1.1\r\nHost: 127.0.0.1:"), 0u) << requests[0];
  EXPECT_EQ(requests[1].find("POST /a?b=1 HTTP/1.1\r\n"), 0u);
  EXPECT_TRUE(requests[1].ends_with("\r\n\r\n" + body));
}

TEST_F(HttpClientTest, BodiesOfEachKind) {
  const std::string answers[] = {
      "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: "
      "r\r\n\r\n",
      "HTTP/1.0 200 x\r\n\r\nabcde",  // until the end
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nabcde",
      "HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
  };
  size_t next = 0;
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Write(answers[next++]);
  });
  for (size_t i = 0; i < std::size(answers); ++i) {
    const Got got = Exchange(To(server.at()));
    EXPECT_TRUE(got.result.ok()) << i << got.result.status.ToString();
    EXPECT_EQ(got.body, "abcde") << i;
  }
}

TEST_F(HttpClientTest, AHeadHasNoBody) {
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Write("HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n");
    (void)peer->Read();
  });
  HttpRequest request = To(server.at());
  request.method = "HEAD";
  const Got got = Exchange(request);
  EXPECT_TRUE(got.result.ok());
  EXPECT_EQ(got.head.headers.at("content-length"), "1000");
}

TEST_F(HttpClientTest, BrokenAnswersAreTold) {
  const std::string answers[] = {"",
                                 "HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nabc",
                                 "nonsense\r\n\r\n",
                                 "HTTP/1.1 200 x\r\nContent-Length: 5\r\n",
                                 "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                                 "HTTP/1.1 200 x\r\nX: " + std::string(70'000, 'a') + "\r\n\r\n"};
  size_t next = 0;
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Write(answers[next++]);
  });
  for (size_t i = 0; i < std::size(answers); ++i) {
    const Got got = Exchange(To(server.at()));
    EXPECT_EQ(got.result.failure, HttpFailure::kBroken) << i;
    EXPECT_EQ(got.result.status.message().find("127.0.0.1:"), 0u) << got.result.status.message();
  }
}

// A server closes a connection that was kept before the next request, or with it.
TEST_F(HttpClientTest, AStaleConnectionIsReplaced) {
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Answer("once");
    if (server_reads_again_) (void)peer->Read();
  });
  for (const bool again : {false, true, true}) {
    server_reads_again_ = again;
    const Got got = Exchange(To(server.at()));
    EXPECT_TRUE(got.result.ok()) << got.result.status.ToString();
    EXPECT_EQ(got.body, "once");
  }
  EXPECT_EQ(server.connections(), 3);
}

// The server reads the second request of a connection, and closes it without a word or after one.
TEST_F(HttpClientTest, ARequestIsSentAgainOnceWhereNoAnswerBegan) {
  std::string before_the_end;
  std::vector<std::string> seen;
  Server server([&](Peer* peer) {
    seen.push_back(peer->Read());
    if (seen.size() > 1 && !before_the_end.empty()) return;
    peer->Answer("once");
    seen.push_back(peer->Read());
    peer->Write(before_the_end);
  });
  const std::string body = "{}";
  HttpRequest post = To(server.at());
  post.method = "POST";
  post.body = &body;
  ASSERT_TRUE(Exchange(post).result.ok());
  ASSERT_TRUE(Exchange(post).result.ok());
  // The second connection is open now, and its next request gets no whole answer.
  EXPECT_EQ(seen.size(), 3u);
  for (const std::string& text : seen) EXPECT_TRUE(text.ends_with(body)) << text;
  EXPECT_EQ(server.connections(), 2);
  before_the_end = "HTTP/1.1 100 x\r\n\r\n";
  EXPECT_EQ(Exchange(post).result.failure, HttpFailure::kBroken) << "an answer had begun";
  EXPECT_EQ(server.connections(), 2);
  EXPECT_EQ(Exchange(post).result.failure, HttpFailure::kBroken) << "on a new connection";
  EXPECT_EQ(server.connections(), 3);
}

TEST_F(HttpClientTest, HeadersCannotBeginOthers) {
  int connections = 0;
  {
    Server server([](Peer* peer) { peer->Answer(peer->Read()); });
    const std::pair<const char*, const char*> cases[] = {
        {"A", "b\r\nC: d"}, {"A", "b\n"}, {"A\r\nB", "c"}, {"A:", "b"}, {"", "b"}, {"A", "b\x7F"}};
    for (const auto& header : cases) {
      HttpRequest request = To(server.at());
      request.headers = {header};
      const Got got = Exchange(request);
      EXPECT_EQ(got.result.failure, HttpFailure::kRefused);
      EXPECT_EQ(got.result.status.code(), StatusCode::kInvalidArgument);
    }
    connections = server.connections();
  }
  EXPECT_EQ(connections, 0);
}

// What has no use has an end all the same.
TEST_F(HttpClientTest, EndlessAnswersEnd) {
  Server server([](Peer* peer) {
    const std::string request = peer->Read();
    if (request.starts_with("GET /interim ")) {
      while (peer->Write("HTTP/1.1 103 x\r\n\r\n")) {
      }
    }
    for (const char* const part : {"5;", "0\r\nA:"}) {  // a chunk's line, trailers
      if (!request.starts_with(*part == '5' ? "GET /line " : "GET /trailers ")) continue;
      peer->Write(std::string("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n") + part);
      while (peer->Write(std::string(1 << 10, 'a'))) {
      }
    }
    peer->Write("HTTP/1.1 302 x\r\nLocation: /interim\r\n\r\n");
    while (peer->Write(std::string(1 << 16, 'a'))) {
    }
  });
  for (const char* const target : {"/interim", "/line", "/trailers"}) {
    EXPECT_EQ(Exchange(To(server.at(target))).result.failure, HttpFailure::kBroken) << target;
  }
  const Got got = Follow(To(server.at()));
  EXPECT_EQ(got.result.failure, HttpFailure::kBroken) << "it followed";
  EXPECT_NE(got.result.status.message().find("1xx"), std::string::npos);
}

TEST_F(HttpClientTest, NothingListens) {
  std::string url;
  {
    url = Server([](Peer*) {}).at();
  }
  EXPECT_EQ(Exchange(To(url)).result.failure, HttpFailure::kNotReached);
  EXPECT_EQ(Exchange(To("http://no-such-host.invalid/")).result.failure, HttpFailure::kNotReached);
}

TEST_F(HttpClientTest, Limits) {
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Write("HTTP/1.1 200 x\r\nContent-Length: 100000\r\n\r\n");
    // A slow server is what is tested.
    while (peer->Write("a")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  const auto begin = Clock::now();
  HttpRequest request = To(server.at());
  request.timeout_ms = 300;
  EXPECT_EQ(Exchange(request).result.failure, HttpFailure::kTimeout);
  request.timeout_ms = 0;
  request.stall_bytes = 1000;
  request.stall_s = 1;
  EXPECT_EQ(Exchange(request).result.failure, HttpFailure::kTimeout);
  request.stall_s = 0;
  request.cancelled = [&] { return Clock::now() - begin > std::chrono::milliseconds(1500); };
  const Got got = Exchange(request);
  EXPECT_EQ(got.result.failure, HttpFailure::kCancelled);
  EXPECT_EQ(got.result.status.code(), StatusCode::kCancelled);
}

TEST_F(HttpClientTest, TheSinkEndsIt) {
  Server server([&](Peer* peer) {
    (void)peer->Read();
    peer->Answer("abc");
  });
  const HttpResult result = client_.Exchange(
      To(server.at()),
      {{}, [](std::string_view) { return Status(StatusCode::kPayloadTooLarge, "enough"); }});
  EXPECT_EQ(result.failure, HttpFailure::kSink);
  EXPECT_EQ(result.status.code(), StatusCode::kPayloadTooLarge);
}

TEST_F(HttpClientTest, Redirects) {
  std::vector<std::string> seen;
  std::mutex mutex;
  const auto answer = [&](Peer* peer, const std::string& other) {
    for (std::string text; !(text = peer->Read()).empty();) {
      const std::lock_guard lock(mutex);
      seen.push_back(text);
      if (text.starts_with("GET /away ")) {
        peer->Answer("moved", "Location: " + other + "/there\r\n", 302);
      } else if (text.starts_with("GET /near/by ")) {
        peer->Answer("moved", "Location: ../there?x\r\n", 307);
      } else if (text.starts_with("GET /circle ")) {
        peer->Answer("moved", "Location: /circle\r\n", 301);
      } else {
        peer->Answer("there");
      }
    }
  };
  Server second([&](Peer* peer) { answer(peer, ""); });
  Server first([&](Peer* peer) { answer(peer, second.at("")); });
  HttpRequest request = To(first.at("/near/by"));
  request.headers = {{"Authorization", "Bearer token"}, {"X-Mine", "1"}};
  EXPECT_EQ(Follow(request).body, "there");
  EXPECT_NE(seen.back().find("GET /there?x "), std::string::npos);
  EXPECT_NE(seen.back().find("Bearer token"), std::string::npos);
  request.url = *ParseUrl(first.at("/away"));
  EXPECT_EQ(Follow(request).body, "there");
  EXPECT_EQ(seen.back().find("Bearer token"), std::string::npos) << "it went to another host";
  EXPECT_NE(seen.back().find("X-Mine"), std::string::npos);
  request.url = *ParseUrl(first.at("/circle"));
  EXPECT_EQ(Follow(request, 3).result.failure, HttpFailure::kRefused);
}

TEST_F(HttpClientTest, ByAProxy) {
  std::vector<std::string> seen;
  Server proxy([&](Peer* peer) {
    const std::string text = peer->Read();
    seen.push_back(text);
    if (text.starts_with("CONNECT ")) {
      peer->Answer("no", "", 403);
    } else {
      peer->Answer("by proxy");
    }
  });
  const std::string address = proxy.at("").substr(7);
  setenv("http_proxy", ("http://me:pass@" + address).c_str(), 1);
  EXPECT_EQ(Exchange(To("http://hub.invalid/a?b")).body, "by proxy");
  EXPECT_EQ(seen[0].find("GET http://hub.invalid/a?b HTTP/1.1\r\nHost: hub.invalid\r\n"), 0u)
      << seen[0];
  EXPECT_NE(seen[0].find("Proxy-Authorization: Basic bWU6cGFzcw==\r\n"), std::string::npos);
  setenv("https_proxy", address.c_str(), 1);
  const Got got = Exchange(To("https://hub.invalid/"));
  unsetenv("https_proxy");
  EXPECT_EQ(got.result.failure, HttpFailure::kRefused);
  EXPECT_NE(got.result.status.message().find("403"), std::string::npos);
  EXPECT_EQ(seen[1].find("CONNECT hub.invalid:443 HTTP/1.1\r\n"), 0u);
}

}  // namespace
}  // namespace penstock::net
