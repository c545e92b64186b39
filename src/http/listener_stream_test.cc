// Streams through real sockets; no models involved.
#include <thread>

#include "http/listener_test_util.h"

namespace penstock::http {
namespace {

TEST_F(ListenerTest, StreamsInChunksAndKeepsTheConnection) {
  Start();
  Client client = Connect();
  for (int round = 1; round <= 2; ++round) {
    client.Send(Post("/stream", ""));
    ASSERT_TRUE(Within2s([&] { return handler_.requests == 2 * round - 1; }));
    const std::string head = client.ReadTo("\r\n\r\n");  // sent at once
    EXPECT_NE(head.find("Transfer-Encoding: chunked\r\nConnection: keep-alive"), std::string::npos);
    EXPECT_EQ(head.find("Content-Length"), std::string::npos);
    EXPECT_EQ(handler_.streams, 1);
    handler_.stream->Write("first", 1);
    EXPECT_EQ(client.ReadTo("first\r\n"), "5\r\nfirst\r\n");
    client.Send(Post("/echo", "next"));  // waits its turn
    handler_.stream->Write("second", 2);
    handler_.stream->End("", 503);
    EXPECT_EQ(client.ReadTo("0\r\n\r\n"), "6\r\nsecond\r\n0\r\n\r\n");
    EXPECT_TRUE(client.ReadTo("POST /echo next").starts_with("HTTP/1.1 200 "));
    EXPECT_EQ(handler_.streams, 0);
  }
  EXPECT_EQ(handler_.connections, 1);
}

TEST_F(ListenerTest, AStreamReportsItsStatusAndItems) {
  Start();
  Client client = Connect();
  client.Send(Post("/stream", "", "Connection: close\r\n"));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  handler_.stream->Write("a", 3);
  handler_.stream->Write("b", 4);
  handler_.stream->End("", 503);
  EXPECT_TRUE(client.ReadAll().ends_with("0\r\n\r\n"));
  EXPECT_TRUE(Within2s([&] { return handler_.last_status == 503; }));
  EXPECT_EQ(handler_.last_items, 7);
  EXPECT_EQ(handler_.ready, 0);
}

TEST_F(ListenerTest, AnOldClientGetsAStreamUntilTheEndOfTheConnection) {
  Start();
  Client client = Connect();
  client.Send("POST /stream HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  handler_.stream->Write("first");
  handler_.stream->End(" last");
  const std::string answer = client.ReadAll();
  EXPECT_TRUE(answer.ends_with("Connection: close\r\n\r\nfirst last")) << answer;
}

TEST_F(ListenerTest, AClientThatDoesNotReadAStreamIsDropped) {
  ServerOptions options;
  options.write_timeout = milliseconds(200);
  Start(options);
  Client client = Connect();
  client.Send(Post("/stream", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  handler_.stream->Write(std::string(16 << 20, 'x'));  // more than the kernel takes
  EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
  EXPECT_EQ(handler_.last_status, 499);
  EXPECT_EQ(handler_.dropped, 1);
  EXPECT_EQ(handler_.streams, 0);
  EXPECT_EQ(handler_.ready, 1);
  EXPECT_TRUE(handler_.LastCancelled());
}

TEST_F(ListenerTest, AProducerThatGoesOverTheBoundLosesItsClient) {
  ServerOptions options;
  options.stream_unread_bytes_max = 4096;
  Start(options);
  Client client = Connect();
  client.Send(Post("/stream", ""));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  handler_.stream->Write(std::string(16 << 20, 'x'));
  EXPECT_FALSE(handler_.stream->Write("y"));
  EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
  EXPECT_EQ(handler_.dropped, 1);
}

TEST_F(ListenerTest, LeavingAStreamIsSeen) {
  Start();
  for (const bool reset : {false, true}) {
    Client client = Connect();
    BeginStream(&client);
    if (reset) {
      client.Close();
    } else {
      client.CloseSending();
    }
    EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
    EXPECT_TRUE(handler_.LastCancelled());
    EXPECT_EQ(handler_.dropped, 0);
    EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
    EXPECT_EQ(handler_.last_status, 499);
  }
}

TEST_F(ListenerTest, ALostStreamEndsTheConnectionWithoutAnEnd) {
  Start();
  Client client = Connect();
  BeginStream(&client);
  handler_.stream->Write("part");
  client.ReadTo("part\r\n");
  handler_.stream.reset();
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(ListenerTest, AStreamHasAMomentAfterItsDeadline) {
  Start();
  Client client = Connect();
  const auto begin = Clock::now();
  BeginStream(&client, "X-Timeout: 1\r\n");
  EXPECT_TRUE(Within2s([&] { return handler_.ready == 1; }));
  EXPECT_FALSE(handler_.stream->gone());
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_GT(Clock::now() - begin, milliseconds(1000));
  EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
}

TEST_F(ListenerTest, ShutdownWaitsForAStreamAndCutsItOff) {
  Start();
  Client client = Connect();
  BeginStream(&client);
  std::thread producer([&] {
    std::this_thread::sleep_for(milliseconds(100));  // the shutdown waits meanwhile
    handler_.stream->End("end");
  });
  listener_->Shutdown(std::chrono::seconds(10));
  producer.join();
  EXPECT_TRUE(client.ReadAll().ends_with("3\r\nend\r\n0\r\n\r\n"));
  Start();
  Client second = Connect();
  BeginStream(&second);
  listener_->Shutdown(milliseconds(50));
  EXPECT_TRUE(handler_.stream->gone());
  EXPECT_FALSE(handler_.stream->Write("x"));
}

TEST_F(ListenerTest, HeadOfAStreamHasItsHeaders) {
  Start();
  Client client = Connect();
  client.Send("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string head = client.ReadTo("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << head;
  EXPECT_EQ(head.find("Content-Length"), std::string::npos) << head;
  client.Send(Post("/echo", "x", "Connection: close\r\n"));
  EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 200 "));
}

TEST_F(ListenerTest, ShutdownLetsStreamsEndWithAnError) {
  Start();
  Client client = Connect();
  BeginStream(&client);
  client.Send(Post("/slow", ""));  // pipelined; the handler never answers it
  ASSERT_TRUE(handler_.stream->Write("begun", 1));
  std::thread producer([&] {
    EXPECT_TRUE(Within2s([&] { return handler_.ready == 1; }));
    EXPECT_TRUE(handler_.LastCancelled());
    handler_.stream->End("error", 503);
  });
  listener_->Shutdown(milliseconds(50));
  producer.join();
  EXPECT_TRUE(client.ReadAll().ends_with("5\r\nbegun\r\n5\r\nerror\r\n0\r\n\r\n"));
  EXPECT_EQ(handler_.last_status, 503);
  EXPECT_EQ(handler_.last_items, 1);
  EXPECT_EQ(handler_.requests, 1);
}

}  // namespace
}  // namespace penstock::http
