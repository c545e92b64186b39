// penstock doctor: does this model compute here what it should? Each line is one check.
//
//   load       the folder is understood and its weights fit together
//   tokenizer  decoding and encoding again gives the same tokens
//   finite     results are finite, and of length 1 where the model normalises
//   batch      a text gives the same bits alone and among others
//   threads    and the same bits with one thread
//   kernels    each kernel of each instruction set agrees with the plain one, on random input,
//              and so does the whole model
//   answers    for models known to Penstock: results agree with the reference implementation
//   accuracy   how far bf16 and int8 are from f32 on many texts; WARN: not advisable
//
// Those of a decoder are in doctor_decoder.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "api/scores.h"
#include "checks/linear_check.h"
#include "commands.h"
#include "cpu/self_check.h"
#include "doctor_accuracy.h"
#include "doctor_decoder.h"
#include "doctor_report.h"
#include "inspect_decoder.h"
#include "model_flags.h"
#include "request_window.h"

namespace penstock {
namespace {

// Texts of different lengths and scripts, for different shapes of batches.
const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      "That is a happy person",
      "That is a very happy person",
      "a",
      "The penstock carries water from the reservoir to the turbine; its gate regulates the flow.",
      "Größe, naïve café, 北京大学, здравствуйте, 🙂",
      "0123456789 3.14159 https://example.org/path?query=1#fragment",
      std::string(2000, 'x') + " a word longer than any vocabulary",
      [] {
        std::string text;
        for (int i = 0; i < 300; ++i) text += "water flows down the pipe and turns the wheel ";
        return text;
      }(),
  };
  return texts;
}

// Raw output rows of a model for the texts: vectors, or logits.
Expected<std::vector<std::vector<float>>> Outputs(LocalModels* local,
                                                  const std::vector<std::string>& texts) {
  std::vector<std::vector<float>> rows;
  const ModelInfo info = local->service->Models().front();
  if (info.task == "embedding") {
    EmbedRequest request;
    for (const std::string& text : texts) {
      Input input;
      input.text = text;
      request.inputs.push_back(std::move(input));
    }
    request.text.prompt = "";
    request.text.truncate = true;
    PENSTOCK_ASSIGN_OR_RETURN(auto response, Ask<EmbedResponse>([&](Callback<EmbedResponse> done) {
                                               local->service->Embed(request, {}, std::move(done));
                                             }).get());
    for (size_t from = 0; from < response.values.size(); from += response.dimensions) {
      const auto begin = response.values.begin() + static_cast<ptrdiff_t>(from);
      rows.emplace_back(begin, begin + response.dimensions);
    }
    return rows;
  }
  ClassifyRequest request;
  request.raw_scores = true;
  request.text.truncate = true;
  for (const std::string& text : texts) request.inputs.push_back({text, "A second text."});
  PENSTOCK_ASSIGN_OR_RETURN(auto response,
                            Ask<ClassifyResponse>([&](Callback<ClassifyResponse> done) {
                              local->service->Classify(request, {}, std::move(done));
                            }).get());
  for (const auto& labels : response.inputs) {
    auto& row = rows.emplace_back(labels.size());
    for (const auto& label : labels) row[label.id] = label.score;
  }
  return rows;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, std::abs(double{a[i]}), std::abs(double{b[i]})});
    error = std::max(error, std::abs(double{a[i]} - b[i]));
  }
  return largest == 0 ? 0 : error / largest;
}

void CheckFinite(const std::vector<std::vector<float>>& rows, bool unit_length,
                 DoctorReport* report) {
  double worst = 0;
  bool finite = true;
  for (const auto& row : rows) {
    double squares = 0;
    for (const float x : row) {
      finite = finite && std::isfinite(x);
      squares += double{x} * x;
    }
    worst = std::max(worst, std::abs(std::sqrt(squares) - 1));
  }
  const bool ok = finite && (!unit_length || worst < 1e-5);
  report->Line(ok, "finite",
               unit_length ? fmt::format("lengths differ from 1 by {:.1e} at most", worst)
                           : "every number is finite");
}

void CheckBatch(LocalModels* local, const std::vector<std::vector<float>>& together,
                DoctorReport* report) {
  for (size_t i = 0; i < Texts().size(); ++i) {
    const auto alone = Outputs(local, {Texts()[i]});
    if (!alone.ok()) return report->Line(false, "batch", alone.status().message());
    if (!SameBits(alone->front(), together[i])) {
      return report->Line(false, "batch",
                          fmt::format("text {} gives other bits alone than among others: {:.1e}", i,
                                      RelativeError(alone->front(), together[i])));
    }
  }
  report->Line(true, "batch",
               fmt::format("{} texts: the same bits alone and together", Texts().size()));
}

// Results of the same model on another backend.
Expected<std::vector<std::vector<float>>> OutputsWith(ModelOptions flags, int threads,
                                                      const std::string& isa) {
  flags.threads = threads;
  flags.isa = isa;
  PENSTOCK_ASSIGN_OR_RETURN(auto local, LocalModels::Load(flags));
  return Outputs(local.get(), Texts());
}

void CheckThreads(const ModelOptions& flags, const std::vector<std::vector<float>>& rows,
                  DoctorReport* report) {
  const auto other = OutputsWith(flags, 1, flags.isa);
  if (!other.ok()) return report->Line(false, "threads", other.status().message());
  report->Line(std::equal(rows.begin(), rows.end(), other->begin(), other->end(), SameBits),
               "threads", "one thread gives the same bits");
}

void CheckKernels(const ModelOptions& flags, const std::vector<std::vector<float>>& rows,
                  const std::string& backend, double tolerance, DoctorReport* report) {
  const auto plain = OutputsWith(flags, flags.threads, "scalar");
  if (!plain.ok()) return report->Line(false, "kernels", plain.status().message());
  double worst = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    worst = std::max(worst, RelativeError(rows[i], (*plain)[i]));
  }
  report->Line(
      worst < tolerance, "kernels",
      fmt::format("{} and plain kernels differ by {:.1e} of the largest number", backend, worst));
}

// Cosines of sentence pairs as sentence-transformers 6.2.0 gives them on a CPU; the same numbers as
// in tests/golden/minilm/expected.json.
struct KnownModel {
  const char* name_part;
  int32_t layers;
  int32_t dimensions;
  const char* first;
  const char* second;
  double cosine;
};
constexpr KnownModel kKnownModels[] = {
    {"all-MiniLM-L6-v2", 6, 384, "That is a happy person", "That is a very happy person", 0.942915},
};

void CheckAnswers(LocalModels* local, double tolerance, DoctorReport* report) {
  const ModelInfo info = local->service->Models().front();
  const int32_t layers =
      (*local->registry->Find<EncoderEngine>(""))->folder().encoder.num_hidden_layers;
  for (const KnownModel& known : kKnownModels) {
    if ((info.name + info.path).find(known.name_part) == std::string::npos ||
        info.dimensions != known.dimensions || layers != known.layers) {
      continue;
    }
    const auto rows = Outputs(local, {known.first, known.second});
    if (!rows.ok()) return report->Line(false, "answers", rows.status().message());
    const double cosine = SimilarityOf("cosine", (*rows)[0], (*rows)[1]);
    return report->Line(std::abs(cosine - known.cosine) < tolerance, "answers",
                        fmt::format("{}: cosine of a known pair is {:.6f}, the reference {:.6f}",
                                    known.name_part, cosine, known.cosine));
  }
  report->Skip("answers", "no known answers for this model");
}

int RunDecoder(const CommandLine& line, const DecoderPlace& place, const ModelOptions& flags,
               const AccuracyFlags& accuracy) {
  for (const char* flag : {"pooling", "int8-keep", "try-keep"}) {
    if (line.on_line().contains(flag)) {
      return line.FailUsage(fmt::format("--{}: for encoders only", flag));
    }
  }
  DoctorReport report;
  DiagnoseDecoder(place, flags, accuracy, &report);
  return report.failed() ? kExitFailure : kExitOk;
}

}  // namespace

void CheckTokenizer(const Tokenizer& tokenizer, DoctorReport* report) {
  const std::string text = "the water flows down the pipe and turns the wheel";
  Encoding first, second;
  EncodeOptions options;
  options.add_special_tokens = false;
  if (!tokenizer.Encode(text, options, &first).ok()) {
    return report->Line(false, "tokenizer", "cannot encode a plain sentence");
  }
  const std::string decoded = tokenizer.Decode(first.ids, true);
  const bool ok = tokenizer.Encode(decoded, options, &second).ok() && first.ids == second.ids;
  report->Line(ok, "tokenizer",
               fmt::format("{} tokens, decoded and encoded again: {}", first.ids.size(), decoded));
}

void CheckEachKernel(DoctorReport* report) {
  const std::vector<cpu::KernelCheck> checks = cpu::CheckKernels();
  for (const cpu::KernelCheck& check : checks) {
    if (check.ok()) continue;
    return report->Line(
        false, "kernels",
        fmt::format("{} {}: differs by {:.1e} of the largest number, {:.1e} is allowed", check.isa,
                    check.kernel, check.error, check.error_max));
  }
  report->Line(true, "kernels",
               fmt::format("{} checks of vector kernels against plain ones", checks.size()));
}

int RunDoctor(const std::vector<std::string>& args) {
  CommandLine line("doctor",
                   "Check that a model computes what it should on this machine. Prints ok or FAIL "
                   "for each check;\nthe exit code is 1 if one failed. WARN: a type that costs "
                   "this model too much accuracy.",
                   "  penstock doctor --model sentence-transformers/all-MiniLM-L6-v2\n"
                   "  penstock doctor --model model.gguf\n"
                   "  penstock doctor --model MODEL --texts corpus.txt --json accuracy.json\n"
                   "  penstock doctor --model MODEL --int8-keep qkv,-1 --try-keep\n");
  ModelOptions flags;
  AccuracyFlags accuracy;
  AddModelFlags(&line, &flags, false, "warn");
  AddAccuracyFlags(&line, &accuracy);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(flags); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  flags.check_models = false;  // the report says more
  DoctorReport report;
  const auto decoder = FindDecoder(flags);
  if (!decoder.ok()) {
    report.Line(false, "load", decoder.status().message());
    return kExitFailure;
  }
  if (*decoder) return RunDecoder(line, **decoder, flags, accuracy);
  TakeDefaultModel(&flags);
  if (const Status fetched = FetchModels(flags); !fetched.ok()) {
    report.Line(false, "load", fetched.message());
    return kExitFailure;
  }
  auto local = LocalModels::Load(flags);
  if (!local.ok()) {
    report.Line(false, "load", local.status().message());
    return kExitFailure;
  }
  const ModelInfo info = (*local)->service->Models().front();
  Lease<EncoderEngine> engine = *(*local)->registry->Find<EncoderEngine>("");
  const DType dtype = engine->info().dtype;
  const bool normalize = engine->folder().normalize;
  flags.dtypes = {DTypeFlag(dtype)};  // the same on every backend
  report.Line(true, "load",
              fmt::format("{}: {}, {}, {} parameters, {}, {}", info.name, info.task,
                          info.architecture, info.parameters, DTypeFlag(dtype), info.backend));
  CheckTokenizer(engine->tokenizer(), &report);
  engine = {};  // LocalModels end before this function does, and wait for leases
  const auto rows = Outputs(local->get(), Texts());
  if (!rows.ok()) {
    report.Line(false, "finite", rows.status().message());
    return kExitFailure;
  }
  CheckFinite(*rows, info.task == "embedding" && normalize, &report);
  CheckBatch(local->get(), *rows, &report);
  CheckAnswers(local->get(), CosineTolerance(dtype), &report);
  local->reset();  // its memory and processors are needed for the others
  CheckThreads(flags, *rows, &report);
  CheckEachKernel(&report);
  CheckKernels(flags, *rows, info.backend, KernelTolerance(dtype), &report);
  if (accuracy.count != 0) {
    const Status compared =
        CompareTypes(flags, accuracy, [&](bool advisable, const std::string& text) {
          report.Advise(advisable, "accuracy", text);
        });
    if (!compared.ok()) report.Line(false, "accuracy", compared.message());
  } else {
    report.Skip("accuracy", "--accuracy-texts is 0");
  }
  return report.failed() ? kExitFailure : kExitOk;
}

}  // namespace penstock
