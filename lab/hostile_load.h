// HostileLoad: hostile clients beside a normal load, and the outcome of each kind of request.
//
// A thread of its own with one event loop. Requests are sent at a fixed rate, the kinds in fixed
// proportion, each on a connection of its own; their bytes are made once and sent from memory. A
// client that is still held by its request takes no other, so `clients` bounds the connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/hostile_requests.h"
#include "load/http_load.h"

namespace penstock::lab {

struct HostileOptions {
  // Requests a second, all kinds together. At 40: 4 large bodies, 1 of heavy valid work, 35 that
  // are cheap to refuse. A server that refuses cheaply spends a few hundredths of a processor on
  // it, most of that on reading some 40 MB a second.
  double rate = 40;
  int clients = 32;
  // How long clients wait for an answer or the end of the connection.
  double patience_s = 30;
  double hold_s = 8;         // of clients that read slowly, or nothing
  double idle_s = 20;        // of clients that are silent
  double drip_ms = 50;       // between two bytes of one that drips
  double slow_read_ms = 20;  // between two kilobytes of one that reads slowly
};

struct HostileKind {
  std::string name;
  uint64_t sent = 0;             // begun, each on a new connection
  uint64_t served = 0;           // answers 2xx
  uint64_t busy = 0;             // 429, 503
  uint64_t refused = 0;          // other 4xx, 5xx
  uint64_t internal_errors = 0;  // ... of these, 500
  uint64_t closed = 0;           // by the server, answers missing
  uint64_t left = 0;             // by the client, as meant
  uint64_t late = 0;             // neither answered nor closed in time
  uint64_t wrong = 0;            // wrong or missing answers for the kind
  double slowest_ms = 0;         // from the first byte sent to the last of the answers
  std::string first_wrong;       // "status 200", "closed", ...
};

struct HostileResult {
  std::vector<HostileKind> kinds;  // as the requests were given
  uint64_t not_sent = 0;           // all clients were held
  double cpu_s = 0;                // of the thread

  uint64_t Sum(uint64_t HostileKind::*field) const;
};

class HostileLoad {
 public:
  // Begins at once. `requests`: at least one.
  HostileLoad(const load::HttpTarget& target, const HostileOptions& options,
              std::shared_ptr<const std::vector<HostileRequest>> requests);
  // As Stop().
  ~HostileLoad();
  // Sends nothing more, lets clients that hold a connection leave, waits for the answers of the
  // others as long as their patience lasts, and ends the thread.
  HostileResult Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::lab
