// The functions of penstock.h: they check the process, keep exceptions in, and pass on.
#include "library/penstock.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "library/call.h"
#include "library/models.h"
#include "log/exception_status.h"

using penstock::Status;
using penstock::StatusCode;
using penstock::library::Call;
using penstock::library::Models;

namespace {

// How often this process was forked off: a handle of another number is a parent's, whose threads and
// locks are not there.
std::atomic<uint64_t> forks{0};

}  // namespace

struct penstock_models {
  const uint64_t process = forks;
  std::unique_ptr<Models> models;
};

struct penstock_call {
  const uint64_t process = forks;
  std::shared_ptr<Call> call;
};

namespace {

template <typename Handle>
bool IsForked(const Handle* handle) {
  return handle->process != forks;
}
// Whether the handle can be used in this process.
template <typename Handle>
bool IsOurs(const Handle* handle) {
  return handle != nullptr && !IsForked(handle);
}

Status OpenedBeforeFork() {
  return {StatusCode::kUnavailable,
          "opened before fork(): threads do not survive it; open the models in this process"};
}

std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : text; }

// Why no call can be started; OK: it can.
Status CheckCall(const penstock_models* models, const void* data, bool has_data) {
  if (models == nullptr) return Status::InvalidArgument("models is NULL", "models");
  if (IsForked(models)) return OpenedBeforeFork();
  if (data == nullptr && has_data) return Status::InvalidArgument("the input is NULL", "input");
  return Status::Ok();
}

// Null: no memory is left.
template <typename Start>
penstock_call* NewCall(const Status& refused, const Start& start) noexcept {
  try {
    auto handle = std::make_unique<penstock_call>();
    try {
      handle->call = refused.ok() ? start() : penstock::library::FailedCall(refused);
    } catch (...) {
      handle->call = penstock::library::FailedCall(penstock::ExceptionStatus());
    }
    handle->call->SetHandle(handle.get());
    return handle.release();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

uint32_t penstock_abi(void) { return PENSTOCK_ABI; }
const char* penstock_version(void) { return PENSTOCK_VERSION; }

penstock_models* penstock_open(const char* options, penstock_error** error) {
  Status status;
  try {
    static std::once_flag watched;
    std::call_once(watched, [] { pthread_atfork(nullptr, nullptr, [] { ++forks; }); });
    auto opened = Models::Open(options == nullptr ? std::string_view("{}") : options);
    if (opened.ok()) return new penstock_models{.models = *std::move(opened)};
    status = opened.status();
  } catch (...) {
    status = penstock::ExceptionStatus();
  }
  if (error != nullptr) *error = new (std::nothrow) penstock_error{std::move(status)};
  return nullptr;
}

void penstock_close(penstock_models* models) {
  if (!IsOurs(models)) return;
  penstock::RunGuarded("penstock_close", [&] { delete models; });
}

penstock_call* penstock_embed(penstock_models* models, const penstock_texts* texts,
                              const char* request) {
  return NewCall(CheckCall(models, texts, true),
                 [&] { return models->models->Embed(*texts, request); });
}

penstock_call* penstock_request(penstock_models* models, const char* method, const char* path,
                                const char* headers, const void* body, size_t bytes) {
  return NewCall(CheckCall(models, body, bytes > 0), [&] {
    const std::string_view text(static_cast<const char*>(body), bytes);
    return models->models->Ask({Text(method), Text(path), Text(headers), text});
  });
}

int penstock_wait(penstock_call* call, int64_t timeout_ms) {
  return IsOurs(call) ? call->call->Wait(timeout_ms) : PENSTOCK_FAILED;
}

int penstock_result(penstock_call* call, penstock_view* view) {
  return IsOurs(call) && view != nullptr ? call->call->Result(view) : PENSTOCK_FAILED;
}

void penstock_cancel(penstock_call* call) {
  if (!IsOurs(call)) return;
  penstock::RunGuarded("penstock_cancel", [&] {
    call->call->Cancel({StatusCode::kCancelled, "the call was cancelled"});
  });
}

void penstock_free(penstock_call* call) {
  if (!IsOurs(call)) return;
  call->call->DropHandle();
  penstock_cancel(call);
  delete call;
}

const penstock_error* penstock_call_error(const penstock_call* call) {
  static const penstock_error kForked = {OpenedBeforeFork()};
  if (call == nullptr) return nullptr;
  return IsForked(call) ? &kForked : call->call->error();
}

int penstock_event_fd(penstock_models* models) {
  return IsOurs(models) ? models->models->calls()->Descriptor() : -1;
}

penstock_call* penstock_next(penstock_models* models) {
  return IsOurs(models) ? models->models->calls()->Next() : nullptr;
}

const char* penstock_error_code(const penstock_error* error) {
  return penstock::StatusCodeName(error->status.code());
}
const char* penstock_error_message(const penstock_error* error) {
  return error->status.message().c_str();
}
const char* penstock_error_field(const penstock_error* error) {
  return error->status.field().c_str();
}
int penstock_error_retry_after(const penstock_error* error) {
  return error->status.retry_after_s();
}
void penstock_error_free(penstock_error* error) { delete error; }
