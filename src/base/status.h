// Status and Expected: how every module reports a failure that can be expected.
// Nothing throws across a module; checks (PENSTOCK_CHECK) are for bugs only.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace penstock {

// The kind of failure; serving/error_body.cc maps each to one HTTP status (in brackets).
enum class StatusCode {
  kOk = 0,
  kInvalidArgument,    // the request is malformed [400]
  kUnauthenticated,    // no or wrong key [401]
  kNotFound,           // model or route is not there [404]
  kPayloadTooLarge,    // a limit on size is exceeded [413]
  kUnprocessable,      // well-formed, but cannot be done as asked [422]
  kResourceExhausted,  // a queue is full; try again later [429]
  kUnavailable,        // not ready, or shutting down [503]
  kDeadlineExceeded,   // the request's time ran out before it was worked on [503]
  kCancelled,          // the client left
  kUnsupported,        // a file or setting Penstock does not implement, named in the message [422]
  kInternal,           // a bug or a broken model [500]
};

// "invalid_argument", "not_found", ...
const char* StatusCodeName(StatusCode code);

// An outcome. Cheap when OK. `field` names the request field or setting at fault, or is empty.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string field = {})
      : code_(code), message_(std::move(message)), field_(std::move(field)) {}

  static Status Ok() { return {}; }
  static Status InvalidArgument(std::string message, std::string field = {}) {
    return {StatusCode::kInvalidArgument, std::move(message), std::move(field)};
  }
  static Status NotFound(std::string message, std::string field = {}) {
    return {StatusCode::kNotFound, std::move(message), std::move(field)};
  }
  static Status Unsupported(std::string message, std::string field = {}) {
    return {StatusCode::kUnsupported, std::move(message), std::move(field)};
  }
  static Status Internal(std::string message) {
    return {StatusCode::kInternal, std::move(message)};
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }

  // Seconds a client should wait before it tries again; 0 = not said. For kResourceExhausted.
  int retry_after_s() const { return retry_after_s_; }
  Status&& WithRetryAfter(int seconds) && {
    retry_after_s_ = seconds;
    return std::move(*this);
  }

  // Puts "context: " before the message; keeps code and field.
  Status Annotate(const std::string& context) const;
  // "invalid_argument: message (field)".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  int retry_after_s_ = 0;
  std::string message_;
  std::string field_;
};

// A value, or the Status that says why it is missing. (std::expected is C++23.)
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT
  Expected(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // OK when there is a value.
  Status status() const& { return ok() ? Status::Ok() : std::get<1>(state_); }
  // Moves the message: allocates nothing.
  Status status() && { return ok() ? Status::Ok() : std::get<1>(std::move(state_)); }
  StatusCode code() const { return ok() ? StatusCode::kOk : std::get<1>(state_).code(); }

 private:
  std::variant<T, Status> state_;
};

// Ends the process with a message: a bug was found, going on would give wrong answers.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace penstock

#define PENSTOCK_CHECK(condition)                                   \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::penstock::CheckFailed(__FILE_NAME__, __LINE__, #condition); \
  } while (false)

#define PENSTOCK_RETURN_IF_ERROR(expression)                                        \
  do {                                                                              \
    if (::penstock::Status penstock_status_ = (expression); !penstock_status_.ok()) \
      return penstock_status_;                                                      \
  } while (false)

#define PENSTOCK_CONCAT_INNER_(a, b) a##b
#define PENSTOCK_CONCAT_(a, b) PENSTOCK_CONCAT_INNER_(a, b)
// PENSTOCK_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's Status.
#define PENSTOCK_ASSIGN_OR_RETURN(lhs, expression) \
  PENSTOCK_ASSIGN_OR_RETURN_(PENSTOCK_CONCAT_(penstock_expected_, __LINE__), lhs, expression)
#define PENSTOCK_ASSIGN_OR_RETURN_(tmp, lhs, expression) \
  auto tmp = (expression);                               \
  if (!tmp.ok()) return tmp.status();                    \
  lhs = *std::move(tmp)
