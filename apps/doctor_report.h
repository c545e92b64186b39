// The lines that penstock doctor prints, one a check.
#pragma once

#include <cstdio>
#include <string>

#include "text/tokenizer.h"

namespace penstock {

class DoctorReport {
 public:
  void Line(bool ok, const std::string& check, const std::string& detail) {
    Print(ok ? "ok" : "FAIL", check, detail);
    failed_ = failed_ || !ok;
  }
  void Skip(const std::string& check, const std::string& why) { Print("-", check, why); }
  // Advice: nothing is wrong, but the user may not want it.
  void Advise(bool good, const std::string& check, const std::string& detail) {
    Print(good ? "ok" : "WARN", check, detail);
  }
  bool failed() const { return failed_; }

 private:
  static void Print(const char* verdict, const std::string& check, const std::string& detail) {
    std::printf("%-4s  %-9s  %s\n", verdict, check.c_str(), detail.c_str());
    std::fflush(stdout);
  }
  bool failed_ = false;
};

// Decoding and encoding again must give the tokens of a plain sentence.
void CheckTokenizer(const Tokenizer& tokenizer, DoctorReport* report);
// Each kernel of each instruction set against the plain one, on random input.
void CheckEachKernel(DoctorReport* report);

}  // namespace penstock
