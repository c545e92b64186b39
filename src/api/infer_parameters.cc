#include "api/infer_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/printable.h"

namespace penstock::api {
namespace {

Status WrongValue(const InferParameter& parameter, std::string_view wanted) {
  std::string name = Shown(parameter.name);
  std::string message = fmt::format("the parameter '{}' must be {}", name, wanted);
  return Status::InvalidArgument(std::move(message), std::move(name));
}

Expected<int64_t> CountOf(const InferParameter& parameter) {
  const auto* number = std::get_if<int64_t>(&parameter.value);
  if (number != nullptr && *number >= 0) return *number;
  return WrongValue(parameter, "an integer from 0 to 9223372036854775807");
}

Expected<bool> TruthOf(const InferParameter& parameter) {
  const auto* truth = std::get_if<bool>(&parameter.value);
  if (truth != nullptr) return *truth;
  return WrongValue(parameter, "true or false");
}

Status CheckNoSequence(const InferParameter& parameter) {
  const bool unset = std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return value.empty() || value == "0";
        } else {
          return value == T{};
        }
      },
      parameter.value);
  if (unset) return Status::Ok();
  return Status::Unsupported(
      fmt::format("the parameter '{}' asks for a sequence: models with state between requests are "
                  "not supported",
                  parameter.name),
      std::string(parameter.name));
}

// True: it was one of shared memory's.
Expected<bool> SetShared(const InferParameter& parameter, SharedMemoryParameters* memory) {
  if (parameter.name == "shared_memory_region") {
    const auto* name = std::get_if<std::string_view>(&parameter.value);
    if (name == nullptr || name->empty()) return WrongValue(parameter, "the name of a region");
    memory->region = *name;
    return true;
  }
  uint64_t* const number = parameter.name == "shared_memory_offset"      ? &memory->offset
                           : parameter.name == "shared_memory_byte_size" ? &memory->bytes
                                                                         : nullptr;
  if (number == nullptr) return false;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t count, CountOf(parameter));
  *number = static_cast<uint64_t>(count);
  return true;
}

}  // namespace

Status InferRequestParameters::Set(const InferParameter& parameter) {
  const std::string_view name = parameter.name;
  if (name == "binary_data_output") {
    PENSTOCK_ASSIGN_OR_RETURN(binary_data_output, TruthOf(parameter));
  } else if (name == "priority") {
    PENSTOCK_ASSIGN_OR_RETURN(priority, CountOf(parameter));
  } else if (name == "timeout") {
    PENSTOCK_ASSIGN_OR_RETURN(timeout_us, CountOf(parameter));
  } else if (name == "sequence_id" || name == "sequence_start" || name == "sequence_end") {
    return CheckNoSequence(parameter);
  } else if (name.starts_with("triton_")) {
    return Status::InvalidArgument(
        fmt::format("the parameter '{}' is reserved: no name may begin with 'triton_'",
                    Shown(name)),
        Shown(name));
  }
  return Status::Ok();
}

void InferRequestParameters::ApplyTo(Clock::time_point begin, RequestContext* context) const {
  if (priority > 1) context->priority = Priority::kBulk;
  if (timeout_us == 0) return;
  // Nanoseconds since the clock's start must not overflow.
  constexpr int64_t kTimeoutUsMax = int64_t{365} * 86400 * 1'000'000;
  const std::chrono::microseconds timeout(std::min(timeout_us, kTimeoutUsMax));
  context->deadline = std::min(context->deadline, begin + timeout);
}

Status InferInputParameters::Set(const InferParameter& parameter) {
  if (parameter.name == "binary_data_size") {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, CountOf(parameter));
    binary_data_size = static_cast<uint64_t>(bytes);
    return Status::Ok();
  }
  return SetShared(parameter, &shared_memory).status();
}

Status InferOutputParameters::Set(const InferParameter& parameter) {
  if (parameter.name == "binary_data") {
    PENSTOCK_ASSIGN_OR_RETURN(const bool binary, TruthOf(parameter));
    binary_data = binary;
    return Status::Ok();
  }
  if (parameter.name == "classification") {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t classes, CountOf(parameter));
    if (classes == 0) return Status::Ok();
    return Status::Unsupported(
        "the parameter 'classification' is not supported: ask for the scores and sort them",
        "classification");
  }
  return SetShared(parameter, &shared_memory).status();
}

}  // namespace penstock::api
