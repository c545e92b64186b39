// The list of all checks.
#include <fmt/format.h>

#include "checks/check.h"
#include "checks/expected_answers.h"
#include "checks/known_answers.h"
#include "log/log.h"
#include "text/tokenizer.h"

namespace penstock::checks {
namespace {

constexpr unsigned kFirstLoad = static_cast<unsigned>(CheckTime::kFirstLoad);
constexpr unsigned kEachLoad = static_cast<unsigned>(CheckTime::kEachLoad);
constexpr unsigned kDoctor = static_cast<unsigned>(CheckTime::kDoctor);

bool HasResults(const CheckSubject& subject) { return subject.results != nullptr; }

Status Told(const Expected<std::string>& found, const Say& say) {
  if (found.ok() && !found->empty()) say(Verdict::kOk, *found);
  return found.status();
}

Status RoundTrip(const text::Tokenizer& tokenizer, const Say& say) {
  const std::string text = "the water flows down the pipe and turns the wheel";
  text::Encoding first, second;
  text::EncodeOptions options;
  options.add_special_tokens = false;
  if (!tokenizer.Encode(text, options, &first).ok()) {
    return Status::Internal("cannot encode a plain sentence");
  }
  const std::string decoded = tokenizer.Decode(first.ids, true);
  const std::string found =
      fmt::format("{} tokens, decoded and encoded again: {}", first.ids.size(), decoded);
  const bool same = tokenizer.Encode(decoded, options, &second).ok() && first.ids == second.ids;
  return Told(same ? Expected<std::string>(found) : Status::Internal(found), say);
}

Status OwnAnswers(const CheckSubject& subject, double, const Say&) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto expected, ExpectedAnswers::Read(subject.path));
  if (!expected) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(subject.encoder != nullptr
                               ? CompareAnswers(*expected, *subject.encoder, subject.clock)
                               : CompareAnswers(*expected, *subject.decoder, subject.clock));
  LogDebug("{}: gives the answers of {}", subject.name, ExpectedAnswers::kFileName);
  return Status::Ok();
}

Status EachKernel(const CheckSubject& subject, double, const Say& say) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<program::KernelDifference> all, subject.kernels());
  size_t exact = 0;
  for (const program::KernelDifference& one : all) {
    if (one.error_max == 0) ++exact;
    if (one.ok()) continue;
    if (one.error_max == 0) {
      return Status::Internal(one.of + ": other bits than those of the emulator");
    }
    return Status::Internal(
        fmt::format("{}: differs by {:.1e} of the largest number, {:.1e} is allowed", one.of,
                    one.error, one.error_max));
  }
  if (exact > 0 && exact == all.size()) {
    say(Verdict::kOk, fmt::format("{} kernels have the bits of the emulator", exact));
    return Status::Ok();
  }
  say(Verdict::kOk, fmt::format("{} checks of vector kernels against plain ones", all.size()));
  return Status::Ok();
}

// In the order in which they run: the cheap ones, and those whose failure explains others, first.
constexpr Check kChecks[] = {
    // Decoding and encoding again gives the tokens of a plain sentence.
    {"tokenizer", kDoctor, [](const CheckSubject& of) { return of.tokenizer != nullptr; }, nullptr,
     [](const CheckSubject& of, double, const Say& say) { return RoundTrip(*of.tokenizer, say); }},
    // A linear layer gives what plain arithmetic on the file's weights gives.
    {"kernels", kFirstLoad, [](const CheckSubject& of) { return of.linear != nullptr; }, nullptr,
     [](const CheckSubject& of, double, const Say&) { return CheckLinear(of.linear, of.clock); }},
    // Results are finite; of a load: and not all the same number.
    {"finite", kFirstLoad | kDoctor, HasResults, nullptr,
     [](const CheckSubject& of, double, const Say& say) {
       return Told(of.results->Finite(), say);
     }},
    // They have the same bits alone and among others.
    {"batch", kFirstLoad | kDoctor, HasResults, nullptr,
     [](const CheckSubject& of, double, const Say& say) { return Told(of.results->Batch(), say); }},
    // The model gives the answers that it comes with, to the tolerance of the file or the type.
    {"answers", kEachLoad, [](const CheckSubject& of) { return of.encoder || of.decoder; }, nullptr,
     OwnAnswers},
    // Models that are known to Penstock agree with the reference implementation.
    {"answers", kDoctor, HasResults, CosineTolerance,
     [](const CheckSubject& of, double tolerance, const Say& say) {
       return of.results->Answers(tolerance, say);
     }},
    // One thread gives the same bits.
    {"threads", kDoctor, HasResults, nullptr,
     [](const CheckSubject& of, double, const Say& say) {
       return Told(of.results->Threads(), say);
     }},
    // Each kernel of each instruction set agrees with the plain one, on random input.
    {"kernels", kDoctor, [](const CheckSubject& of) { return bool{of.kernels}; }, nullptr,
     EachKernel},
    // And so does the whole model.
    {"kernels", kDoctor, HasResults, KernelTolerance,
     [](const CheckSubject& of, double tolerance, const Say& say) {
       return Told(of.results->Kernels(tolerance), say);
     }},
    // Types and caches that take less memory are near f32.
    {"accuracy", kDoctor, [](const CheckSubject& of) { return of.accuracy != nullptr; }, nullptr,
     [](const CheckSubject& of, double, const Say& say) { return of.accuracy(say); }},
};

bool IsMeant(const Check& check, CheckTime time, const CheckSubject& subject) {
  return (check.times & static_cast<unsigned>(time)) != 0 && check.has_needs(subject);
}

Status RunOne(const Check& check, const CheckSubject& subject, const Say& say) {
  return check.run(subject, check.tolerance == nullptr ? 0 : check.tolerance(subject.dtype), say);
}

}  // namespace

std::span<const Check> Checks() { return kChecks; }

Status RunChecks(CheckTime time, const CheckSubject& subject) {
  for (const Check& check : kChecks) {
    if (!IsMeant(check, time, subject)) continue;
    PENSTOCK_RETURN_IF_ERROR(RunOne(check, subject, [](Verdict, const std::string&) {}));
  }
  return Status::Ok();
}

void ReportChecks(CheckTime time, const CheckSubject& subject, const SayOfCheck& say) {
  for (const Check& check : kChecks) {
    if (!IsMeant(check, time, subject)) continue;
    const Say tell = [&](Verdict verdict, const std::string& text) {
      say(verdict, check.name, text);
    };
    const Status status = RunOne(check, subject, tell);
    if (!status.ok()) tell(Verdict::kFailed, status.message());
    if (subject.results != nullptr && subject.results->lost()) return;
  }
}

}  // namespace penstock::checks
