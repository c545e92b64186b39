// Waits in a test for what another thread or process brings about.
#pragma once

#include <chrono>
#include <thread>

namespace penstock {

// Whether the condition comes true within the limit, which is generous: the machine may be busy.
template <typename Condition>
bool Eventually(const Condition& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // polls: nothing signals a change
  }
  return true;
}

}  // namespace penstock
