// SoakVerdict: the expectations of a soak, its measurements, and whether they held. One thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "load/table.h"

namespace penstock::lab {

// Finish() prints the table; kInternal names those that did not hold.
class SoakVerdict {
 public:
  SoakVerdict() : table_({"expected", "measured", "limit", ""}) {}
  void Expect(const std::string& what, const std::string& measured, const std::string& limit,
              bool held) {
    table_.AddRow({what, measured, limit, held ? "ok" : "FAILED"});
    if (!held) failed_ += (failed_.empty() ? "" : "; ") + what;
  }
  void ExpectNone(const std::string& what, uint64_t count) {
    Expect(what, std::to_string(count), "0", count == 0);
  }
  void ExpectAtMost(const std::string& what, double measured, double limit) {
    Expect(what, load::ShortNumber(measured), load::ShortNumber(limit), measured <= limit);
  }
  void ExpectEqual(const std::string& what, double measured, double wanted) {
    Expect(what, fmt::format("{:.0f}", measured), fmt::format("{:.0f}", wanted),
           measured == wanted);
  }
  Status Finish() const {
    table_.Print();
    return failed_.empty() ? Status::Ok() : Status::Internal("did not hold: " + failed_);
  }

 private:
  load::BenchTable table_;
  std::string failed_;
};

}  // namespace penstock::lab
