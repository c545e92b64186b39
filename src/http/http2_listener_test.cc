// HTTP/2 through the listener: requests on the port of HTTP, and a listener for HTTP/2 alone.
#include <map>

#include "http/listener_test_util.h"
#include "http/open_count.h"
#include "http2/http2_test_util.h"

namespace penstock::http {
namespace {

// A client that speaks HTTP/2 from its first byte.
class Http2Client {
 public:
  explicit Http2Client(uint16_t port, std::string_view settings = "") : client_(port) {
    client_.Send(http2::Hello(settings));
  }
  void Send(std::string_view bytes) { client_.Send(bytes); }
  void Request(uint32_t id, std::string_view method, std::string_view path,
               const http2::HeaderList& more = {}) {
    Send(http2::RequestFrame(id, method, path, true, more));
  }
  void Post(uint32_t id, std::string_view path, std::string_view body,
            const http2::HeaderList& more = {}) {
    Send(http2::RequestFrame(id, "POST", path, false, more) +
         http2::Frame(http2::kData, http2::kEndStream, id, body));
  }
  // Reads until a stream has ended or was reset, or the connection was closed.
  void Await(uint32_t id) {
    while (!ended_[id] && Fill()) {
    }
  }
  // Reads until there is such a frame. False: the connection was closed.
  bool AwaitFrame(uint8_t type, uint32_t id) {
    do {
      for (const http2::SeenFrame& frame : frames_) {
        if (frame.type == type && frame.stream == id) return true;
      }
    } while (Fill());
    return false;
  }
  void AwaitClose() {
    while (Fill()) {
    }
  }
  std::string Status(uint32_t id) {
    Await(id);
    return Field(id, ":status");
  }
  std::string Field(uint32_t id, std::string_view name) const {
    for (const http2::SeenFrame& frame : frames_) {
      if (frame.type != http2::kHeaders || frame.stream != id) continue;
      for (const auto& [key, value] : frame.headers) {
        if (key == name) return value;
      }
    }
    return "";
  }
  // Bytes by which the server has opened the window of a stream.
  size_t Opened(uint32_t id) const {
    size_t bytes = 0;
    for (const http2::SeenFrame& frame : frames_) {
      if (frame.type == http2::kWindowUpdate && frame.stream == id) bytes += frame.number();
    }
    return bytes;
  }
  const std::string& Body(uint32_t id) { return bodies_[id]; }
  // The code of RST_STREAM, or of GOAWAY for id 0; -1: none came.
  int64_t Error(uint32_t id) const {
    for (const http2::SeenFrame& frame : frames_) {
      const uint8_t wanted = id == 0 ? http2::kGoAway : http2::kRstStream;
      if (frame.type == wanted && frame.stream == id) return frame.error();
    }
    return -1;
  }

  // False: the connection was closed.
  bool Fill() {
    const std::string bytes = client_.ReadSome();
    for (http2::SeenFrame& frame : reader_.Read(bytes)) {
      if (frame.type == http2::kData) bodies_[frame.stream] += frame.payload;
      if (frame.ended() || frame.type == http2::kRstStream) ended_[frame.stream] = true;
      frames_.push_back(std::move(frame));
    }
    return !bytes.empty();
  }

 private:
  Client client_;
  http2::FrameReader reader_;
  std::vector<http2::SeenFrame> frames_;
  std::map<uint32_t, std::string> bodies_;
  std::map<uint32_t, bool> ended_;
};

class Http2ListenerTest : public ListenerTest {
 protected:
  Http2Client Connect2(std::string_view settings = "") {
    return Http2Client(listener_->port(), settings);
  }
};

TEST_F(Http2ListenerTest, RequestsByPriorKnowledge) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/get?x=1", {{"x-request-id", "mine"}});
  EXPECT_EQ(client.Status(1), "200");
  EXPECT_EQ(client.Body(1), "GET /get ");
  EXPECT_EQ(client.Field(1, "x-request-id"), "mine");
  EXPECT_EQ(client.Field(1, "content-length"), "9");
  EXPECT_EQ(client.Field(1, "server"), "penstock");
  EXPECT_NE(client.Field(1, "date"), "");
  EXPECT_EQ(client.Field(1, "connection"), "");
  client.Post(3, "/echo", "hello");
  EXPECT_EQ(client.Status(3), "200");
  EXPECT_EQ(client.Body(3), "POST /echo hello");
  client.Request(5, "HEAD", "/get");
  EXPECT_EQ(client.Status(5), "200");
  EXPECT_EQ(client.Body(5), "");
  EXPECT_EQ(client.Field(5, "content-length"), "10");
  EXPECT_EQ(handler_.connections, 1);
  EXPECT_TRUE(Within2s([&] { return handler_.last_status == 200; }));
}

TEST_F(Http2ListenerTest, ThePrefaceInPiecesAndHttp11) {
  Start();
  Client pieces = Connect();
  const std::string all = http2::Hello() + http2::RequestFrame(1, "GET", "/get", true);
  for (const char c : all.substr(0, 40)) pieces.Send(std::string(1, c));
  pieces.Send(all.substr(40));
  EXPECT_NE(pieces.ReadTo("GET /get "), "");
  Client old = Connect();
  old.Send("PRI * HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(old.ReadTo("PRI *"), "");
  Client post = Connect();
  post.Send("P");
  post.Send(Post("/echo", "x").substr(1));
  EXPECT_NE(post.ReadTo("POST /echo x"), "");
}

TEST_F(Http2ListenerTest, APartOfThePrefaceHasItsTime) {
  ServerOptions options;
  options.read_timeout = milliseconds(100);
  Start(options);
  Client slow = Connect();
  slow.Send("PRI * HTTP");
  ASSERT_TRUE(Within2s([&] { return handler_.connections == 1; }));
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(Http2ListenerTest, EachPartOfThePrefaceHasNoTimeOfItsOwn) {
  ServerOptions options;
  options.read_timeout = milliseconds(300);
  Start(options);
  Client slow = Connect();
  ASSERT_TRUE(Within2s([&] { return handler_.connections == 1; }));
  for (const char c : http2::kHttp2Preface.substr(0, 23)) {
    slow.Send(std::string(1, c));
    std::this_thread::sleep_for(milliseconds(100));  // shorter than the timeout
    if (handler_.connections == 0) break;
  }
  EXPECT_EQ(handler_.connections, 0);
}

TEST_F(Http2ListenerTest, APartOfThePrefaceHoldsUpNoShutdown) {
  Start();
  Client part = Connect();
  part.Send("PRI * HTTP");
  ASSERT_TRUE(Within2s([&] { return handler_.connections == 1; }));
  std::this_thread::sleep_for(milliseconds(50));  // for the bytes to be read
  const auto begin = std::chrono::steady_clock::now();
  listener_->Shutdown(milliseconds(20'000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(15'000));
}

TEST_F(Http2ListenerTest, AHundredRequestsAtOnce) {
  Start();
  Http2Client client = Connect2();
  std::string all;
  for (uint32_t i = 0; i < 100; ++i) {
    const uint32_t id = 2 * i + 1;
    all += http2::RequestFrame(id, "POST", "/echo", false) +
           http2::Frame(http2::kData, http2::kEndStream, id, std::to_string(i));
  }
  client.Send(all);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(client.Status(2 * i + 1), "200");
    EXPECT_EQ(client.Body(2 * i + 1), "POST /echo " + std::to_string(i));
  }
}

TEST_F(Http2ListenerTest, AResetStreamCancelsItsRequestAlone) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/slow");
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  EXPECT_FALSE(handler_.LastCancelled());
  client.Send(http2::Frame(http2::kRstStream, 0, 1, http2::BigEndian(8, 4)));
  EXPECT_TRUE(Within2s([&] { return handler_.LastCancelled(); }));
  EXPECT_TRUE(Within2s([&] { return handler_.last_status == 499; }));
  handler_.Release();  // late, and lost
  client.Request(3, "GET", "/get");
  EXPECT_EQ(client.Status(3), "200");
}

TEST_F(Http2ListenerTest, ALostConnectionCancelsAll) {
  Start();
  {
    Http2Client client = Connect2();
    client.Request(1, "GET", "/slow");
    ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  }
  EXPECT_TRUE(Within2s([&] { return handler_.LastCancelled(); }));
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(Http2ListenerTest, Refusals) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  options.header_bytes_max = 2000;
  Start(options);
  Http2Client client = Connect2();
  const auto refused = [&](uint32_t id, const std::string& status, const std::string& text) {
    EXPECT_EQ(client.Status(id), status);
    EXPECT_NE(client.Body(id).find(text), std::string::npos) << client.Body(id);
  };
  client.Post(1, "/echo", std::string(1001, 'x'));
  refused(1, "413", "longer than 1000 bytes");
  client.Post(3, "/echo", std::string(1001, 'x'), {{"content-length", "1001"}});
  refused(3, "413", "at most 1000");
  client.Request(5, "GET", "/get", {{"x", std::string(3000, 'x')}});
  refused(5, "431", "larger than 2000 bytes");
  client.Request(7, "GET", "/get", {{"host", "other"}});
  refused(7, "400", ":authority and host differ");
  client.Request(9, "GET", "/%zz");
  refused(9, "400", "bad request target");
  client.Post(11, "/echo", "x", {{"content-encoding", "gzip"}});
  refused(11, "415", "identity");
  client.Post(13, "/echo", "x", {{"expect", "magic"}});
  refused(13, "417", "Expect");
  client.Post(15, "/secret", "x", {{"content-length", "1"}});
  refused(15, "401", "refused");
  client.Send(http2::Frame(http2::kHeaders, http2::kEndHeaders | http2::kEndStream, 17,
                           http2::HpackField(":method", "GET") +
                               http2::HpackField(":scheme", "http") +
                               http2::HpackField(":path", "/get")));
  client.Await(17);  // a request without a host is malformed
  EXPECT_EQ(client.Error(17), 1);
  client.Request(19, "GET", "/get");
  EXPECT_EQ(client.Status(19), "200");
  EXPECT_EQ(handler_.requests, 1);
}

// The rest of its body is not waited for.
TEST_F(Http2ListenerTest, ARefusalBeforeALargeBody) {
  Start();
  Http2Client client = Connect2();
  client.Send(http2::RequestFrame(1, "POST", "/secret", false, {{"content-length", "1000000"}}));
  EXPECT_EQ(client.Status(1), "401");
  EXPECT_TRUE(client.AwaitFrame(http2::kRstStream, 1));
  EXPECT_EQ(client.Error(1), 0);
}

TEST_F(Http2ListenerTest, Continue) {
  Start();
  Http2Client client = Connect2();
  client.Send(http2::RequestFrame(1, "POST", "/echo", false, {{"expect", "100-continue"}}));
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 1));
  EXPECT_EQ(client.Field(1, ":status"), "100");
  client.Send(http2::Frame(http2::kData, http2::kEndStream, 1, "x"));
  client.Await(1);
  EXPECT_EQ(client.Body(1), "POST /echo x");
}

TEST_F(Http2ListenerTest, ABodyOverTheWindowAndALargeAnswer) {
  Start();
  Http2Client client = Connect2(http2::BigEndian(4, 2) + http2::BigEndian(16 << 20, 4));
  client.Send(http2::Frame(http2::kWindowUpdate, 0, 0, http2::BigEndian(16 << 20, 4)));
  client.Send(http2::RequestFrame(1, "POST", "/echo", false));
  std::string body;
  for (int i = 0; i < 40; ++i) {
    const std::string part(10'000, static_cast<char>('a' + i % 26));
    body += part;
    while (body.size() > 65'535 + client.Opened(1)) ASSERT_TRUE(client.Fill());
    client.Send(http2::Frame(http2::kData, i == 39 ? http2::kEndStream : 0, 1, part));
  }
  EXPECT_EQ(client.Status(1), "200");
  EXPECT_EQ(client.Body(1), "POST /echo " + body);
  client.Request(3, "GET", "/big");
  EXPECT_EQ(client.Status(3), "200");
  EXPECT_EQ(client.Body(3).size(), size_t{8} << 20);
}

// A client that takes nothing could have an answer wait on each of its streams.
TEST_F(Http2ListenerTest, AnswersThatWaitAreCounted) {
  handler_.budget = std::make_shared<ByteBudget>(20 << 20);
  Start();
  Http2Client client = Connect2(http2::BigEndian(4, 2) + http2::BigEndian(0, 4));  // no window
  for (const uint32_t id : {1, 3}) {
    client.Request(id, "GET", "/big");
    ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, id));
    EXPECT_EQ(client.Field(id, ":status"), "200");
  }
  EXPECT_EQ(handler_.budget->used(), 16 << 20);
  client.Request(5, "GET", "/big");
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 5));
  EXPECT_EQ(client.Field(5, ":status"), "429");
  client.Request(7, "GET", "/get");  // small ones are not counted
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 7));
  EXPECT_EQ(client.Field(7, ":status"), "200");
  EXPECT_EQ(handler_.budget->used(), 16 << 20);
  client.Send(http2::Frame(http2::kRstStream, 0, 1, http2::BigEndian(8, 4)));
  EXPECT_TRUE(Within2s([&] { return handler_.budget->used() == 8 << 20; }));
}

TEST_F(Http2ListenerTest, ABodyThatDoesNotCome) {
  ServerOptions options;
  options.read_timeout = milliseconds(100);
  Start(options);
  Http2Client client = Connect2();
  client.Send(http2::RequestFrame(1, "POST", "/echo", false) +
              http2::Frame(http2::kData, 0, 1, "x"));
  EXPECT_EQ(client.Status(1), "408");
  client.Request(3, "GET", "/get");
  EXPECT_EQ(client.Status(3), "200");
}

TEST_F(Http2ListenerTest, Deadlines) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/slow", {{"x-timeout", "1"}});
  EXPECT_EQ(client.Status(1), "503");
  EXPECT_TRUE(handler_.LastCancelled());
}

TEST_F(Http2ListenerTest, ALostAnswerAndAFailedPrint) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/throw");
  EXPECT_EQ(client.Status(1), "500");
  client.Request(3, "GET", "/late");
  EXPECT_EQ(client.Status(3), "200");
  EXPECT_EQ(client.Body(3), "late");
}

TEST_F(Http2ListenerTest, AStreamedAnswer) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "POST", "/stream");
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 1));
  EXPECT_EQ(client.Field(1, "content-length"), "");
  EXPECT_EQ(handler_.streams, 1);
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> memory = kept;
  handler_.stream->Write("one ", 1, std::move(kept));
  ASSERT_TRUE(client.AwaitFrame(http2::kData, 1));
  EXPECT_EQ(client.Body(1), "one ");
  EXPECT_TRUE(Within2s([&] { return memory.expired(); }));
  handler_.stream->Write("two ", 1);
  handler_.stream->End("end");
  client.Await(1);
  EXPECT_EQ(client.Body(1), "one two end");
  EXPECT_TRUE(Within2s([&] { return handler_.last_status == 200; }));  // told last
  EXPECT_EQ(handler_.last_items, 2);
  EXPECT_EQ(handler_.streams, 0);
}

TEST_F(Http2ListenerTest, AStreamWhoseClientLeavesOrIsAborted) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "POST", "/stream");
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 1));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  client.Send(http2::Frame(http2::kRstStream, 0, 1, http2::BigEndian(8, 4)));
  EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
  EXPECT_TRUE(Within2s([&] { return handler_.streams == 0 && handler_.ready > 0; }));
  client.Request(3, "POST", "/stream");
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 3));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 2; }));
  handler_.stream = nullptr;  // without its end
  EXPECT_TRUE(client.AwaitFrame(http2::kRstStream, 3));
  EXPECT_EQ(client.Error(3), 2);
}

// When a client stops reading, the producer sees it, and is told once there is room.
TEST_F(Http2ListenerTest, BackPressureOfAStream) {
  ServerOptions options;
  options.write_timeout = milliseconds(300);
  Start(options);
  Http2Client client = Connect2(http2::BigEndian(4, 2) + http2::BigEndian(1000, 4));
  client.Request(1, "POST", "/stream");
  ASSERT_TRUE(client.AwaitFrame(http2::kHeaders, 1));
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  EXPECT_TRUE(handler_.stream->Write(std::string(3000, 'x')));
  EXPECT_TRUE(handler_.stream->CallWhenBelow(1));
  EXPECT_EQ(handler_.ready, 0);
  client.Send(http2::Frame(http2::kWindowUpdate, 0, 1, http2::BigEndian(2000, 4)));
  EXPECT_TRUE(Within2s([&] { return handler_.ready == 1; }));
  EXPECT_EQ(handler_.stream->unread(), 0u);
  handler_.stream->Write(std::string(3000, 'x'));
  EXPECT_TRUE(Within2s([&] { return handler_.stream->gone(); }));
  EXPECT_EQ(handler_.dropped, 1);
  client.Request(3, "GET", "/get");  // the others stay
  EXPECT_EQ(client.Status(3), "200");
}

TEST_F(Http2ListenerTest, ShutdownFinishesRequests) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/slow");
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  std::thread stop([&] { listener_->Shutdown(milliseconds(10'000)); });
  EXPECT_TRUE(client.AwaitFrame(http2::kGoAway, 0));
  handler_.Release();
  EXPECT_EQ(client.Status(1), "200");
  client.AwaitClose();
  stop.join();
  EXPECT_EQ(client.Error(0), 0);
  EXPECT_EQ(handler_.connections, 0);
}

TEST_F(Http2ListenerTest, ShutdownInterruptsWhatIsLeft) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/slow");
  ASSERT_TRUE(Within2s([&] { return handler_.requests == 1; }));
  std::thread stop([&] { listener_->Shutdown(milliseconds(50)); });
  EXPECT_EQ(client.Status(1), "503");
  stop.join();
  EXPECT_TRUE(handler_.LastCancelled());
}

TEST_F(Http2ListenerTest, AnnouncedShutdownEndsConnections) {
  Start();
  Http2Client client = Connect2();
  client.Request(1, "GET", "/get");
  EXPECT_EQ(client.Status(1), "200");
  listener_->EndKeepAlive();
  client.Request(3, "GET", "/get");
  EXPECT_EQ(client.Status(3), "200");
  EXPECT_TRUE(client.AwaitFrame(http2::kGoAway, 0));
}

TEST_F(Http2ListenerTest, AnIdleConnectionEnds) {
  ServerOptions options;
  options.idle_timeout = milliseconds(50);
  Start(options);
  Http2Client client = Connect2();
  client.AwaitClose();
  EXPECT_EQ(client.Error(0), 0);
  EXPECT_TRUE(Within2s([&] { return handler_.connections == 0; }));
}

TEST_F(Http2ListenerTest, AFloodEndsItsConnectionAlone) {
  Start();
  Http2Client client = Connect2(), other = Connect2();
  std::string flood;
  for (uint32_t id = 1; id < 4000; id += 2) {
    flood += http2::RequestFrame(id, "GET", "/get", true) +
             http2::Frame(http2::kRstStream, 0, id, http2::BigEndian(8, 4));
  }
  client.Send(flood);
  client.AwaitClose();
  EXPECT_EQ(client.Error(0), static_cast<int64_t>(http2::Http2Error::kEnhanceYourCalm));
  EXPECT_LE(handler_.requests, 110);
  other.Request(1, "GET", "/get");
  EXPECT_EQ(other.Status(1), "200");
}

// ---- A listener for HTTP/2 alone

// Answers with the method, the path and the body.
class EchoStreams : public http2::Http2Handler {
 public:
  class Echo final : public http2::Http2Receiver {
   public:
    Echo(std::string begin, std::shared_ptr<http2::Http2Answer> answer)
        : text_(std::move(begin)), answer_(std::move(answer)) {}
    void OnData(std::string_view bytes) override {
      text_ += bytes;
      answer_->Consume(bytes.size());
    }
    void OnEnd() override {
      answer_->SendHeaders({{":status", "200"}}, false);
      answer_->SendData(text_, nullptr, false);
      answer_->SendTrailers({{"t", "1"}});
    }
    void OnGone(http2::Http2Gone) override { answer_ = nullptr; }

   private:
    std::string text_;
    std::shared_ptr<http2::Http2Answer> answer_;
  };

  std::shared_ptr<http2::Http2Receiver> OnStream(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    auto echo =
        std::make_shared<Echo>(request.method + " " + request.path + " ", std::move(answer));
    if (request.ended) echo->OnEnd();
    return echo;
  }
  void OnConnections(int change) override { connections += change; }
  void OnConnectionRefused() override { ++refused; }
  void OnBytes(size_t in, size_t out) override {
    received += in;
    sent += out;
  }
  std::atomic<int> connections{0}, refused{0};
  std::atomic<size_t> received{0}, sent{0};
};

class Http2OnlyTest : public Http2ListenerTest {
 protected:
  void StartBoth(ServerOptions options = {}) {
    Start(options);
    options.port = 0;
    auto started =
        Listener::StartHttp2(&streams_, options, {.all_connections = listener_->all_connections()});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    http2_ = *std::move(started);
  }
  EchoStreams streams_;
  std::unique_ptr<Listener> http2_;
};

TEST_F(Http2OnlyTest, Streams) {
  StartBoth();
  Http2Client client(http2_->port());
  client.Post(1, "/a/b", "hello");
  EXPECT_EQ(client.Status(1), "200");
  EXPECT_EQ(client.Body(1), "POST /a/b hello");
  EXPECT_EQ(client.Field(1, "t"), "1");
  EXPECT_EQ(streams_.connections, 1);
  EXPECT_GT(streams_.received, 50u);
  EXPECT_TRUE(Within2s([&] { return streams_.sent > 50; }));  // told after the client has them
  Client old(http2_->port());
  old.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(old.ReadAll().find("HTTP/1.1"), std::string::npos);
  EXPECT_TRUE(Within2s([&] { return streams_.connections == 1; }));
  http2_->Shutdown(milliseconds(1000));
  EXPECT_EQ(streams_.connections, 0);
}

TEST_F(Http2OnlyTest, BothListenersShareTheirLimit) {
  ServerOptions options;
  options.connections_max = 8;
  StartBoth(options);
  std::vector<std::unique_ptr<Http2Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Http2Client>(http2_->port()));
    clients.back()->Request(1, "GET", "/");
    EXPECT_EQ(clients.back()->Status(1), "200");
  }
  Http2Client over(http2_->port());  // the quarter that is left is for the other listener
  over.AwaitClose();
  EXPECT_TRUE(Within2s([&] { return streams_.refused == 1; }));
  Client first = Connect(), second = Connect(), third = Connect();
  first.Send("GET /get HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(first.ReadTo("GET /get"), "");
  second.Send("GET /get HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(second.ReadTo("GET /get"), "");
  EXPECT_NE(third.ReadTo(" 503 "), "");
  clients.clear();
  EXPECT_TRUE(Within2s([&] { return streams_.connections == 0; }));
  Http2Client again(http2_->port());
  again.Request(1, "GET", "/");
  EXPECT_EQ(again.Status(1), "200");
}

TEST_F(Http2OnlyTest, OptionsAreChecked) {
  const auto started =
      Listener::StartHttp2(&streams_, ServerOptions{.port = 0}, {.streams_max = 0});
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().field(), "streams_max");
}

}  // namespace
}  // namespace penstock::http
