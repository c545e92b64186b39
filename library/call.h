// Call: one request to the models of a process, as penstock.h has it: a state that any thread may
// wait for, a result that one thread takes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "library/calls.h"
#include "library/penstock.h"

struct penstock_error {
  penstock::Status status;
};

namespace penstock::library {

class Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(std::shared_ptr<Calls> calls) : calls_(std::move(calls)) {}
  virtual ~Call() { calls_->Leave(this); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Any thread; see penstock.h. `timeout_ms` below 0: for ever.
  int Wait(int64_t timeout_ms);
  // One thread at a time.
  int Result(penstock_view* view);
  // The call fails with `why`, unless it has ended already.
  void Cancel(const Status& why);
  // What the result is made of goes: it is made now.
  virtual void Settle() noexcept {}
  // Null: it has not failed. Valid as long as the call.
  const penstock_error* error() const;
  // By which Calls tells of this call from now on, until DropHandle.
  void SetHandle(penstock_call* handle);
  void DropHandle();

 protected:
  // PENSTOCK_RUNNING, PENSTOCK_PART or PENSTOCK_ENDED. An end stays: later states do nothing.
  void SetState(int state);
  // The end, seen by the thread that takes the result: event loops are not told.
  void SetTaken();
  // Ends the work, too.
  void SetFailed(const Status& why);
  int state() const;

  // Fills the view and returns the state, as penstock_result. Only where the call is PENSTOCK_PART or
  // PENSTOCK_ENDED.
  virtual int Take(penstock_view* view) = 0;
  // Has the models stop working on it. Any thread; a second time does nothing.
  virtual void Stop() = 0;

 private:
  friend class Models;

  // Sets the state, and tells of it where `tells` and there is something to take. False: the call was
  // over.
  bool Change(int state, const Status& why, bool tells = true);

  const std::shared_ptr<Calls> calls_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  penstock_call* handle_ = nullptr;
  int state_ = PENSTOCK_RUNNING;
  penstock_error error_;
};

}  // namespace penstock::library
