#include "http2/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <list>
#include <new>
#include <optional>
#include <vector>

#include "http2/bytes_view.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "log/log_limit.h"

namespace penstock::http2 {
namespace {

// The most bytes of a DATA frame; also the least that a client must take of a stream in
// write_timeout.
constexpr size_t kDataFrameBytes = 16 << 10;
// RFC 9113 6.5.2: what a field counts beside its name and value.
constexpr size_t kFieldBytes = 32;
// How long the rest of a request is read after its answer, and of how many streams.
constexpr std::chrono::seconds kLinger{1};
constexpr size_t kLingeringMax = 16;
// For clients to hear of a shutdown before streams that they open meanwhile are ignored.
constexpr std::chrono::seconds kShutdownNotice{1};
constexpr std::array<uint8_t, 8> kShutdownPing = {'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'};

LogLimit& FloodLog() {
  static LogLimit limit(1);
  return limit;
}

// A call of the library that fails only where memory has run out.
void CheckMemory(int result) {
  if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
}

// The fields as the library takes them: it copies.
std::vector<nghttp2_nv> Fields(const HeaderList& headers) {
  std::vector<nghttp2_nv> fields;
  fields.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    const auto bytes = [](const std::string& text) {
      return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
    };
    fields.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return fields;
}

}  // namespace

struct Http2Session::Stream {
  int32_t id = 0;
  std::shared_ptr<Http2Channel> channel;    // null: its header list is not complete
  std::shared_ptr<Http2Receiver> receiver;  // null: no event is wanted

  // What the client sends.
  Http2Request request;  // until OnStream
  HeaderList trailers;
  size_t header_bytes = 0;  // as they count against the limit
  size_t kept_bytes = 0;    // of them: in header_bytes_kept_
  bool too_large = false;   // they are over it
  bool malformed = false;
  size_t unconsumed = 0;  // of the data that OnData gave
  bool client_ended = false;
  bool client_reset = false;

  // The answer.
  std::list<Http2Channel::Piece> pieces;
  size_t piece_used = 0;           // of the first one
  std::vector<InFlight> in_frame;  // the data of the frame that is being made
  std::optional<HeaderList> answer_trailers;
  bool headed = false;
  bool last = false;      // nothing comes after `pieces` and the trailers
  bool deferred = false;  // the library is to be told of more data
  bool produced = false;  // to its end

  Clock::time_point wake_at = Clock::time_point::max();
  Clock::time_point stall_at = Clock::time_point::max();   // when the client is too slow
  size_t taken = 0;                                        // data since stall_at was set
  Clock::time_point scheduled = Clock::time_point::max();  // as in times_

  bool waits() const { return headed && !produced && (!pieces.empty() || last); }
};

// What the library calls. No exception passes through it; a failure ends the connection.
struct Http2Session::Callbacks {
  template <typename Work>
  static int Sending(void* data, Work&& work) noexcept {
    const bool worked = RunGuarded("http2", [&] { work(static_cast<Http2Session*>(data)); });
    return worked ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  // Nothing is read any more once the connection is broken.
  template <typename Work>
  static int Receiving(void* data, Work&& work) noexcept {
    const int result = Sending(data, std::forward<Work>(work));
    return static_cast<Http2Session*>(data)->broken_ ? NGHTTP2_ERR_CALLBACK_FAILURE : result;
  }

  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void* data) {
    return Receiving(data, [&](Http2Session* self) {
      if (head->type == NGHTTP2_HEADERS) {
        self->header_by_ = self->now_ + self->limits_.read_timeout;
      } else if (head->type == NGHTTP2_PRIORITY) {
        if (!self->priorities_.Take(self->now_)) self->Flood("PRIORITY");
      }
    });
  }

  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    return Receiving(data, [&](Http2Session* self) {
      if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return;
      const auto stream = std::make_shared<Stream>();
      stream->id = frame->hd.stream_id;
      stream->request.begin = self->now_;
      stream->request.remote = self->remote_;
      self->streams_.emplace(stream->id, stream);
      self->window_updates_.Add(4);
      // Streams take turns frame by frame; else a large answer would hold up the others.
      const nghttp2_extpri turns = {NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};
      nghttp2_session_change_extpri_stream_priority(session, stream->id, &turns, 1);
    });
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* data) {
    return Receiving(data, [&](Http2Session* self) {
      const auto stream = self->Find(frame->hd.stream_id);
      if (stream == nullptr) return;
      if (!CountField(self, name_size + value_size, stream.get())) return;
      AddField(frame->headers.cat, BytesView(name, name_size), BytesView(value, value_size),
               stream.get());
    });
  }

  // Counts a field against the limits. False: the list is over them, and is not kept.
  static bool CountField(Http2Session* self, size_t bytes, Stream* stream) {
    stream->header_bytes += bytes + kFieldBytes;
    const size_t limit = self->limits_.header_bytes_max;
    if (stream->header_bytes <= limit) return true;
    stream->too_large = true;
    HeaderList().swap(stream->request.headers);
    HeaderList().swap(stream->trailers);
    // To decode and check it takes time, of which a byte can cost 2 us.
    if (stream->header_bytes > kHeaderTimesMax * limit) self->Flood("a header list");
    return false;
  }

  static void AddField(nghttp2_headers_category category, std::string_view name,
                       std::string_view value, Stream* stream) {
    if (category != NGHTTP2_HCAT_REQUEST) {
      stream->trailers.emplace_back(name, value);
    } else if (name == ":method") {
      stream->request.method = value;
    } else if (name == ":scheme") {
      stream->request.scheme = value;
    } else if (name == ":authority") {
      stream->request.authority = value;
    } else if (name == ":path") {
      stream->request.path = value;
    } else if (!name.starts_with(':')) {
      stream->request.headers.emplace_back(name, value);
    }
  }

  // RFC 9113 8.2.1: such a request is malformed. Left alone, the library drops the field.
  static int OnInvalidHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t*,
                             size_t name_size, const uint8_t*, size_t value_size, uint8_t,
                             void* data) {
    return Receiving(data, [&](Http2Session* self) {
      const auto stream = self->Find(frame->hd.stream_id);
      if (stream == nullptr) return;
      CountField(self, name_size + value_size, stream.get());
      if (std::exchange(stream->malformed, true) || self->broken_) return;
      CheckMemory(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id,
                                            NGHTTP2_PROTOCOL_ERROR));
    });
  }

  static int OnData(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* bytes,
                    size_t size, void* data) {
    return Receiving(data, [&](Http2Session* self) {
      self->empty_frames_ = 0;
      const auto stream = self->Find(id);
      // What is over the window is on its way when the library resets the stream.
      const bool over =
          stream != nullptr && stream->unconsumed + size > static_cast<size_t>(kHttp2StreamWindow);
      if (stream == nullptr || stream->receiver == nullptr || stream->last || over) {
        CheckMemory(nghttp2_session_consume(session, id, size));
        return;
      }
      stream->unconsumed += size;
      self->Tell(stream,
                 [&](Http2Receiver* receiver) { receiver->OnData(BytesView(bytes, size)); });
    });
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    return Receiving(data, [&](Http2Session* self) {
      const bool ack = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
      const auto take = [&](FloodBudget* budget, const char* what) {
        if (!budget->Take(self->now_)) self->Flood(what);
      };
      switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
        case NGHTTP2_DATA:
          return OnStreamFrame(self, frame);
        case NGHTTP2_RST_STREAM:
          if (const auto stream = self->Find(frame->hd.stream_id)) stream->client_reset = true;
          return take(&self->resets_, "streams that were reset");
        case NGHTTP2_SETTINGS:
          self->settings_by_ = Clock::time_point::max();
          return ack ? void() : take(&self->settings_, "SETTINGS");
        case NGHTTP2_GOAWAY:
          return take(&self->settings_, "GOAWAY");
        case NGHTTP2_PING:
          if (ack &&
              std::equal(kShutdownPing.begin(), kShutdownPing.end(), frame->ping.opaque_data)) {
            self->SendFinalGoAway();
          }
          return take(&self->pings_, "PING");
        case NGHTTP2_WINDOW_UPDATE:
          return take(&self->window_updates_, "WINDOW_UPDATE");
        default:
          return;
      }
    });
  }

  static void OnStreamFrame(Http2Session* self, const nghttp2_frame* frame) {
    const bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const auto stream = self->Find(frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_DATA) {
      if (frame->hd.length == frame->data.padlen && !ended &&
          ++self->empty_frames_ > kEmptyFramesMax) {
        return self->Flood("empty DATA");
      }
      if (stream != nullptr && ended) self->OnClientEnd(stream);
      return;
    }
    self->header_by_ = Clock::time_point::max();
    self->empty_frames_ = 0;
    if (stream == nullptr || stream->malformed) return;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      if (!self->KeepHeaderList(stream.get())) return self->RefuseStream(stream);
      return self->OnHeaderList(stream, ended);
    }
    if (stream->too_large && stream->receiver != nullptr) {
      return self->ResetStream(stream, Http2Error::kEnhanceYourCalm, Http2Gone::kReset);
    }
    if (ended) self->OnClientEnd(stream);
  }

  static int OnInvalidFrame(nghttp2_session*, const nghttp2_frame* frame, int error, void* data) {
    return Receiving(data, [&](Http2Session* self) {
      if (frame->hd.type == NGHTTP2_HEADERS) self->header_by_ = Clock::time_point::max();
      if (error == NGHTTP2_ERR_REFUSED_STREAM && !self->refused_.Take(self->now_)) {
        self->Flood("streams over the limit");
      }
    });
  }

  static int OnStreamClose(nghttp2_session*, int32_t id, uint32_t, void* data) {
    return Sending(data, [&](Http2Session* self) {
      const auto stream = self->Find(id);
      if (stream == nullptr || stream->produced) return;  // Settle ends it
      const bool client = stream->client_reset;
      self->Gone(id, client ? Http2Gone::kClientLeft : Http2Gone::kReset);
      if (!client && !self->resets_.Take(self->now_)) self->Flood("streams that had to be reset");
    });
  }

  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    return Sending(data, [&](Http2Session* self) {
      const auto stream = self->Find(frame->hd.stream_id);
      if (frame->hd.type == NGHTTP2_GOAWAY) {
        self->broken_ = self->broken_ || frame->goaway.error_code != NGHTTP2_NO_ERROR;
        self->silent_ = self->broken_;
      }
      if (stream == nullptr) return;
      if (frame->hd.type == NGHTTP2_DATA) self->OnDataProduced(stream, frame->hd.length);
      const bool can_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
      if (can_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        self->OnAnswerProduced(stream);
      }
    });
  }

  // A header list that cannot be packed, for one; the client would wait.
  static int OnFrameNotSent(nghttp2_session*, const nghttp2_frame* frame, int, void* data) {
    return Sending(data, [&](Http2Session* self) {
      const auto stream = self->Find(frame->hd.stream_id);
      if (frame->hd.type != NGHTTP2_HEADERS || stream == nullptr || stream->malformed) return;
      self->ResetStream(stream, Http2Error::kInternalError, Http2Gone::kReset);
    });
  }

  static ssize_t Read(nghttp2_session* session, int32_t id, uint8_t* out, size_t room,
                      uint32_t* flags, nghttp2_data_source*, void* data) {
    size_t used = 0;
    bool wait = false;
    bool gone = false;
    const int failed = Sending(data, [&](Http2Session* self) {
      const auto stream = self->Find(id);
      gone = stream == nullptr;
      if (gone) return;
      used = TakeData(stream.get(), out, room);
      if (!stream->pieces.empty()) return;
      if (!stream->last) {
        wait = stream->deferred = used == 0;
        return;
      }
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!stream->answer_trailers) return;
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const auto fields = Fields(*stream->answer_trailers);
      CheckMemory(nghttp2_submit_trailer(session, id, fields.data(), fields.size()));
    });
    if (failed != 0) return failed;
    if (gone) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (wait) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(used);
  }

  static size_t TakeData(Stream* stream, uint8_t* out, size_t room) {
    size_t used = 0;
    while (used < room && !stream->pieces.empty()) {
      auto& piece = stream->pieces.front();
      const size_t bytes = std::min(room - used, piece.bytes.size() - stream->piece_used);
      stream->in_frame.push_back({kNotStamped, stream->id, bytes, nullptr});
      std::memcpy(out + used, piece.bytes.data() + stream->piece_used, bytes);
      used += bytes;
      stream->piece_used += bytes;
      if (stream->piece_used < piece.bytes.size()) break;
      stream->in_frame.back().kept = std::move(piece.kept);
      stream->pieces.pop_front();
      stream->piece_used = 0;
    }
    return used;
  }

  static void SetAll(nghttp2_session_callbacks* callbacks) {
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, OnInvalidHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, OnInvalidFrame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, OnFrameNotSent);
  }
};

void Http2Session::NgDelete::operator()(nghttp2_session* session) const {
  nghttp2_session_del(session);
}

Http2Session::Http2Session(Http2Handler* handler, const Http2Limits& limits, std::string remote,
                           std::shared_ptr<Http2Wake> wake, Clock::time_point now)
    : handler_(handler),
      limits_(limits),
      remote_(std::move(remote)),
      mailbox_(std::make_shared<Http2Mailbox>(std::move(wake))),
      now_(now),
      resets_(kResetsMax, 10, now),
      refused_(kRefusedMax, 100, now),
      pings_(kPingsMax, 10, now),
      settings_(kSettingsMax, 10, now),
      priorities_(kPrioritiesMax, 100, now),
      window_updates_(kWindowUpdatesMax, 100, now),
      settings_by_(now + limits.read_timeout),
      heard_at_(now),
      idle_since_(now) {
  nghttp2_session_callbacks* callbacks = nullptr;
  CheckMemory(nghttp2_session_callbacks_new(&callbacks));
  const std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)>
      callbacks_end(callbacks, nghttp2_session_callbacks_del);
  Callbacks::SetAll(callbacks);
  nghttp2_option* option = nullptr;
  CheckMemory(nghttp2_option_new(&option));
  const std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)> option_end(
      option, nghttp2_option_del);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_continuations(option, kContinuationsMax);
  // The library has a budget of resets as well, by a clock of its own. resets_ is the stricter.
  nghttp2_option_set_stream_reset_rate_limit(option, 1 << 30, 1 << 20);
  nghttp2_session* session = nullptr;
  CheckMemory(nghttp2_session_server_new2(&session, callbacks, this, option));
  session_.reset(session);
  SendSettings();
}

Http2Session::~Http2Session() { Lose(); }

void Http2Session::SendSettings() {
  const std::array<nghttp2_settings_entry, 4> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kHttp2StreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits_.header_bytes_max)},
      // PRIORITY frames make streams and trees otherwise.
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  CheckMemory(
      nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
  CheckMemory(nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0,
                                                    kHttp2ConnectionWindow));
}

Http2Session::StreamPtr Http2Session::Find(int32_t id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

template <typename Call>
void Http2Session::Tell(const StreamPtr& stream, Call&& call) {
  if (stream->receiver == nullptr) return;
  const bool worked = RunGuarded("http2 stream", [&] { call(stream->receiver.get()); });
  if (!worked) ResetStream(stream, Http2Error::kInternalError, Http2Gone::kReset);
}

// ---- What the client sends

void Http2Session::Receive(std::string_view bytes, Clock::time_point now) {
  now_ = now;
  if (broken_) return;
  heard_at_ = now;
  ping_by_ = Clock::time_point::max();
  const auto used = nghttp2_session_mem_recv(
      session_.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
    broken_ = silent_ = true;  // no HTTP/2: it would not understand a GOAWAY
  } else if (used < 0 && !broken_) {
    Flood(nghttp2_strerror(static_cast<int>(used)));
  }
  if (broken_) DropStreams();
}

// False: the streams of the connection hold too much already.
bool Http2Session::KeepHeaderList(Stream* stream) {
  if (stream->too_large) return true;  // it was dropped
  const size_t most = limits_.header_bytes_max +
                      std::max(kHeaderBytesKept, limits_.streams_max * kHeaderBytesPerStream);
  if (header_bytes_kept_ + stream->header_bytes > most) return false;
  stream->kept_bytes = stream->header_bytes;
  header_bytes_kept_ += stream->kept_bytes;
  return true;
}

void Http2Session::RefuseStream(const StreamPtr& stream) {
  if (!refused_.Take(now_)) return Flood("streams over the limit");
  ResetStream(stream, Http2Error::kRefusedStream, Http2Gone::kReset);
}

void Http2Session::OnHeaderList(const StreamPtr& stream, bool ended) {
  stream->client_ended = ended;
  stream->channel = std::make_shared<Http2Channel>(stream->id, mailbox_);
  auto answer = MakeHttp2Answer(stream->channel);
  Http2Request request = std::move(stream->request);
  request.ended = ended;
  if (request.authority.empty()) {
    for (const auto& [name, value] : request.headers) {
      if (name == "host") request.authority = value;
    }
  }
  // An exception destroys the answer, which resets the stream.
  RunGuarded("http2 request", [&] {
    stream->receiver = stream->too_large
                           ? handler_->OnHeaderTooLarge(std::move(request), std::move(answer))
                           : handler_->OnStream(std::move(request), std::move(answer));
  });
}

void Http2Session::OnClientEnd(const StreamPtr& stream) {
  stream->client_ended = true;
  if (stream->last) return;
  if (!stream->trailers.empty()) {
    Tell(stream,
         [&](Http2Receiver* receiver) { receiver->OnTrailers(std::move(stream->trailers)); });
    HeaderList().swap(stream->trailers);
  }
  if (Find(stream->id) == nullptr) return;
  Tell(stream, [](Http2Receiver* receiver) { receiver->OnEnd(); });
}

// ---- What is sent

void Http2Session::TakePosted(Clock::time_point now) {
  now_ = now;
  while (const auto channel = mailbox_->Pop()) {
    if (RunGuarded("http2 answer", [&] { Apply(channel.get()); })) continue;
    if (const auto stream = Find(channel->stream())) {
      ResetStream(stream, Http2Error::kInternalError, Http2Gone::kReset);
    }
  }
}

void Http2Session::Apply(Http2Channel* channel) {
  auto posted = channel->TakePosted();
  const auto stream = Find(channel->stream());
  if (stream == nullptr) return;
  if (const size_t bytes = std::min(posted.consumed, stream->unconsumed); bytes > 0) {
    stream->unconsumed -= bytes;
    CheckMemory(nghttp2_session_consume(session_.get(), stream->id, bytes));
  }
  if (stream->produced) return;
  if (posted.wake_at) stream->wake_at = *posted.wake_at;
  if (posted.reset) return ResetStream(stream, *posted.reset, Http2Gone::kReset);
  for (const HeaderList& headers : posted.informational) {
    const auto fields = Fields(headers);
    CheckMemory(nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, stream->id, nullptr,
                                       fields.data(), fields.size(), nullptr));
  }
  stream->pieces.splice(stream->pieces.end(), posted.pieces);
  stream->last = stream->last || posted.last;
  if (posted.trailers) stream->answer_trailers = std::move(posted.trailers);
  if (posted.headers) {
    const bool whole = stream->last && stream->pieces.empty() && !stream->answer_trailers;
    BeginAnswer(stream, *posted.headers, whole);
  } else if (stream->deferred && (stream->last || !stream->pieces.empty())) {
    stream->deferred = false;
    CheckMemory(nghttp2_session_resume_data(session_.get(), stream->id));
  }
  Schedule(stream.get());
}

void Http2Session::BeginAnswer(const StreamPtr& stream, const HeaderList& headers, bool whole) {
  stream->headed = true;
  nghttp2_data_provider provider = {};
  provider.read_callback = Callbacks::Read;
  const auto fields = Fields(headers);
  CheckMemory(nghttp2_submit_response(session_.get(), stream->id, fields.data(), fields.size(),
                                      whole ? nullptr : &provider));
}

void Http2Session::Produce(size_t bytes_max, std::string* out, Clock::time_point now) {
  now_ = now;
  while (out->size() < bytes_max && !silent_) {
    const uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_.get(), &bytes);
    if (size < 0) broken_ = silent_ = true;
    if (size <= 0) break;
    out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    produced_ += static_cast<uint64_t>(size);
    Stamp();
  }
  Stamp();
  if (broken_) DropStreams();
  Settle();
}

// The library tells of a frame before or after it gives its bytes.
void Http2Session::Stamp() {
  for (auto part = in_flight_.rbegin(); part != in_flight_.rend() && part->end == kNotStamped;
       ++part) {
    part->end = produced_;
  }
  for (auto one = answered_.rbegin(); one != answered_.rend() && one->first == kNotStamped; ++one) {
    one->first = produced_;
  }
}

// A frame of data is produced, or is about to be.
void Http2Session::OnDataProduced(const StreamPtr& stream, size_t bytes) {
  for (InFlight& part : stream->in_frame) in_flight_.push_back(std::move(part));
  stream->in_frame.clear();
  pings_.Add(1);
  window_updates_.Add(4);
  stream->taken += bytes;
  if (stream->taken >= kDataFrameBytes || stream->pieces.empty()) {
    stream->stall_at = Clock::time_point::max();
  }
  Schedule(stream.get());
}

void Http2Session::OnAnswerProduced(const StreamPtr& stream) {
  stream->produced = true;
  stream->wake_at = Clock::time_point::max();
  answered_.emplace_back(kNotStamped, stream->id);
  resets_.Add(1);
  Schedule(stream.get());
  if (stream->client_ended) return;
  // RFC 9113 8.1: the rest of the request is not wanted. Many clients lose the answer where they
  // are told so at once.
  if (lingering_.size() == kLingeringMax) StopFirstLingering();
  lingering_.emplace_back(now_ + kLinger, stream->id);
}

void Http2Session::StopFirstLingering() {
  const int32_t id = lingering_.front().second;
  lingering_.pop_front();
  if (nghttp2_session_get_stream_remote_close(session_.get(), id) != 0) return;  // it has ended
  CheckMemory(nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR));
}

void Http2Session::Sent(size_t bytes, Clock::time_point now) {
  now_ = now;
  sent_ += bytes;
  Settle();
}

void Http2Session::Settle() {
  while (!in_flight_.empty() && in_flight_.front().end <= sent_) {
    InFlight part = std::move(in_flight_.front());
    in_flight_.pop_front();
    part.kept = nullptr;
    const auto stream = Find(part.stream);
    if (stream == nullptr || !stream->channel->Sent(part.bytes)) continue;
    Tell(stream, [](Http2Receiver* receiver) { receiver->OnSent(); });
  }
  while (!answered_.empty() && answered_.front().first <= sent_) {
    const int32_t id = answered_.front().second;
    answered_.pop_front();
    Gone(id, Http2Gone::kAnswered);
  }
}

// ---- The end of streams

void Http2Session::Gone(int32_t id, Http2Gone how) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const StreamPtr stream = std::move(found->second);
  streams_.erase(found);
  if (stream->scheduled != Clock::time_point::max()) times_.erase({stream->scheduled, id});
  if (streams_.empty()) idle_since_ = now_;
  header_bytes_kept_ -= stream->kept_bytes;
  if (stream->unconsumed > 0) {
    nghttp2_session_consume_connection(session_.get(), std::exchange(stream->unconsumed, 0));
  }
  stream->pieces.clear();
  stream->in_frame.clear();
  for (InFlight& part : in_flight_) {
    if (part.stream == id) part.kept = nullptr;
  }
  if (how != Http2Gone::kAnswered) {
    std::erase_if(answered_, [&](const auto& one) { return one.second == id; });
  }
  if (stream->channel != nullptr) stream->channel->Leave();
  if (const auto receiver = std::move(stream->receiver)) {
    RunGuarded("http2 stream", [&] { receiver->OnGone(how); });
  }
}

void Http2Session::ResetStream(const StreamPtr& stream, Http2Error error, Http2Gone how) {
  if (Find(stream->id) == nullptr) return;
  if (!stream->produced) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream->id,
                              static_cast<uint32_t>(error));
  }
  Gone(stream->id, how);
}

void Http2Session::DropStreams() {
  while (!streams_.empty()) Gone(streams_.begin()->first, Http2Gone::kClientLeft);
}

void Http2Session::Lose() {
  broken_ = silent_ = true;
  mailbox_->Close();
  DropStreams();
}

// ---- Time

void Http2Session::Schedule(Stream* stream) {
  constexpr auto kNever = Clock::time_point::max();
  if (!stream->waits()) {
    stream->stall_at = kNever;
  } else if (stream->stall_at == kNever) {
    stream->stall_at = now_ + limits_.write_timeout;
    stream->taken = 0;
  }
  const auto at = std::min(stream->wake_at, stream->stall_at);
  if (at == stream->scheduled) return;
  if (stream->scheduled != kNever) times_.erase({stream->scheduled, stream->id});
  stream->scheduled = kNever;
  if (at == kNever) return;
  times_.emplace(at, stream->id);
  stream->scheduled = at;
}

void Http2Session::OnStreamTime(int32_t id) {
  const auto stream = Find(id);
  if (stream->stall_at <= now_) {
    return ResetStream(stream, Http2Error::kCancel, Http2Gone::kTooSlow);
  }
  stream->wake_at = Clock::time_point::max();
  Schedule(stream.get());
  Tell(stream, [](Http2Receiver* receiver) { receiver->OnTime(); });
}

void Http2Session::OnTime(Clock::time_point now) {
  now_ = now;
  while (!times_.empty() && times_.begin()->first <= now) OnStreamTime(times_.begin()->second);
  if (broken_) return;
  while (!lingering_.empty() && lingering_.front().first <= now) StopFirstLingering();
  if (now >= std::min({settings_by_, header_by_, ping_by_})) {
    Terminate(Http2Error::kNoError);
    return DropStreams();
  }
  const bool idle = limits_.idle_timeout != std::chrono::milliseconds::max() && streams_.empty() &&
                    now >= idle_since_ + limits_.idle_timeout;
  if (idle || now >= go_away_at_) SendFinalGoAway();
  if (ping_by_ == Clock::time_point::max() && now >= heard_at_ + kPingAfter) {
    ping_by_ = now + kPingTimeout;
    CheckMemory(nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr));
  }
}

Clock::time_point Http2Session::NextTime() const {
  if (broken_) return Clock::time_point::max();
  auto next = std::min({settings_by_, header_by_, ping_by_, go_away_at_});
  if (!lingering_.empty()) next = std::min(next, lingering_.front().first);
  if (!times_.empty()) next = std::min(next, times_.begin()->first);
  if (ping_by_ == Clock::time_point::max()) next = std::min(next, heard_at_ + kPingAfter);
  if (streams_.empty() && !going_away_ &&
      limits_.idle_timeout != std::chrono::milliseconds::max()) {
    next = std::min(next, idle_since_ + limits_.idle_timeout);
  }
  return next;
}

// ---- The end of the connection

void Http2Session::Flood(const char* what) {
  if (const auto left_out = FloodLog().Pass()) {
    LogWarn("HTTP/2: connection of {} closed: too many or malformed: {}{}", remote_, what,
            LogLimit::LeftOut(*left_out));
  }
  Terminate(Http2Error::kEnhanceYourCalm);
}

void Http2Session::Terminate(Http2Error error) {
  broken_ = true;
  CheckMemory(nghttp2_session_terminate_session(session_.get(), static_cast<uint32_t>(error)));
}

void Http2Session::BeginShutdown(Clock::time_point now) {
  now_ = now;
  if (std::exchange(shutting_down_, true) || broken_) return;
  go_away_at_ = now + kShutdownNotice;
  CheckMemory(nghttp2_submit_shutdown_notice(session_.get()));
  CheckMemory(nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, kShutdownPing.data()));
}

void Http2Session::SendFinalGoAway() {
  go_away_at_ = Clock::time_point::max();
  if (std::exchange(going_away_, true)) return;
  CheckMemory(nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                                    nghttp2_session_get_last_proc_stream_id(session_.get()),
                                    NGHTTP2_NO_ERROR, nullptr, 0));
}

void Http2Session::Interrupt(Clock::time_point now) {
  now_ = now;
  if (broken_) return;
  SendFinalGoAway();
  const auto streams = streams_;  // an exception ends one
  for (const auto& [id, stream] : streams) {
    Tell(stream, [](Http2Receiver* receiver) { receiver->OnInterrupt(); });
  }
}

bool Http2Session::WantsRead() const {
  return !done() && nghttp2_session_get_outbound_queue_size(session_.get()) <= kFramesQueuedMax;
}

bool Http2Session::done() const {
  if (broken_) return true;
  return nghttp2_session_want_read(session_.get()) == 0 &&
         nghttp2_session_want_write(session_.get()) == 0;
}

}  // namespace penstock::http2
