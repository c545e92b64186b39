// DecoderEngine: one decoder, ready to generate text: weights, tokenizer and decode scheduler.
// Users of a registered engine hold a Lease<DecoderEngine> (registry/lease.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "checks/model_load.h"
#include "engine/model.h"
#include "engine/model_templates.h"
#include "generate/decode_scheduler.h"
#include "generate/text_model.h"
#include "grammar/grammar_cache.h"
#include "metrics/metrics.h"
#include "program/backend.h"

namespace penstock::engine {

struct DecoderEngineOptions {
  std::string name;  // as served
  std::string revision;
  generate::TextModelOptions model;
  std::string chat_template;  // as ModelTemplates::Make: the name of one, or a file; "": its own
  // In place of what the model's files recommend, where it is given.
  sample::GenerationDefaults sampling;
  // `model` is set to the name, `gate` to the backend's. Without cache_blocks: see FitCacheBlocks.
  generate::DecodeSchedulerOptions scheduler;
  ModelBytes granted;  // the memory it may take; 0: a share of what there is
  checks::ModelCheckOptions check;
};

class DecoderEngine final : public Model {
 public:
  static constexpr Capability kCapability = Capability::kGenerate;

  // Reads the model at `path`, a folder or a .gguf file. `backend` and `metrics` must outlive the
  // engine. Errors: those of TextModel::Load, ModelTemplates::Make,
  // DecodeScheduler::Make and, with options.check, CheckLoad.
  static Expected<std::unique_ptr<DecoderEngine>> Load(const std::string& path,
                                                       const DecoderEngineOptions& options,
                                                       program::Backend* backend,
                                                       metrics::Metrics* metrics);

  const std::string& name() const override { return options_.name; }
  const EngineInfo& info() const override { return info_; }
  uint64_t HeldBytes() const override { return scheduler_->HeldBytes(); }
  // The step thread gives back what it can once it is idle.
  uint64_t ReleaseMemory() override;
  void Stop() override { scheduler_->Stop(); }
  const std::string& path() const override { return path_; }
  ModelPurpose purpose() const override { return {.capability = kCapability}; }

  const std::string& revision() const { return options_.revision; }
  const generate::TextModel& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return *model_->tokenizer; }
  // Tokens of prompt and text together.
  int32_t context() const { return scheduler_->context(); }
  int32_t sequences_max() const { return options_.scheduler.sequences_max; }
  // The template of a conversation; see ModelTemplates::For.
  const Expected<chat::ChatTemplate>& chat_template(bool has_tools) const {
    return templates_.For(has_tools);
  }
  generate::DecodeScheduler& scheduler() { return *scheduler_; }
  // Grammars for its vocabulary.
  grammar::GrammarCache& grammars() { return *grammars_; }
  int64_t loaded_unix_s() const { return loaded_unix_s_; }

 private:
  DecoderEngine(std::string path, DecoderEngineOptions options, ModelTemplates templates,
                std::unique_ptr<generate::TextModel> model,
                std::unique_ptr<generate::DecodeScheduler> scheduler,
                const program::Backend& backend);

  const std::string path_;
  const DecoderEngineOptions options_;
  EngineInfo info_;
  int64_t loaded_unix_s_ = 0;
  const ModelTemplates templates_;
  std::unique_ptr<generate::TextModel> model_;
  std::unique_ptr<generate::DecodeScheduler> scheduler_;
  std::unique_ptr<grammar::GrammarCache> grammars_;
};

// Texts of the whole context whose keys and values are wanted, where nothing is asked for.
inline constexpr int32_t kCacheContexts = 8;
// DecodeSchedulerOptions::cache_blocks where nothing is asked for: those of kCacheContexts texts of
// the whole context, and as ChooseCacheBlocks for `sequences` that run, cut to a share of the
// memory that is available, or to `cache_bytes` if that is not 0, but at least those of one
// context.
std::vector<int32_t> FitCacheBlocks(const generate::TextModel& model, int32_t sequences,
                                    uint64_t cache_bytes = 0);

}  // namespace penstock::engine
