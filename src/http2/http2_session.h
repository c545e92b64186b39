// Http2Session: the server's side of one HTTP/2 connection (RFC 9113). Bytes in, bytes out: no
// sockets, no threads, and the time is an argument. The protocol itself is libnghttp2's; here are
// the streams as handlers see them, and the bounds.
//
//   Receive -> nghttp2 -> Http2Handler::OnStream, Http2Receiver::On...
//   Http2Answer -> mailbox -> TakePosted -> nghttp2 -> Produce -> (kernel) -> Sent
//
// A stream lives from its header list to the moment when the kernel has the last byte of its
// answer, or to a reset. All calls come from the io thread of the connection.
//
// What a client may do without paying for it is bounded. Over a bound the connection ends with
// GOAWAY(ENHANCE_YOUR_CALM):
//   streams at a time    streams_max, also before the client has taken notice of it; more are
//                        refused one by one, kRefusedMax at once
//   resets               kResetsMax; each whole answer and a tenth of a second give one back.
//                        Streams that the client makes the server reset count as well
//   header list          header_bytes_max as decoded, and 32 for each field; what is over is
//                        dropped as it is decoded, and OnHeaderTooLarge answers. The connection
//                        ends at kHeaderTimesMax as much, and at kContinuationsMax frames
//   header lists kept    kHeaderBytesKept, or kHeaderBytesPerStream for each of streams_max, and
//                        one more list; streams over it are refused as those over streams_max are
//   empty frames         kEmptyFramesMax of DATA in a row that carry nothing
//   PING, SETTINGS       kPingsMax, kSettingsMax; time, and data that was sent, give them back
//   PRIORITY             kPrioritiesMax, given back by time
//   WINDOW_UPDATE        kWindowUpdatesMax, given back by time, streams and data that was sent
//   frames to send       kFramesQueuedMax: then nothing is read until the client has taken some
//   time                 read_timeout for the preface and for a header list, write_timeout for a
//                        stream whose answer the client does not take; a client that is silent for
//                        kPingAfter must answer a ping within kPingTimeout
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "http2/flood_budget.h"
#include "http2/http2_channel.h"
#include "http2/http2_handler.h"

struct nghttp2_session;

namespace penstock::http2 {

// What a client sends first (RFC 9113 3.4).
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct Http2Limits {
  uint32_t streams_max = 100;
  size_t header_bytes_max = 16 << 10;
  std::chrono::milliseconds read_timeout{30'000};
  std::chrono::milliseconds write_timeout{30'000};
  // Without a stream; max(): no bound.
  std::chrono::milliseconds idle_timeout = std::chrono::milliseconds::max();
};

inline constexpr size_t kResetsMax = 100;
inline constexpr size_t kRefusedMax = 1000;
inline constexpr size_t kHeaderTimesMax = 4;
inline constexpr size_t kContinuationsMax = 8;
inline constexpr size_t kHeaderBytesKept = 256 << 10;
inline constexpr size_t kHeaderBytesPerStream = 1 << 10;
inline constexpr size_t kEmptyFramesMax = 10;
inline constexpr size_t kPingsMax = 100;
inline constexpr size_t kSettingsMax = 100;
inline constexpr size_t kPrioritiesMax = 1000;
inline constexpr size_t kWindowUpdatesMax = 1000;
inline constexpr size_t kFramesQueuedMax = 64;
inline constexpr std::chrono::seconds kPingAfter{60};
inline constexpr std::chrono::seconds kPingTimeout{20};

class Http2Session {
 public:
  // `handler` must outlive the session. Throws std::bad_alloc.
  Http2Session(Http2Handler* handler, const Http2Limits& limits, std::string remote,
               std::shared_ptr<Http2Wake> wake, Clock::time_point now);
  ~Http2Session();  // as Lose
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Bytes of the client, from the preface on.
  void Receive(std::string_view bytes, Clock::time_point now);
  // Does what answers have posted since the last call; to be called after Http2Wake::Wake.
  void TakePosted(Clock::time_point now);
  // To be called at NextTime().
  void OnTime(Clock::time_point now);

  // Appends bytes for the client, whole frames, until `out` holds `bytes_max` or more.
  void Produce(size_t bytes_max, std::string* out, Clock::time_point now);
  // The kernel has taken `bytes` of those that were produced.
  void Sent(size_t bytes, Clock::time_point now);

  // No more streams: those under way are finished, and done() is true after the last.
  void BeginShutdown(Clock::time_point now);
  // The receivers' OnInterrupt; to be called after BeginShutdown.
  void Interrupt(Clock::time_point now);
  // The connection is lost: ends all streams. done() from here on.
  void Lose();

  // False while the client has too much to take.
  bool WantsRead() const;
  // Nothing more is read; once what is produced is sent the connection is to be closed.
  bool done() const;
  Clock::time_point NextTime() const;  // max(): none
  size_t streams() const { return streams_.size(); }

 private:
  struct Stream;
  struct Callbacks;
  struct NgDelete {
    void operator()(nghttp2_session* session) const;
  };
  using StreamPtr = std::shared_ptr<Stream>;
  // The stamp of bytes that were not produced yet.
  static constexpr uint64_t kNotStamped = std::numeric_limits<uint64_t>::max();
  // Data that was produced, until the kernel has it.
  struct InFlight {
    uint64_t end = kNotStamped;  // of produced_
    int32_t stream = 0;
    size_t bytes = 0;
    std::shared_ptr<const void> kept;
  };

  void SendSettings();
  StreamPtr Find(int32_t id) const;
  bool KeepHeaderList(Stream* stream);
  void RefuseStream(const StreamPtr& stream);
  void OnHeaderList(const StreamPtr& stream, bool ended);
  void OnClientEnd(const StreamPtr& stream);
  void Apply(Http2Channel* channel);
  void BeginAnswer(const StreamPtr& stream, const HeaderList& headers, bool whole);
  void Stamp();
  void OnDataProduced(const StreamPtr& stream, size_t bytes);
  void OnAnswerProduced(const StreamPtr& stream);
  void StopFirstLingering();
  void Settle();
  void Gone(int32_t id, Http2Gone how);
  void DropStreams();
  void ResetStream(const StreamPtr& stream, Http2Error error, Http2Gone how);
  void Schedule(Stream* stream);
  void OnStreamTime(int32_t id);
  void Flood(const char* what);
  void Terminate(Http2Error error);
  void SendFinalGoAway();
  template <typename Call>
  void Tell(const StreamPtr& stream, Call&& call);

  Http2Handler* const handler_;
  const Http2Limits limits_;
  const std::string remote_;
  const std::shared_ptr<Http2Mailbox> mailbox_;
  std::unique_ptr<nghttp2_session, NgDelete> session_;
  Clock::time_point now_;  // of the call under way

  std::unordered_map<int32_t, StreamPtr> streams_;
  std::set<std::pair<Clock::time_point, int32_t>> times_;  // of streams, each at most once
  std::deque<InFlight> in_flight_;
  std::deque<std::pair<uint64_t, int32_t>> answered_;  // end of the answer, stream
  uint64_t produced_ = 0, sent_ = 0;
  // Streams that were answered before the client had sent all, and when they are reset.
  std::deque<std::pair<Clock::time_point, int32_t>> lingering_;

  FloodBudget resets_, refused_, pings_, settings_, priorities_, window_updates_;
  size_t empty_frames_ = 0;
  size_t header_bytes_kept_ = 0;  // of all streams

  Clock::time_point settings_by_;  // the client's first SETTINGS; max(): they came
  Clock::time_point header_by_ = Clock::time_point::max();  // the end of a begun header list
  Clock::time_point heard_at_;
  Clock::time_point ping_by_ = Clock::time_point::max();  // the answer to a ping of ours
  Clock::time_point idle_since_;
  Clock::time_point go_away_at_ = Clock::time_point::max();  // the final GOAWAY
  bool shutting_down_ = false;
  bool going_away_ = false;  // the final GOAWAY is on its way
  bool broken_ = false;      // nothing more is read
  bool silent_ = false;      // nor written
};

}  // namespace penstock::http2
