#include "runtime/reference_check.h"

#include <pthread.h>

#include "hub/hub.h"
#include "hub/reference.h"
#include "log/exception_status.h"
#include "log/log.h"

namespace penstock::runtime {
namespace {

bool IsAway(const std::string& reference) {
  if (engine::TensorModelPath(reference)) return false;
  const auto parsed = hub::ModelReference::Parse(reference);
  if (!parsed.ok() || parsed->local()) return false;
  hub::ResolveOptions options;
  options.offline = true;
  return !hub::ResolveModel(reference, options).ok();
}

}  // namespace

ReferenceCheck::ReferenceCheck(const std::vector<registry::ModelSpec>& specs) {
  std::vector<Wanted> wanted;
  for (const registry::ModelSpec& spec : specs) {
    if (!spec.preload && IsAway(spec.reference)) wanted.push_back({spec.name, spec.reference});
  }
  if (wanted.empty()) return;
  RunGuarded("reference check", [&] {
    thread_ = std::thread([this, wanted = std::move(wanted)] {
      pthread_setname_np(pthread_self(), "reference-check");
      for (const Wanted& one : wanted) {
        if (stopping_) return;
        RunGuarded("reference check", [&] { Ask(one); });
      }
    });
  });
}

ReferenceCheck::~ReferenceCheck() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void ReferenceCheck::Ask(const Wanted& wanted) const {
  const auto reference = hub::ModelReference::Parse(wanted.reference);
  if (!reference.ok() || reference->local()) return;
  hub::ResolveOptions options;
  options.http.cancelled = [this] { return stopping_.load(); };
  const Status found = hub::DescribeReference(*reference, options).status();
  const bool told = found.ok() || stopping_ || found.code() == StatusCode::kUnavailable ||
                    found.code() == StatusCode::kCancelled;
  if (told) return;
  LogWarn("model '{}' cannot be had, so requests for it will fail: {}", wanted.name,
          found.message());
}

}  // namespace penstock::runtime
