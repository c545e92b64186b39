// Check: something that must hold for a model, or for this machine, before its results are trusted.
//
// One list (list.cc) has all of them, a row each. A load runs the rows of loads (model_load.h),
// `penstock doctor` those of the doctor. A row runs where the subject has what it needs. Another
// check is a row, and a member of CheckSubject if it looks at something new.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checks/linear_check.h"
#include "numbers/dtype.h"
#include "program/kernel_difference.h"

namespace penstock::generate {
struct TextModel;  // generate/text_model.h
}  // namespace penstock::generate

namespace penstock::text {
class Tokenizer;  // text/tokenizer.h
}  // namespace penstock::text

namespace penstock::checks {

class CheckClock;      // known_answers.h
struct RunnerToCheck;  // known_answers.h

enum class CheckTime : uint8_t {
  kFirstLoad = 1,  // of a model on a machine, within the time of a CheckClock
  kEachLoad = 2,
  kDoctor = 4,
};

enum class Verdict : uint8_t { kOk, kAdvice, kSkipped, kFailed };
// Takes what a check found. kAdvice: nothing is wrong, but the user may not want it.
using Say = std::function<void(Verdict, const std::string& text)>;
using SayOfCheck = std::function<void(Verdict, const std::string& check, const std::string& text)>;

// Results of a model, which must not depend on how they are computed: for made-up tokens while it
// loads, for built-in texts under the doctor. Each call gives the words of a check that held; "":
// there is nothing to say. kInternal: it did not hold; other errors are those of running the model.
class CheckedResults {
 public:
  virtual ~CheckedResults() = default;
  // First of all: they are finite.
  virtual Expected<std::string> Finite() = 0;
  // They have the same bits alone and among others.
  virtual Expected<std::string> Batch() = 0;
  // The model is one whose answers Penstock knows, and it gives them; kSkipped: it is not.
  virtual Status Answers(double /*tolerance*/, const Say& /*say*/) { return Status::Ok(); }
  // And with one thread. The model that was loaded is freed for this.
  virtual Expected<std::string> Threads() { return std::string(); }
  // The whole model gives nearly the same by plain kernels.
  virtual Expected<std::string> Kernels(double /*tolerance*/) { return std::string(); }
  // There are none to check: the model did not run.
  bool lost() const { return lost_; }

 protected:
  bool lost_ = false;
};

// What checks look at; null or empty: it is not there.
struct CheckSubject {
  std::string name;  // of the model, as served
  CheckedResults* results = nullptr;

  // A load has these.
  CheckClock* clock = nullptr;
  LinearChecker linear;
  std::string path;                        // may have known_answers.json
  const RunnerToCheck* encoder = nullptr;  // or
  const generate::TextModel* decoder = nullptr;

  // The doctor has these.
  numbers::DType dtype = numbers::DType::kF32;  // what linear layers compute in
  const text::Tokenizer* tokenizer = nullptr;   // until results->Threads
  std::function<Expected<std::vector<program::KernelDifference>>()> kernels;
  std::function<Status(const Say&)> accuracy;  // compares types with f32
};

struct Check {
  const char* name;
  unsigned times;  // bits of CheckTime
  bool (*has_needs)(const CheckSubject& subject);
  double (*tolerance)(numbers::DType dtype);  // null: none, or one of its own
  // Says what holds; an error: it does not, or cannot be told.
  Status (*run)(const CheckSubject& subject, double tolerance, const Say& say);
};

std::span<const Check> Checks();

// Run those of `time` in the order of the list: up to the first error, or all of them, where an
// error is said as kFailed and only results that are lost end it.
Status RunChecks(CheckTime time, const CheckSubject& subject);
void ReportChecks(CheckTime time, const CheckSubject& subject, const SayOfCheck& say);

}  // namespace penstock::checks
