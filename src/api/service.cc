#include "api/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/encode_pipeline.h"
#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"
#include "common/log.h"
#include "engine/registry.h"
#include "models/encoder.h"

namespace penstock {

namespace {

// More workers do not help: a model takes tokens more slowly than a few of them make them.
constexpr unsigned kWorkersDefaultMax = 8;

ServiceLimits WithWorkers(ServiceLimits limits) {
  if (limits.tokenization_workers <= 0) {
    limits.tokenization_workers = static_cast<int32_t>(
        std::clamp(std::thread::hardware_concurrency(), 1u, kWorkersDefaultMax));
  }
  return limits;
}

}  // namespace

Service::Service(Registry* registry, const ServiceLimits& limits, Metrics* metrics)
    : limits_(WithWorkers(limits)), impl_(std::make_unique<Impl>(registry, limits_, metrics)) {}

Service::~Service() {
  StopAccepting();
  std::unique_lock lock(impl_->mutex);
  impl_->answered.wait(lock, [this] { return impl_->unanswered == 0; });
}

void Service::StopAccepting() { impl_->accepting = false; }

bool Service::Drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  return impl_->answered.wait_for(lock, timeout, [this] { return impl_->unanswered == 0; });
}

void Service::RecordTrace(const RequestTrace& trace) { impl_->stats.Record(trace); }
Stats Service::GetStats() const { return impl_->stats.Read(); }
void Service::ResetStats() { impl_->stats.Reset(); }

bool Service::Ready() const { return Readiness().ok(); }

Status Service::Readiness() const {
  if (!impl_->accepting) return {StatusCode::kUnavailable, "the server is shutting down"};
  if (impl_->registry->AllReady()) return Status::Ok();
  for (const Registry::Entry& entry : impl_->registry->List()) {
    if (entry.state == ModelState::kFailed) {
      return {StatusCode::kUnavailable, entry.error.message()};
    }
    if (entry.state == ModelState::kWaiting || entry.state == ModelState::kLoading) {
      return {StatusCode::kUnavailable, fmt::format("model '{}' is being loaded", entry.name)};
    }
  }
  return {StatusCode::kUnavailable, "no model is served"};
}

namespace {

ModelInfo InfoOf(const Registry::Entry& entry) {
  ModelInfo info;
  info.name = entry.name;
  info.aliases = entry.aliases;
  info.path = entry.reference;
  if (!entry.engine) return info;
  const Engine& engine = *entry.engine;
  const ModelFolder& folder = engine.folder();
  const EngineInfo& loaded = engine.info();
  info.path = folder.path;
  info.revision = engine.revision();
  info.task = ModelTaskName(folder.task);
  info.architecture = folder.encoder.model_type;
  switch (loaded.dtype) {
    case DType::kBf16:
      info.dtype = "bfloat16";
      break;
    case DType::kI8:
      info.dtype = "int8";
      break;
    default:
      info.dtype = "float32";
  }
  info.int8_keep = KeptPartsText(loaded.int8_keep);
  if (folder.task == ModelTask::kEmbedding) {
    info.pooling = PoolingModeName(folder.pooling);
    info.dimensions = loaded.embedding_size;
  } else {
    info.labels = folder.encoder.labels;
  }
  info.tokenizer = engine.tokenizer().model_type();
  info.backend = loaded.backend;
  info.max_tokens = loaded.max_tokens;
  info.max_batch_tokens = static_cast<int32_t>(entry.engine->scheduler().limits().tokens);
  info.hidden_size = loaded.hidden_size;
  info.parameters = static_cast<int64_t>(loaded.parameters);
  info.weight_bytes = static_cast<int64_t>(loaded.weight_bytes);
  info.created_unix_s = engine.loaded_unix_s();
  info.ready = true;
  return info;
}

// {"index":1234,"score":0.123456789}, besides the label or document.
constexpr int64_t kPrintedScoreBytes = 64;

// Bytes of the longest label, printed; names that are made up here are shorter.
int64_t PrintedLabelBytes(const EncoderConfig& config) {
  size_t longest = 16;
  for (const std::string& label : config.labels) longest = std::max(longest, label.size());
  return kPrintedScoreBytes + 2 * static_cast<int64_t>(longest);
}

// Whether an input is over a limit, and where.
Status CheckInputs(const std::vector<Input>& inputs, const ServiceLimits& limits) {
  PENSTOCK_RETURN_IF_ERROR(CheckCount(inputs.size(), "inputs", limits));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string field = fmt::format("inputs[{}]", i);
    if (inputs[i].is_ids && inputs[i].ids.empty()) {
      return Status::InvalidArgument(field + " has no token ids", field);
    }
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(inputs[i].text, field, limits));
  }
  return Status::Ok();
}

}  // namespace

std::vector<ModelInfo> Service::Models() const {
  std::vector<ModelInfo> models;
  for (const Registry::Entry& entry : impl_->registry->List()) models.push_back(InfoOf(entry));
  return models;
}

Expected<ModelInfo> Service::Model(const std::string& name) const {
  const auto entries = impl_->registry->List();
  for (const Registry::Entry& entry : entries) {
    const auto& aliases = entry.aliases;
    if (name.empty() || name == entry.name ||
        std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
      return InfoOf(entry);
    }
  }
  // Where any name is accepted, it is the one model.
  PENSTOCK_ASSIGN_OR_RETURN(const EngineLease engine, impl_->registry->Find(name));
  for (const Registry::Entry& entry : entries) {
    if (entry.engine.get() == engine.get()) return InfoOf(entry);
  }
  return Status::NotFound("no such model", "model");
}

void Service::Impl::WarnOfForeignIds(const Engine& engine, const std::vector<Input>& inputs) {
  const Tokenizer& tokenizer = engine.tokenizer();
  if (tokenizer.special_tokens_single() == 0) return;
  const bool foreign = std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    return input.is_ids && !input.ids.empty() && !tokenizer.IsSpecial(input.ids.front()) &&
           !tokenizer.IsSpecial(input.ids.back());
  });
  if (!foreign) return;
  {
    const std::lock_guard lock(warned_mutex);
    if (!warned.insert(engine.name()).second) return;
  }
  LogWarn(
      "model '{}' gets token ids without its special tokens: likely those of another tokenizer, "
      "for which its vectors are worthless (LangChain's OpenAIEmbeddings sends OpenAI's unless it "
      "has check_embedding_ctx_length=False); --no-token-input refuses ids",
      engine.name());
}

Expected<EncodePlan> Service::Impl::PlanEmbed(const std::shared_ptr<EmbedRequest>& request,
                                              RequestContext context, Behaviour behaviour) {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, behaviour));
  PENSTOCK_RETURN_IF_ERROR(CheckInputs(request->inputs, limits));
  if (request->dimensions) {
    const int32_t size = engine->info().embedding_size;
    if (*request->dimensions < 1 || *request->dimensions > size) {
      return Status::InvalidArgument(fmt::format("dimensions is {}; model '{}' has 1 to {}",
                                                 *request->dimensions, engine->name(), size),
                                     "dimensions");
    }
  }
  const bool with_ids = std::any_of(request->inputs.begin(), request->inputs.end(),
                                    [](const Input& input) { return input.is_ids; });
  if (with_ids) WarnOfForeignIds(*engine, request->inputs);
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  PENSTOCK_ASSIGN_OR_RETURN(plan.prompt,
                            ResolvePrompt(*plan.engine, request->text, with_ids, limits));
  plan.owner = request;
  plan.add_special_tokens = request->add_special_tokens;
  plan.output = behaviour == Behaviour::kEmbedAll ? EncoderOutput::kTokens : EncoderOutput::kPooled;
  plan.printed_value_bytes = kPrintedFloatBytes;
  plan.items.reserve(request->inputs.size());
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    const Input& input = request->inputs[i];
    EncodeItem item;
    item.first = input.text;
    item.ids = input.ids;
    item.is_ids = input.is_ids;
    item.field = input.single ? "inputs" : fmt::format("inputs[{}]", i);
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Embed(EmbedRequest request, RequestContext context, Callback<EmbedResponse> done) {
  auto answer = impl_->Admit(Behaviour::kEmbed, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<EmbedRequest>(std::move(request));
  auto plan = impl_->PlanEmbed(owned, std::move(context), Behaviour::kEmbed);
  if (!plan.ok()) return answer(plan.status());
  impl_->Start(*std::move(plan), [this, owned, answer](Expected<EncodeOutcome> outcome) {
    if (!outcome.ok()) return answer(outcome.status());
    EmbedResponse response;
    response.dimensions = owned->dimensions.value_or(outcome->width);
    const bool normalize = owned->normalize.value_or(outcome->engine->folder().normalize);
    response.values = std::move(outcome->values);
    FinishEmbeddings(outcome->width, response.dimensions, normalize, &response.values);
    impl_->Finish(Behaviour::kEmbed, owned->model, *outcome, &response);
    answer(std::move(response));
  });
}

void Service::EmbedAll(EmbedRequest request, RequestContext context,
                       Callback<EmbedAllResponse> done) {
  auto answer = impl_->Admit(Behaviour::kEmbedAll, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<EmbedRequest>(std::move(request));
  if (owned->dimensions) {
    return answer(Status::InvalidArgument("token embeddings are not cut: leave dimensions out",
                                          "dimensions"));
  }
  auto plan = impl_->PlanEmbed(owned, std::move(context), Behaviour::kEmbedAll);
  if (!plan.ok()) return answer(plan.status());
  impl_->Start(*std::move(plan), [this, owned, answer](Expected<EncodeOutcome> outcome) {
    if (!outcome.ok()) return answer(outcome.status());
    EmbedAllResponse response;
    response.dimensions = outcome->width;
    response.values = std::move(outcome->values);
    if (owned->normalize.value_or(false)) {
      for (size_t i = 0; i < response.values.size(); i += outcome->width) {
        FinishEmbedding(std::span(response.values).subspan(i, outcome->width), outcome->width,
                        true);
      }
    }
    response.token_counts = std::move(outcome->lengths);
    impl_->Finish(Behaviour::kEmbedAll, owned->model, *outcome, &response);
    answer(std::move(response));
  });
}

Expected<EncodePlan> Service::Impl::PlanRerank(const std::shared_ptr<RerankRequest>& request,
                                               RequestContext context) {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, Behaviour::kRerank));
  if (request->query.empty()) return Status::InvalidArgument("query is empty", "query");
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->query, "query", limits));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->documents.size(), "documents", limits));
  if (request->top_n && *request->top_n < 1) {
    return Status::InvalidArgument(fmt::format("top_n is {}; at least 1", *request->top_n),
                                   "top_n");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckNoPrompt(request->text, Behaviour::kRerank));
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  plan.owner = request;
  plan.output = EncoderOutput::kLogits;
  plan.printed_value_bytes = kPrintedScoreBytes;
  plan.response_value_bytes = sizeof(RerankResponse::Item);
  plan.items.reserve(request->documents.size());
  for (size_t i = 0; i < request->documents.size(); ++i) {
    EncodeItem item;
    item.field = fmt::format("documents[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->documents[i], item.field, limits));
    item.first = request->query;
    item.second = request->documents[i];
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Rerank(RerankRequest request, RequestContext context, Callback<RerankResponse> done) {
  auto answer = impl_->Admit(Behaviour::kRerank, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<RerankRequest>(std::move(request));
  auto plan = impl_->PlanRerank(owned, std::move(context));
  if (!plan.ok()) return answer(plan.status());
  impl_->Start(*std::move(plan), [this, owned, answer](Expected<EncodeOutcome> outcome) {
    if (!outcome.ok()) return answer(outcome.status());
    ScoreFunction function = RerankFunction(outcome->engine->folder().encoder);
    if (owned->raw_scores) {
      function = *owned->raw_scores ? ScoreFunction::kIdentity : ScoreFunction::kSigmoid;
    }
    RerankResponse response;
    const auto all = static_cast<int32_t>(owned->documents.size());
    response.items = RankedItems(outcome->values, function, owned->top_n.value_or(all));
    impl_->Finish(Behaviour::kRerank, owned->model, *outcome, &response);
    answer(std::move(response));
  });
}

Expected<EncodePlan> Service::Impl::PlanClassify(const std::shared_ptr<ClassifyRequest>& request,
                                                 RequestContext context) {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, Behaviour::kClassify));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->inputs.size(), "inputs", limits));
  PENSTOCK_RETURN_IF_ERROR(CheckNoPrompt(request->text, Behaviour::kClassify));
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  plan.owner = request;
  plan.output = EncoderOutput::kLogits;
  plan.printed_value_bytes = PrintedLabelBytes(plan.engine->folder().encoder);
  plan.response_value_bytes = sizeof(ClassifyResponse::Label);
  plan.items.reserve(request->inputs.size());
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    const ClassifyInput& input = request->inputs[i];
    EncodeItem item;
    item.field = fmt::format("inputs[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(input.first, item.field, limits));
    item.first = input.first;
    if (input.second) {
      PENSTOCK_RETURN_IF_ERROR(CheckBytes(*input.second, item.field, limits));
      item.second = *input.second;
    }
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Classify(ClassifyRequest request, RequestContext context,
                       Callback<ClassifyResponse> done) {
  auto answer = impl_->Admit(Behaviour::kClassify, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<ClassifyRequest>(std::move(request));
  auto plan = impl_->PlanClassify(owned, std::move(context));
  if (!plan.ok()) return answer(plan.status());
  impl_->Start(*std::move(plan), [this, owned, answer](Expected<EncodeOutcome> outcome) {
    if (!outcome.ok()) return answer(outcome.status());
    const EncoderConfig& config = outcome->engine->folder().encoder;
    const ScoreFunction function =
        owned->raw_scores ? ScoreFunction::kIdentity : ClassifyFunction(config, outcome->width);
    ClassifyResponse response;
    response.labels = config.labels;
    // transformers names labels so where config.json has no id2label.
    while (static_cast<int32_t>(response.labels.size()) < outcome->width) {
      response.labels.push_back(fmt::format("LABEL_{}", response.labels.size()));
    }
    for (size_t i = 0; i < owned->inputs.size(); ++i) {
      const auto row = std::span(outcome->values).subspan(i * outcome->width, outcome->width);
      ApplyScoreFunction(function, row);
      response.inputs.push_back(SortedLabels(row));
    }
    impl_->Finish(Behaviour::kClassify, owned->model, *outcome, &response);
    answer(std::move(response));
  });
}

Expected<EncodePlan> Service::Impl::PlanSimilarity(
    const std::shared_ptr<SimilarityRequest>& request, RequestContext context) {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, Behaviour::kSimilarity));
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->source, "source", limits));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->sentences.size(), "sentences", limits));
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  PENSTOCK_ASSIGN_OR_RETURN(plan.prompt, ResolvePrompt(*plan.engine, request->text, false, limits));
  plan.owner = request;
  plan.items.reserve(request->sentences.size() + 1);
  EncodeItem source;
  source.first = request->source;
  source.field = "source";
  plan.items.push_back(std::move(source));
  for (size_t i = 0; i < request->sentences.size(); ++i) {
    EncodeItem item;
    item.field = fmt::format("sentences[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->sentences[i], item.field, limits));
    item.first = request->sentences[i];
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Similarity(SimilarityRequest request, RequestContext context,
                         Callback<SimilarityResponse> done) {
  auto answer = impl_->Admit(Behaviour::kSimilarity, context, std::move(done));
  if (!answer) return;
  const auto owned = std::make_shared<SimilarityRequest>(std::move(request));
  auto plan = impl_->PlanSimilarity(owned, std::move(context));
  if (!plan.ok()) return answer(plan.status());
  impl_->Start(*std::move(plan), [this, owned, answer](Expected<EncodeOutcome> outcome) {
    if (!outcome.ok()) return answer(outcome.status());
    const std::span<float> values = outcome->values;
    const auto row = [&](size_t i) { return values.subspan(i * outcome->width, outcome->width); };
    const ModelFolder& folder = outcome->engine->folder();
    SimilarityResponse response;
    for (size_t i = 0; i <= owned->sentences.size(); ++i) {
      if (folder.normalize) FinishEmbedding(row(i), outcome->width, true);
      if (i > 0) {
        response.scores.push_back(SimilarityOf(folder.similarity, row(0), row(i)));
      }
    }
    impl_->Finish(Behaviour::kSimilarity, owned->model, *outcome, &response);
    answer(std::move(response));
  });
}

}  // namespace penstock
