// Drives the connection layer through real sockets with a small handler; no models involved.
#include "http/listener.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>

#include "http/listener_test_util.h"

namespace penstock::http {
namespace {

TEST_F(ListenerTest, KeepsAliveAndEchoesTheRequestId) {
  Start();
  Client client = Connect();
  for (int i = 0; i < 3; ++i) {
    client.Send(Post("/echo", "body" + std::to_string(i), "X-Request-Id: id-7\r\n"));
    const std::string answer = client.ReadTo("body" + std::to_string(i));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("X-Request-Id: id-7\r\n"), std::string::npos);
    EXPECT_NE(answer.find("Connection: keep-alive\r\n"), std::string::npos);
  }
  EXPECT_EQ(handler_.connections, 1);
  client.Close();
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(ListenerTest, PipelinedAnswersKeepTheOrder) {
  Start();
  Client client = Connect();
  std::string all = Post("/late", "");
  for (int i = 0; i < 50; ++i) all += Post("/echo", "n" + std::to_string(i) + ";");
  client.Send(all);
  EXPECT_NE(client.ReadTo("late"), "");
  for (int i = 0; i < 50; ++i) {
    EXPECT_NE(client.ReadTo("\r\n\r\nPOST /echo n" + std::to_string(i) + ";"), "");
  }
}

TEST_F(ListenerTest, PipeliningIsBounded) {
  Start();
  Client client = Connect();
  client.Send(Post("/slow", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  // Far more than the read-ahead and the sockets' buffers: the sender must come to a stop.
  std::thread sender([&] {
    for (int i = 0; i < 200; ++i) client.Send(Post("/echo", std::string(100'000, 'x')));
    client.Send(Post("/echo", "end"));
  });
  std::this_thread::sleep_for(milliseconds(100));  // the requests could be read meanwhile
  EXPECT_EQ(handler_.requests, 1);
  handler_.Release();
  EXPECT_NE(client.ReadTo("POST /echo end"), "");
  sender.join();
}

TEST_F(ListenerTest, ChunkedBodies) {
  Start();
  Client client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char* part :
       {"5\r\nhel", "lo\r\n", "6;ext=1\r\n world", "\r\n0\r\nTrailer: x\r\n", "\r\n"}) {
    client.Send(part);
    std::this_thread::sleep_for(milliseconds(5));  // so that parts arrive by themselves
  }
  EXPECT_NE(client.ReadTo("POST /echo hello world"), "");
  client.Send(Post("/echo", "next"));
  EXPECT_NE(client.ReadTo("next"), "");
}

TEST_F(ListenerTest, Expect100Continue) {
  Start();
  Client client = Connect();
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.ReadTo("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_NE(client.ReadTo("POST /echo abc"), "");
  // HTTP/1.0 has no 100.
  Client old = Connect();
  old.Send("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(old.ReadAll().starts_with("HTTP/1.1 200 "));
  // Refused before the body is sent for: no 100.
  client.Send(
      "POST /secret HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  const std::string refused = client.ReadAll();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401 ")) << refused;
  EXPECT_NE(refused.find("Connection: close"), std::string::npos);
}

TEST_F(ListenerTest, RefusedSmallBodyKeepsTheConnection) {
  Start();
  Client client = Connect();
  client.Send(Post("/secret", "some body"));
  EXPECT_NE(client.ReadTo("refused").find("HTTP/1.1 401 Unauthorized"), std::string::npos);
  client.Send(Post("/echo", "next"));
  EXPECT_NE(client.ReadTo("next"), "");
}

TEST_F(ListenerTest, HeadHasTheLengthAndNoBody) {
  Start();
  Client client = Connect();
  client.Send("HEAD /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answer = client.ReadAll();
  EXPECT_NE(answer.find("Content-Length: 11\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST_F(ListenerTest, Http10) {
  Start();
  Client client = Connect();
  client.Send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(client.ReadTo("GET /echo ").find("keep-alive"), std::string::npos);
  client.Send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_NE(client.ReadAll().find("Connection: close"), std::string::npos);
}

TEST_F(ListenerTest, AbsoluteTargetsEscapesAndEmptyLines) {
  Start();
  Client client = Connect();
  client.Send("\r\n\r\nGET http://h:80/a%20b?q=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.ReadAll().ends_with("GET /a b "));
}

TEST_F(ListenerTest, MalformedRequestsGet400AndAreClosed) {
  Start();
  for (const char* bad : {
           "rubbish\r\n\r\n",
           "GET  /x HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /x HTTP/3.0\r\nHost: h\r\n\r\n",
           "PRI * HTTP/2.0\r\nHost: h\r\n\r\n",  // no preface of HTTP/2
           "GET /x HTTP/1.1\r\n\r\n",            // no Host
           "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET x HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET /x HTTP/1.1\r\nHost: h\r\nBad Name: 1\r\n\r\n",
           "GET /x HTTP/1.1\r\nHost : h\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabcdef\r\n",
       }) {
    Client client = Connect();
    client.Send(bad);
    const std::string answer = client.ReadAll();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << bad << "\n->\n" << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
    EXPECT_NE(answer.find("X-Request-Id: "), std::string::npos);
  }
  Client client = Connect();
  client.Send("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nabc");
  EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 501 "));
  EXPECT_EQ(handler_.requests, 0);
}

// Bytes that a proxy that ends chunk lines at LF takes as one request must not be several.
TEST_F(ListenerTest, ABareLfInAChunkExtensionHidesNoRequest) {
  Start();
  const std::string hidden = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const std::string& body :
       {"1;a=\"\n\"\r\nx\r\n0\r\n\r\n" + hidden, "0;a=\"\n\r\n\r\n" + hidden + "\"\r\n\r\n",
        "0;a=\"\n\"\r\n\r\n" + hidden, "0;a=\"" + hidden + hidden, "0\n\r\n" + hidden,
        "1\r\nx\n0\r\n\r\n" + hidden, "0\r\nA: b\r\n c\r\n\r\n" + hidden,
        "0\r\nA: b\n\r\n" + hidden, "1\t;\x01\r\nx\r\n0\r\n\r\n" + hidden}) {
    Client client = Connect();
    client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
    const auto begin = Clock::now();
    const std::string answer = client.ReadAll();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << body << "\n->\n" << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
    EXPECT_EQ(answer.find("HTTP/1.1 ", 10), std::string::npos) << answer;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5)) << body;
  }
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(ListenerTest, FramingThatReadersDifferAboutIsRefused) {
  Start();
  const std::string chunk = "\r\n\r\n1\r\nx\r\n0\r\n\r\n";
  for (const auto& [request, status] : {
           std::pair{
               "POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked" + chunk,
               "400"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked" + chunk, "501"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked" + chunk, "501"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked" +
                chunk,
            "501"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked" + chunk, "400"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n 0" + chunk, "400"},
           {"GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n k\r\n\r\n", "400"},
           {"GET /x HTTP/1.1\r\nHost: a b@@//..\r\n\r\n", "400"},
           {"GET /x HTTP/1.1\r\nHost: h:port\r\n\r\n", "400"},
           {"GET http://u@h/x HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
       }) {
    Client client = Connect();
    client.Send(request);
    const std::string answer = client.ReadAll();
    EXPECT_TRUE(answer.starts_with(std::string("HTTP/1.1 ") + status)) << request << "\n" << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(ListenerTest, OtherRefusals) {
  Start();
  Client expect = Connect();
  expect.Send(Post("/echo", "x", "Expect: 200-ok\r\n"));
  const std::string first = expect.ReadAll();
  EXPECT_TRUE(first.starts_with("HTTP/1.1 417 ")) << first;
  Client gzip = Connect();
  gzip.Send(Post("/echo", "x", "Content-Encoding: gzip\r\n"));
  EXPECT_TRUE(gzip.ReadAll().starts_with("HTTP/1.1 415 "));
}

TEST_F(ListenerTest, LimitsOfHeaderAndBody) {
  ServerOptions options;
  options.header_bytes_max = 1000;
  options.body_bytes_max = 1000;
  Start(options);
  Client fits = Connect();
  fits.Send(Post("/echo", std::string(1000, 'b'), "X-Fill: " + std::string(800, 'h') + "\r\n"));
  EXPECT_NE(fits.ReadTo(std::string(1000, 'b')), "");
  {
    Client header = Connect();
    header.Send("GET / HTTP/1.1\r\nHost: h\r\nX-Fill: " + std::string(1000, 'h') + "\r\n\r\n");
    EXPECT_TRUE(header.ReadAll().starts_with("HTTP/1.1 431 "));
  }
  {
    Client slowly = Connect();  // the same, in pieces and without an end
    slowly.Send("GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 60; ++i) slowly.Send("X-Fill-" + std::to_string(i) + ": hhhhhhhhhh\r\n");
    EXPECT_TRUE(slowly.ReadAll().starts_with("HTTP/1.1 431 "));
  }
  {
    Client body = Connect();
    body.Send(Post("/echo", std::string(1001, 'b')));
    const std::string answer = body.ReadAll();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
    EXPECT_NE(answer.find("1000"), std::string::npos);
  }
  {
    Client huge = Connect();  // the answer arrives although the client goes on sending
    huge.Send(Post("/echo", std::string(4 << 20, 'b')));
    EXPECT_TRUE(huge.ReadAll().starts_with("HTTP/1.1 413 "));
  }
  {
    Client chunked = Connect();
    chunked.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" +
                 std::string(500, 'b') + "\r\n1f5\r\n" + std::string(501, 'b') + "\r\n0\r\n\r\n");
    EXPECT_TRUE(chunked.ReadAll().starts_with("HTTP/1.1 413 "));
  }
  {
    Client extension = Connect();
    extension.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                   std::string(100'000, 'x'));
    EXPECT_TRUE(extension.ReadAll().starts_with("HTTP/1.1 400 "));
  }
  EXPECT_EQ(handler_.requests, 1);
}

TEST_F(ListenerTest, TimeLimits) {
  ServerOptions options;
  options.idle_timeout = milliseconds(150);
  options.read_timeout = milliseconds(150);
  Start(options);
  const auto begin = Clock::now();
  Client idle = Connect();
  EXPECT_EQ(idle.ReadAll(), "");
  Client header = Connect();
  header.Send("G");
  std::thread drip([&] {  // a byte now and then does not buy time
    for (int i = 0; i < 20; ++i) {
      header.Send("G");
      std::this_thread::sleep_for(milliseconds(20));  // shorter than the timeout
    }
  });
  EXPECT_TRUE(header.ReadAll().starts_with("HTTP/1.1 408 "));
  drip.join();
  Client body = Connect();
  body.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(body.ReadAll().starts_with("HTTP/1.1 408 "));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(ListenerTest, AClientThatDoesNotReadIsDropped) {
  ServerOptions options;
  options.write_timeout = milliseconds(200);
  Start(options);
  Client client = Connect();
  client.Send(Post("/big", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
  EXPECT_EQ(handler_.last_status, 499);
}

TEST_F(ListenerTest, BigAnswersArriveWhole) {
  Start();
  Client client = Connect();
  client.Send(Post("/big", "", "Connection: close\r\n"));
  const std::string answer = client.ReadAll();
  EXPECT_TRUE(answer.ends_with(std::string(8 << 20, 'x')));
}

TEST_F(ListenerTest, LeavingCancels) {
  Start();
  Client client = Connect();
  client.Send(Post("/slow", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  EXPECT_FALSE(handler_.LastCancelled());
  client.Close();
  EXPECT_TRUE(Within2s([&] { return handler_.LastCancelled(); }));
  handler_.Release();
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(ListenerTest, LeavingCancelsBehindPipelinedRequestsToo) {
  Start();
  Client client = Connect();
  client.Send(Post("/slow", "") + Post("/echo", "x"));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  client.Close();
  EXPECT_TRUE(Within2s([&] { return handler_.LastCancelled(); }));
  handler_.Release();
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(ListenerTest, HalfClosedClientsGetWhatIsReady) {
  Start();
  Client client = Connect();
  client.Send(Post("/echo", "one;") + Post("/echo", "two;"));
  client.CloseSending();
  const std::string answer = client.ReadAll();
  EXPECT_NE(answer.find("one;"), std::string::npos);
  EXPECT_NE(answer.find("two;"), std::string::npos);
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(ListenerTest, DeadlinePassesWhileTheHandlerWorks) {
  Start();
  Client client = Connect();
  client.Send(Post("/slow", "", "X-Timeout: 1\r\n"));
  EXPECT_TRUE(client.ReadTo("answered").starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(handler_.LastCancelled());
  handler_.Release();  // too late, and must not become the next request's answer
  client.Send(Post("/echo", "next"));
  EXPECT_TRUE(client.ReadTo("POST /echo next").starts_with("HTTP/1.1 200 "));
}

TEST_F(ListenerTest, AThrowingPrinterIs500) {
  Start();
  Client client = Connect();
  client.Send(Post("/throw", ""));
  EXPECT_TRUE(client.ReadTo("written").starts_with("HTTP/1.1 500 "));
}

TEST_F(ListenerTest, ConnectionsOverTheLimitAreTurnedAway) {
  ServerOptions options;
  options.connections_max = 2;
  Start(options);
  Client first = Connect(), second = Connect();
  ASSERT_TRUE(Within2s([&] { return handler_.connections == 2; }));
  Client third = Connect();
  EXPECT_TRUE(third.ReadAll().starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(handler_.refused, 1);
  first.Close();
  ASSERT_TRUE(Within2s([&] { return handler_.connections == 1; }));
  Client fourth = Connect();
  fourth.Send(Post("/echo", "x"));
  EXPECT_NE(fourth.ReadTo("POST /echo x"), "");
}

// Without a descriptor to accept it with, a client is still told.
TEST_F(ListenerTest, OutOfDescriptorsIsA503) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's check of types opens a pipe, for which nothing is left";
#endif
  Start();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<int> held;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>());
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  // An accept of the io thread reserves a descriptor for a moment, so one refusal is not enough.
  ASSERT_TRUE(Within2s([&] {
    for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) held.push_back(fd);
    for (int fd = 0; fd < 64; ++fd) {
      if (fcntl(fd, F_GETFD) < 0) return false;
    }
    return true;
  }));
  const auto begin = Clock::now();
  for (const auto& client : clients) {
    client->ConnectTo(listener_->port());
    EXPECT_TRUE(client->ReadAll().starts_with("HTTP/1.1 503 "));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(handler_.refused, 4);
  for (const int fd : held) close(fd);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  Client after = Connect();
  after.Send(Post("/echo", "x"));
  EXPECT_NE(after.ReadTo("POST /echo x"), "");
}

TEST_F(ListenerTest, ShutdownFinishesWhatIsInFlight) {
  Start();
  Client idle = Connect(), busy = Connect();
  busy.Send(Post("/slow", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1 && handler_.connections == 2; }));
  std::thread stop([&] { listener_->Shutdown(milliseconds(5000)); });
  EXPECT_EQ(idle.ReadAll(), "");
  handler_.Release();
  const std::string answer = busy.ReadAll();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  stop.join();
  EXPECT_EQ(handler_.connections, 0);
}

TEST_F(ListenerTest, ShutdownIsBounded) {
  Start();
  Client busy = Connect();
  busy.Send(Post("/slow", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  const auto begin = Clock::now();
  listener_->Shutdown(milliseconds(100));
  EXPECT_LT(Clock::now() - begin, milliseconds(2000));
  EXPECT_TRUE(handler_.LastCancelled());
  EXPECT_EQ(handler_.connections, 0);
  EXPECT_TRUE(busy.ReadAll().starts_with("HTTP/1.1 503 "));
  handler_.Release();  // no client is left
  listener_.reset();
}

TEST_F(ListenerTest, ManyConnectionsAtOnce) {
  Start();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Client client = Connect();
        const std::string body = std::to_string(t * 100 + i) + ";";
        for (int k = 0; k < 5; ++k) {
          client.Send(Post("/echo", body));
          if (!client.ReadTo("POST /echo " + body).empty()) ++right;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

TEST(Listener, BadOptionsAreNamed) {
  Handler handler;
  const auto field_of = [&](auto change) {
    ServerOptions options;
    options.port = 0;
    change(&options);
    const auto started = Listener::Start(&handler, options);
    return started.ok() ? "started" : started.status().field();
  };
  EXPECT_EQ(field_of([](ServerOptions* o) { o->io_threads = 0; }), "io_threads");
  EXPECT_EQ(field_of([](ServerOptions* o) { o->body_bytes_max = 0; }), "body_bytes_max");
  EXPECT_EQ(field_of([](ServerOptions* o) { o->idle_timeout = milliseconds(0); }), "idle_timeout");
  EXPECT_EQ(field_of([](ServerOptions* o) { o->tls_cert_file = "x"; }), "tls_key_file");
  EXPECT_EQ(field_of([](ServerOptions* o) { o->tls_cert_file = o->tls_key_file = "/none"; }),
            "tls_cert_file");
  EXPECT_EQ(field_of([](ServerOptions* o) { o->host = "no.such.host.invalid"; }), "host");
}

TEST(Listener, ATakenPortIsUnavailable) {
  Handler handler;
  ServerOptions options;
  options.port = 0;
  const auto first = Listener::Start(&handler, options);
  ASSERT_TRUE(first.ok());
  options.port = (*first)->port();
  EXPECT_EQ(Listener::Start(&handler, options).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace penstock::http
