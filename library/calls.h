// Calls: the calls of one penstock_models, so that its end cancels them; and for event loops the
// queue of those that have something to take, with a descriptor that is readable while it holds one.
// Any thread.
#pragma once

#include <deque>
#include <mutex>
#include <unordered_set>

#include "base/status.h"
#include "library/penstock.h"

namespace penstock::library {

class Call;

class Calls {
 public:
  Calls() = default;
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // A call as long as it lives. Refused after CancelAll.
  Status Enter(Call* call);
  void Leave(Call* call);
  // Those under way fail with `why`; the answers of those that have ended are printed, as what they
  // are printed from goes.
  void CancelAll(const Status& why);

  // Makes the descriptor at its first use; only later events are queued. Returns -1 if the process
  // has no descriptor left.
  int Descriptor();
  // Does nothing before the first use of Descriptor, or where the call is in the queue.
  void Queue(penstock_call* call);
  // Null: none.
  penstock_call* Next();
  // The call is freed.
  void Unqueue(penstock_call* call);

 private:
  void ClearDescriptor();  // under mutex_

  std::mutex mutex_;
  // All guarded by mutex_.
  std::unordered_set<Call*> open_;
  bool closed_ = false;
  int descriptor_ = -1;
  // In the order in which they came. One that is not in queued_ was freed, or stands there again.
  std::deque<penstock_call*> queue_;
  std::unordered_set<penstock_call*> queued_;
};

}  // namespace penstock::library
