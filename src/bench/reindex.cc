#include "bench/reindex.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/kernel_loop.h"
#include "load/penstock_process.h"
#include "load/server_process.h"
#include "load/table.h"
#include "load/text_file.h"
#include "log/step_progress.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Texts of a batch in the kernel loop and in penstock embed.
constexpr size_t kBatchTextsMax = 512;

// A folder that goes with its object.
class TemporaryFolder {
 public:
  Status Make() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return {StatusCode::kUnavailable, "cannot make a folder: " + name};
    }
    path_ = name;
    return Status::Ok();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class Reindex {
 public:
  explicit Reindex(const ReindexOptions& options) : options_(options) {}

  Status Prepare();
  Status RunRound();
  void Report(load::BenchRecords* records) const;

 private:
  Expected<double> SecondsOfEmbed(const std::vector<std::string>& source, const std::string& input);
  // Seconds of the texts after the first.
  Expected<double> SecondsOfTexts(const std::vector<std::string>& source);
  std::vector<std::string> ModelFlags() const {
    return {"--model",  options_.model_folder, "--threads", std::to_string(options_.threads),
            "--device", options_.device};
  }

  const ReindexOptions& options_;
  TemporaryFolder folder_;
  std::unique_ptr<KernelLoop> kernel_;
  int rounds_ = 0;
  double kernel_s_ = 0;
  double local_s_ = 0;
  double url_s_ = 0;
};

Status Reindex::Prepare() {
  load::TextSource source(options_.lengths, options_.seed);
  if (!options_.text_file.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(source, load::TextSource::FromFile(options_.text_file));
  }
  std::vector<std::string> texts;
  std::string lines;
  for (size_t i = 0; i < options_.texts; ++i) {
    texts.push_back(source.Next());
    lines += texts.back() + '\n';
  }
  PENSTOCK_RETURN_IF_ERROR(folder_.Make());
  PENSTOCK_RETURN_IF_ERROR(load::WriteTextFile(folder_.File("all.txt"), lines));
  PENSTOCK_RETURN_IF_ERROR(load::WriteTextFile(folder_.File("one.txt"), texts[0] + '\n'));
  PENSTOCK_ASSIGN_OR_RETURN(
      kernel_, KernelLoop::Load(options_.model_folder, {options_.device, options_.threads}, texts,
                                options_.batch_tokens, kBatchTextsMax));
  std::printf("%s, %zu texts of %.1f tokens, batches of %zu tokens at most\n\n",
              kernel_->backend_name().c_str(), options_.texts, kernel_->mean_tokens(),
              options_.batch_tokens);
  return Status::Ok();
}

Expected<double> Reindex::SecondsOfEmbed(const std::vector<std::string>& source,
                                         const std::string& input) {
  std::vector<std::string> words = {
      "embed", "--quiet", "--restart", "-o", folder_.File("out.npy"), folder_.File(input)};
  words.insert(words.end(), source.begin(), source.end());
  const auto begin = Clock::now();
  PENSTOCK_ASSIGN_OR_RETURN(const int exit_code, load::RunPenstock(words));
  if (exit_code == 0) return std::chrono::duration<double>(Clock::now() - begin).count();
  return Status(StatusCode::kUnavailable, fmt::format("penstock embed ended with {}", exit_code));
}

Expected<double> Reindex::SecondsOfTexts(const std::vector<std::string>& source) {
  PENSTOCK_ASSIGN_OR_RETURN(const double one_s, SecondsOfEmbed(source, "one.txt"));
  PENSTOCK_ASSIGN_OR_RETURN(const double all_s, SecondsOfEmbed(source, "all.txt"));
  return all_s - one_s;
}

Status Reindex::RunRound() {
  ++rounds_;
  PENSTOCK_ASSIGN_OR_RETURN(const KernelLoop::Result kernel, kernel_->RunOnce());
  kernel_s_ += kernel.seconds;
  const std::string batch_tokens = std::to_string(options_.batch_tokens);
  std::vector<std::string> local = ModelFlags();
  local.insert(local.end(), {"--max-batch-tokens", batch_tokens, "--max-batch-rows",
                             std::to_string(kBatchTextsMax)});
  PENSTOCK_ASSIGN_OR_RETURN(const double local_s, SecondsOfTexts(local));
  local_s_ += local_s;
  // A server of its own for each round: none knows the texts of the one before.
  std::vector<std::string> server_flags = local;
  server_flags.insert(server_flags.end(), {"--log-level", "warn"});
  PENSTOCK_ASSIGN_OR_RETURN(const auto server, load::ServerProcess::Start(server_flags));
  PENSTOCK_ASSIGN_OR_RETURN(const double url_s,
                            SecondsOfTexts({"--url", load::UrlOf(server->target())}));
  url_s_ += url_s;
  return Status::Ok();
}

void Reindex::Report(load::BenchRecords* records) const {
  const double texts = static_cast<double>(options_.texts) * rounds_;
  const double kernel_rate = texts / kernel_s_;
  load::BenchTable table({"", "texts/s", "tokens/s", "ratio"});
  const auto add = [&](const char* name, double rate) {
    table.AddRow({name, load::ShortNumber(rate), load::ShortNumber(rate * kernel_->mean_tokens()),
                  fmt::format("{:.3f}", rate / kernel_rate)});
  };
  const double after_first = texts - rounds_;
  add("kernel loop", kernel_rate);
  add("embed", after_first / local_s_);
  add("embed --url", after_first / url_s_);
  table.Print();
  records->Add("reindex.kernel_loop_texts_per_s", kernel_rate, "1/s");
  records->Add("reindex.texts_per_s", after_first / local_s_, "1/s");
  records->Add("reindex.url_texts_per_s", after_first / url_s_, "1/s");
  records->Add("reindex.rate_ratio_vs_kernel_loop", after_first / local_s_ / kernel_rate, "1");
  records->Add("reindex.url_rate_ratio_vs_kernel_loop", after_first / url_s_ / kernel_rate, "1");
}

}  // namespace

Status RunReindex(const ReindexOptions& options, load::BenchRecords* records) {
  Reindex reindex(options);
  PENSTOCK_RETURN_IF_ERROR(reindex.Prepare());
  {
    StepProgress progress({.steps = options.rounds});
    for (int i = 0; i < options.rounds; ++i) {
      progress.Next("round");
      PENSTOCK_RETURN_IF_ERROR(reindex.RunRound());
    }
  }
  reindex.Report(records);
  return Status::Ok();
}

}  // namespace penstock::bench
