// The functions of penstock.h: they check the process, keep exceptions in, and pass on.
#include "library/penstock.h"

#include <unistd.h>

#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "common/exception_status.h"
#include "library/call.h"
#include "library/models.h"

using penstock::Status;
using penstock::StatusCode;
using penstock::library::Call;
using penstock::library::Models;

struct penstock_models {
  const pid_t process = getpid();
  std::unique_ptr<Models> models;
};

struct penstock_call {
  const pid_t process = getpid();
  std::shared_ptr<Call> call;
};

namespace {

// Threads and locks of the parent are not there after fork().
template <typename Handle>
bool IsForked(const Handle* handle) {
  return handle->process != getpid();
}

Status OpenedBeforeFork() {
  return {StatusCode::kUnavailable,
          "opened before fork(): threads do not survive it; open the models in this process"};
}

std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : text; }

// Null: no memory is left.
template <typename Start>
penstock_call* NewCall(penstock_models* models, const Start& start) noexcept {
  try {
    auto handle = std::make_unique<penstock_call>();
    try {
      handle->call = IsForked(models) ? penstock::library::FailedCall(OpenedBeforeFork())
                                      : start(models->models.get());
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
  if (models == nullptr || IsForked(models)) return;
  penstock::RunGuarded("penstock_close", [&] { delete models; });
}

penstock_call* penstock_embed(penstock_models* models, const penstock_texts* texts,
                              const char* request) {
  return NewCall(models, [&](Models* of) { return of->Embed(*texts, request); });
}

penstock_call* penstock_request(penstock_models* models, const char* method, const char* path,
                                const char* headers, const void* body, size_t bytes) {
  return NewCall(models, [&](Models* of) {
    const std::string_view text(static_cast<const char*>(body), bytes);
    return of->Ask({Text(method), Text(path), Text(headers), text});
  });
}

int penstock_wait(penstock_call* call, int64_t timeout_ms) {
  return IsForked(call) ? PENSTOCK_FAILED : call->call->Wait(timeout_ms);
}

int penstock_result(penstock_call* call, penstock_view* view) {
  return IsForked(call) ? PENSTOCK_FAILED : call->call->Result(view);
}

void penstock_cancel(penstock_call* call) {
  if (IsForked(call)) return;
  penstock::RunGuarded("penstock_cancel", [&] {
    call->call->Cancel({StatusCode::kCancelled, "the call was cancelled"});
  });
}

void penstock_free(penstock_call* call) {
  if (call == nullptr || IsForked(call)) return;
  call->call->DropHandle();
  penstock_cancel(call);
  delete call;
}

const penstock_error* penstock_call_error(const penstock_call* call) {
  static const penstock_error kForked = {OpenedBeforeFork()};
  return IsForked(call) ? &kForked : call->call->error();
}

int penstock_event_fd(penstock_models* models) {
  return IsForked(models) ? -1 : models->models->calls()->Descriptor();
}

penstock_call* penstock_next(penstock_models* models) {
  return IsForked(models) ? nullptr : models->models->calls()->Next();
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
