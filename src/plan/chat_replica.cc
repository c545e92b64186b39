#include <algorithm>
#include <string>
#include <utility>

#include "base/seeded_hash.h"
#include "bench/random_decoder.h"
#include "cpu/cpu_backend.h"
#include "generate/decode_metrics.h"
#include "generate/decode_scheduler.h"
#include "plan/replica.h"

namespace penstock::plan {
namespace {

constexpr int32_t kVocabulary = 32;  // of the shape "tiny"
constexpr int32_t kEnd = 1, kFirstLetter = 2;
constexpr const char* kName = "simulated";

std::string TokenizerJson() {
  std::string vocabulary = R"("<s>":0,"</s>":1)";
  for (int32_t id = kFirstLetter; id < kVocabulary; ++id) {
    vocabulary += std::string(",\"") + static_cast<char>('a' + id - kFirstLetter) +
                  "\":" + std::to_string(id);
  }
  return R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
         R"("post_processor":null,"decoder":{"type":"Fuse"},)"
         R"("model":{"type":"BPE","merges":[],"vocab":{)" +
         vocabulary + "}}}";
}

class ChatReplica final : public Replica {
 public:
  ChatReplica(const DecoderCosts& costs, Answers* answers) : costs_(costs), answers_(answers) {}

  Status Begin(const generate::TextModel* model) {
    generate::DecodeSchedulerOptions options;
    options.sequences_max = costs_.sequences;
    options.cache_blocks = {
        std::max(costs_.cache_blocks,
                 generate::LeastCacheBlocks({&kFullGroup, 1}, model->context()).front())};
    options.cost = costs_.step;
    options.speculation = false;
    options.now = [this] { return Moment(clock_s_); };
    options.manual = true;
    options.model = kName;
    PENSTOCK_ASSIGN_OR_RETURN(
        scheduler_,
        generate::DecodeScheduler::Make(model, options, &metrics_, std::make_unique<Steps>(this)));
    return Status::Ok();
  }

  Status Submit(const Request& request) override {
    clock_s_ = request.at_s;
    auto job = std::make_unique<generate::DecodeJob>();
    const int32_t prompt = std::clamp(request.prompt, 1, costs_.context - 2);
    job->prompt.resize(static_cast<size_t>(prompt));
    const int32_t shared = std::max(request.shared, costs_.template_tokens);
    for (int32_t i = 0; i < prompt; ++i) {
      const uint64_t text = i < shared ? 0 : request.session;
      job->prompt[static_cast<size_t>(i)] = TokenAt(text, static_cast<uint64_t>(i));
    }
    job->sampling.max_tokens = std::clamp(request.output, 1, costs_.context - prompt - 1);
    job->sampling.ignore_eos = true;
    job->sampling.temperature = 0;
    job->context.priority = request.priority;
    job->sink = std::make_shared<Sink>(this, request.at_s, request.priority);
    const Status taken = scheduler_->Submit(std::move(job));
    if (taken.ok()) ++outstanding_;
    return taken;
  }

  double Step(double now_s) override {
    clock_s_ = now_s;
    // Jobs that were taken may need a step more before they begin.
    for (int i = 0; i < 3 && clock_s_ <= now_s; ++i) scheduler_->Step();
    const generate::DecodeStats stats = scheduler_->stats();
    const auto& cache = stats.groups.front();
    cache_peak_ =
        std::max(cache_peak_, static_cast<double>(cache.used) /
                                  static_cast<double>(std::max<int64_t>(cache.blocks, 1)));
    return clock_s_;
  }

  double cache_peak() const override { return cache_peak_; }
  uint64_t preemptions() const override { return preemptions_.value(); }

 private:
  // Steps that take the time they are said to; the next token is always the same.
  class Steps final : public program::ProgramRun {
   public:
    explicit Steps(ChatReplica* replica) : replica_(replica), logits_(kVocabulary) {
      logits_[kFirstLetter] = 1;
    }
    Status Run(size_t, const program::PackedBatch& batch, std::span<float* const>) override {
      const DecoderCosts& costs = replica_->costs_;
      double work = 0;
      for (size_t s = 0; s < batch.sequences(); ++s) {
        work += generate::StepCost::Work(batch.length(s), batch.cached[s].past);
      }
      replica_->Pass(costs.step.Seconds(static_cast<int32_t>(batch.tokens()), work) +
                     costs.pick_s * static_cast<double>(batch.picks.size()));
      logits_of_all_.resize(batch.picks.size() * logits_.size());
      for (size_t at = 0; at < logits_of_all_.size(); at += logits_.size()) {
        std::copy(logits_.begin(), logits_.end(),
                  logits_of_all_.begin() + static_cast<ptrdiff_t>(at));
      }
      return Status::Ok();
    }
    uint64_t block_bytes(size_t) const override { return 1; }
    program::FoundLogits Found(size_t) const override { return {{}, {}, -1}; }
    Expected<std::span<const float>> Rows(size_t first, size_t count) override {
      return std::span<const float>(logits_of_all_)
          .subspan(first * logits_.size(), count * logits_.size());
    }

   private:
    ChatReplica* const replica_;
    std::vector<float> logits_, logits_of_all_;
  };

  class Sink final : public generate::DecodeSink {
   public:
    Sink(ChatReplica* replica, double at_s, Priority priority)
        : replica_(replica), at_s_(at_s), counts_(priority == Priority::kInteractive) {}
    void OnToken(int32_t, const generate::GeneratedToken&, std::string_view) noexcept override {
      const double now_s = replica_->clock_s_;
      Answers& answers = *replica_->answers_;
      if (counts_ && at_s_ >= answers.from_s) {
        if (last_s_ < 0) {
          answers.first_token.Add(1000 * (now_s - at_s_ + replica_->costs_.outside_s));
        } else {
          answers.between_tokens.Add(1000 * (now_s - last_s_));
        }
      }
      last_s_ = now_s;
    }
    void OnSampleEnd(int32_t, generate::FinishReason, std::string_view, int) noexcept override {}
    void OnEnd(const Status&, const generate::DecodeUsage&) noexcept override {
      ++replica_->ended_;
      Answers& answers = *replica_->answers_;
      if (!counts_ || at_s_ < answers.from_s) return;
      answers.whole.Add(1000 * (replica_->clock_s_ - at_s_ + replica_->costs_.outside_s));
    }

   private:
    ChatReplica* const replica_;
    const double at_s_;
    const bool counts_;
    double last_s_ = -1;
  };

  static int32_t TokenAt(uint64_t text, uint64_t position) {
    const uint64_t hash = HashWord(text * 0x9E3779B97F4A7C15ull + position, 1);
    return kFirstLetter + static_cast<int32_t>(hash % (kVocabulary - kFirstLetter));
  }

  void Pass(double took_s) {
    clock_s_ += took_s;
    busy_s_ += took_s;
  }

  const DecoderCosts costs_;
  Answers* const answers_;
  metrics::Metrics metrics_;
  const metrics::Counter& preemptions_ =
      generate::DecodeMetrics::Of(&metrics_, kName, {&kFullGroup, 1}).preemptions;
  double clock_s_ = 0;
  double cache_peak_ = 0;
  std::unique_ptr<generate::DecodeScheduler> scheduler_;
};

class MadeUpModel final : public ChatModel {
 public:
  Status Load(int32_t context) {
    PENSTOCK_ASSIGN_OR_RETURN(backend_, cpu::NewCpuBackend({1, false, ""}));
    PENSTOCK_ASSIGN_OR_RETURN(weights_, bench::RandomDecoder::Make("tiny", "f32"));
    weights_->files.config.context = context;
    PENSTOCK_ASSIGN_OR_RETURN(
        model_.decoder,
        models::DecoderModel::Load(weights_->files, backend_.get(), {numbers::DType::kF32, 0}));
    PENSTOCK_ASSIGN_OR_RETURN(model_.tokenizer, text::Tokenizer::FromJson(TokenizerJson()));
    model_.end_ids = {kEnd};
    return Status::Ok();
  }
  Expected<std::unique_ptr<Replica>> NewReplica(const DecoderCosts& costs,
                                                Answers* answers) const override {
    auto replica = std::make_unique<ChatReplica>(costs, answers);
    PENSTOCK_RETURN_IF_ERROR(replica->Begin(&model_));
    return std::unique_ptr<Replica>(std::move(replica));
  }

 private:
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<bench::RandomDecoder> weights_;
  generate::TextModel model_;
};

}  // namespace

Expected<std::unique_ptr<ChatModel>> ChatModel::Make(int32_t context) {
  auto model = std::make_unique<MadeUpModel>();
  PENSTOCK_RETURN_IF_ERROR(model->Load(context));
  return std::unique_ptr<ChatModel>(std::move(model));
}

}  // namespace penstock::plan
