// The list of checks, and what loads and the doctor pick from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/known_answers.h"

namespace penstock::checks {
namespace {

using testing::ElementsAre;

// Fails in the calls that are named.
class FakeResults final : public CheckedResults {
 public:
  explicit FakeResults(std::string fails, bool is_lost = false) : fails_(std::move(fails)) {
    lost_ = is_lost;
  }
  Expected<std::string> Finite() override { return Call("finite"); }
  Expected<std::string> Batch() override { return Call("batch"); }
  Expected<std::string> Threads() override { return Call("threads"); }

 private:
  Expected<std::string> Call(const std::string& name) const {
    if (fails_.find(name) != std::string::npos) return Status::Internal("no " + name);
    return std::string("yes");
  }
  const std::string fails_;
};

std::vector<std::string> Report(FakeResults results) {
  std::vector<std::string> lines;
  CheckSubject subject;
  subject.results = &results;
  subject.kernels = [] { return std::vector<program::KernelDifference>{{"gemm", 2e-3, 1e-3}}; };
  subject.accuracy = [](const Say& say) {
    say(Verdict::kAdvice, "far");
    return Status::Ok();
  };
  ReportChecks(CheckTime::kDoctor, subject,
               [&](Verdict verdict, const std::string& check, const std::string& text) {
                 lines.push_back(check + (verdict == Verdict::kFailed ? "! " : ": ") + text);
               });
  return lines;
}

TEST(Checks, TheDoctorSaysAllOfThemWhateverFails) {
  const std::string kernels =
      "kernels! gemm: differs by 2.0e-03 of the largest number, 1.0e-03 is allowed";
  EXPECT_THAT(Report(FakeResults("")),
              ElementsAre("finite: yes", "batch: yes", "threads: yes", kernels, "accuracy: far"));
  EXPECT_THAT(Report(FakeResults("finite threads")),
              ElementsAre("finite! no finite", "batch: yes", "threads! no threads", kernels,
                          "accuracy: far"));
  EXPECT_THAT(Report(FakeResults("finite", true)), ElementsAre("finite! no finite"));
}

TEST(Checks, ALoadEndsWithTheFirstThatFails) {
  CheckClock clock(std::chrono::hours(1), nullptr);
  const auto load = [&](const std::string& fails, double error) {
    FakeResults results(fails);
    CheckSubject subject = {.name = "m", .results = &results, .clock = &clock};
    subject.linear = [=] { return Expected<program::KernelDifference>({"layer.0", error, 1e-3}); };
    subject.kernels = [] {
      return std::vector<program::KernelDifference>{{"gemm", 1, 1e-3}};
    };  // not a load's
    return RunChecks(CheckTime::kFirstLoad, subject).message();
  };
  EXPECT_EQ(load("threads", 0), "");
  EXPECT_EQ(load("batch", 0), "no batch");
  EXPECT_EQ(load("finite batch", 0), "no finite");
  EXPECT_THAT(load("finite", 1), testing::HasSubstr("layer.0 differs"));
}

// Where nothing may differ, it is bits that are told of.
TEST(Checks, KernelsThatMustAgreeToTheBit) {
  const auto kernels = [](double error) {
    std::string said;
    FakeResults results("");
    CheckSubject subject;
    subject.results = &results;
    subject.kernels = [=] {
      return std::vector<program::KernelDifference>{{"cuda gemm", error, 0}, {"cuda norm", 0, 0}};
    };
    ReportChecks(CheckTime::kDoctor, subject,
                 [&](Verdict, const std::string& check, const std::string& text) {
                   if (check == "kernels") said = text;
                 });
    return said;
  };
  EXPECT_EQ(kernels(0), "2 kernels have the bits of the emulator");
  EXPECT_EQ(kernels(1), "cuda gemm: other bits than those of the emulator");
}

TEST(Checks, EachRowIsWhole) {
  for (const Check& check : Checks()) {
    EXPECT_NE(std::string(check.name), "");
    EXPECT_NE(check.times, 0u) << check.name;
    EXPECT_FALSE(check.has_needs({})) << check.name;
    EXPECT_NE(check.run, nullptr) << check.name;
  }
}

}  // namespace
}  // namespace penstock::checks
