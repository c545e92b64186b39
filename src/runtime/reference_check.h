// ReferenceCheck: models that are not on this machine, and that requests will load, are looked for
// at the hub when the server starts, so that a mistyped reference is told before the first request
// fails. On a thread of its own; downloads nothing.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "registry/registry.h"

namespace penstock::runtime {

class ReferenceCheck {
 public:
  // Asks for those of `specs` that are references of the hub and not here, one after the other, and
  // warns of what the hub does not have or give. Where the hub does not answer, nothing is said.
  explicit ReferenceCheck(const std::vector<registry::ModelSpec>& specs);
  // Gives up what is under way.
  ~ReferenceCheck();
  ReferenceCheck(const ReferenceCheck&) = delete;
  ReferenceCheck& operator=(const ReferenceCheck&) = delete;

 private:
  struct Wanted {
    std::string name;
    std::string reference;
  };
  void Ask(const Wanted& wanted) const;

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace penstock::runtime
