#include "http/stream.h"

#include <gtest/gtest.h>

#include <thread>

#include "http/message.h"
#include "http/stream_formats.h"

namespace penstock::http {
namespace {

struct FakeWake : StreamWake {
  void Wake() noexcept override { ++woken; }
  std::atomic<int> woken{0};
};

struct Ends {
  explicit Ends(size_t unread_max = 1000, bool chunked = true)
      : buffer(std::make_shared<StreamBuffer>(HttpResponse{.status = 200}, chunked, unread_max,
                                              [this] { ++ready; })),
        wake(std::make_shared<FakeWake>()),
        stream(std::make_unique<Stream>(buffer, wake)) {}
  int ready = 0;
  std::shared_ptr<StreamBuffer> buffer;
  std::shared_ptr<FakeWake> wake;
  std::unique_ptr<Stream> stream;
};

TEST(Stream, FramesChunksAndJoinsSmallOnes) {
  Ends ends;
  EXPECT_TRUE(ends.stream->Write("ab", 1));
  EXPECT_TRUE(ends.stream->Write("0123456789abcdef", 2));
  EXPECT_TRUE(ends.stream->Write("", 0));
  EXPECT_EQ(ends.wake->woken, 3);
  auto batch = ends.buffer->Take();
  EXPECT_EQ(batch.text, "2\r\nab\r\n10\r\n0123456789abcdef\r\n");
  EXPECT_EQ(batch.items, 3);
  EXPECT_EQ(batch.body_bytes, 18u);
  EXPECT_FALSE(batch.last);
  EXPECT_EQ(ends.stream->unread(), batch.bytes);
  ends.buffer->Sent(batch);
  EXPECT_EQ(ends.stream->unread(), 0u);
  EXPECT_EQ(ends.buffer->Take().text, "");
  ends.stream->End("z", 503);
  batch = ends.buffer->Take();
  EXPECT_EQ(batch.text, "1\r\nz\r\n0\r\n\r\n");
  EXPECT_TRUE(batch.last);
  EXPECT_EQ(ends.buffer->end_status(), 503);
  ends.stream.reset();
  EXPECT_FALSE(ends.buffer->aborted());
}

TEST(Stream, TextOfASilentStreamIsFramedAndNotUnread) {
  Ends ends;
  const auto batch = ends.buffer->Idle(": ping\n\n");
  EXPECT_EQ(batch.text, "8\r\n: ping\n\n\r\n");
  EXPECT_EQ(batch.body_bytes, 8u);
  EXPECT_FALSE(batch.last);
  ends.buffer->Sent(batch);
  EXPECT_EQ(ends.stream->unread(), 0u);
  EXPECT_EQ(Ends(1000, false).buffer->Idle("x").text, "x");
}

TEST(Stream, AnOldClientGetsTheBodyAsItIs) {
  Ends ends(1000, false);
  ends.stream->Write("ab");
  ends.stream->End("c");
  const auto batch = ends.buffer->Take();
  EXPECT_EQ(batch.text, "abc");
  EXPECT_TRUE(batch.last);
}

TEST(Stream, TellsOnceWhenThereIsRoom) {
  Ends ends;
  EXPECT_FALSE(ends.stream->CallWhenBelow(1));
  ends.stream->Write(std::string(100, 'x'));
  EXPECT_FALSE(ends.stream->CallWhenBelow(500));
  EXPECT_TRUE(ends.stream->CallWhenBelow(50));
  EXPECT_EQ(ends.ready, 0);
  ends.buffer->Sent(ends.buffer->Take());
  EXPECT_EQ(ends.ready, 1);
  ends.stream->Write("x");
  ends.buffer->Sent(ends.buffer->Take());
  EXPECT_EQ(ends.ready, 1);
}

TEST(Stream, OverTheBoundTheClientIsLost) {
  Ends ends(100);
  EXPECT_TRUE(ends.stream->Write(std::string(500, 'x')));  // alone it may be larger
  EXPECT_FALSE(ends.buffer->overrun());
  EXPECT_FALSE(ends.stream->Write("y"));
  EXPECT_TRUE(ends.buffer->overrun());
}

TEST(Stream, TheEndHasRoomAlways) {
  Ends ends(100);
  ends.stream->Write(std::string(500, 'x'));
  ends.stream->End("last");
  EXPECT_FALSE(ends.buffer->overrun());
  const auto batch = ends.buffer->Take();
  EXPECT_TRUE(batch.text.ends_with("4\r\nlast\r\n0\r\n\r\n"));
  EXPECT_TRUE(batch.last);
}

TEST(Stream, LeavingDropsWhatWaitsAndTellsTheProducerOnce) {
  Ends ends;
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = kept;
  ends.stream->Write("x", 0, std::move(kept));
  EXPECT_FALSE(watched.expired());
  ends.buffer->Leave();
  ends.buffer->Leave();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(ends.ready, 1);
  EXPECT_TRUE(ends.stream->gone());
  EXPECT_EQ(ends.stream->unread(), 0u);
  EXPECT_FALSE(ends.stream->Write("y"));
  EXPECT_EQ(ends.buffer->Take().text, "");
}

TEST(Stream, WhatIsKeptIsLetGoOnceSent) {
  Ends ends;
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = kept;
  ends.stream->Write("x", 0, std::move(kept));
  {
    const auto batch = ends.buffer->Take();
    ends.buffer->Sent(batch);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Stream, ALostProducerAborts) {
  Ends ends;
  ends.stream->Write("x");
  ends.stream.reset();
  EXPECT_TRUE(ends.buffer->aborted());
}

TEST(Stream, ItsEndLetsGoOfTheProducer) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  auto buffer = std::make_shared<StreamBuffer>(HttpResponse{}, true, 10,
                                               [owner = std::move(owner)] { (void)owner; });
  Stream stream(buffer, std::make_shared<FakeWake>());
  EXPECT_FALSE(watched.expired());
  stream.End();
  EXPECT_TRUE(watched.expired());
}

TEST(Stream, ProducerAndConnectionMeetOnTwoThreads) {
  Ends ends(1 << 20);
  std::string seen;
  std::thread connection([&] {
    for (;;) {
      const auto batch = ends.buffer->Take();
      seen += batch.text;
      ends.buffer->Sent(batch);
      if (batch.last) return;
    }
  });
  std::string wanted;
  for (int i = 0; i < 20'000; ++i) {
    while (ends.stream->unread() > 1000) std::this_thread::yield();
    ends.stream->Write("abc");
    wanted += "3\r\nabc\r\n";
  }
  ends.stream->End();
  connection.join();
  EXPECT_EQ(seen, wanted + "0\r\n\r\n");
}

TEST(StreamFormats, EventsAreFieldsAndAnEmptyLine) {
  std::string out;
  AppendEvent("", R"({"a":1})", &out);
  EXPECT_EQ(out, "data: {\"a\":1}\n\n");
  out.clear();
  AppendEvent("to\nken", "one\ntwo\r\nthree\rfour", &out);
  EXPECT_EQ(out, "event: token\ndata: one\ndata: two\ndata: three\ndata: four\n\n");
  out.clear();
  AppendEvent("", "", &out);
  EXPECT_EQ(out, "data: \n\n");
  out.clear();
  AppendEventComment("ping", &out);
  EXPECT_EQ(out, ": ping\n\n");
}

}  // namespace
}  // namespace penstock::http
