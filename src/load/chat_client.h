// ChatClient: one client of the load generator of text: sends a request, reads its stream, and
// leaves or dawdles where it is told to. One event loop; for .cc files of the generator only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "load/chat_events.h"
#include "load/http_link.h"

namespace penstock::load {

// One request and its course.
struct ChatTurn {
  using Clock = std::chrono::steady_clock;

  std::string bytes;
  Clock::time_point intended, sent;
  bool with_timeout = false;
  bool measured = false;
  bool slow = false;
  double leave_ms = -1;      // after the request was sent; < 0: stays
  int64_t leave_token = -1;  // leaves after this number of text events; < 0: stays

  bool written = false;
  int status = 0;  // 0: no head of an answer yet
  bool retry_after = false;
  bool done = false;              // [DONE] came
  bool error = false;             // an error came
  int64_t events = 0;             // with text
  Clock::time_point first, last;  // of those events
  Clock::time_point finish;       // of the event that ends the text
  int64_t prompt_tokens = -1, completion_tokens = -1, cached_tokens = -1;
};

class ChatClient {
 public:
  using Clock = ChatTurn::Clock;
  enum class Outcome { kAnswered, kLeft, kLost };

  // What a client tells and asks.
  class Owner {
   public:
    virtual void OnWritten() = 0;
    // An event with text has come; `gap_ms`: since the one before, < 0 for the first.
    virtual void OnToken(const ChatTurn& turn, double gap_ms) = 0;
    // The client is free; it may be started again at once.
    virtual void OnDone(ChatClient* client, Outcome outcome) = 0;

   protected:
    ~Owner() = default;
  };

  struct Place {
    boost::asio::io_context* context;
    boost::asio::ssl::context* tls;  // null: plain
    boost::asio::ip::tcp::endpoint endpoint;
    std::string host;
    double slow_bytes_per_s;
  };

  ChatClient(const Place* place, Owner* owner)
      : place_(place),
        owner_(owner),
        leave_timer_(*place->context),
        pause_timer_(*place->context) {}

  void Start(ChatTurn turn);
  // Gives up the request under way without telling the owner.
  void Abandon();
  bool busy() const { return busy_; }
  const ChatTurn& turn() const { return turn_; }

 private:
  void Write();
  void Read();
  void OnPart();
  bool TakeEvents();
  void ArmLeaving();
  void Finish(Outcome outcome);
  void Close();

  const Place* const place_;
  Owner* const owner_;
  boost::asio::steady_timer leave_timer_, pause_timer_;
  // Null: not connected. An operation of a former link ends on that link, which is not this one.
  std::shared_ptr<HttpLink> link_;
  bool slow_link_ = false;
  ChatTurn turn_;
  EventReader events_;
  bool busy_ = false;
  uint64_t serial_ = 0;  // of the request: a timer that has fired cannot be cancelled
};

}  // namespace penstock::load
