#include "api/embed_stream.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "api/scores.h"
#include "api/service.h"
#include "api/service_impl.h"
#include "log/exception_status.h"
#include "metrics/stages.h"

namespace penstock::api {
namespace {

// {"index":1234,"embedding":[...]}
constexpr int64_t kPrintedLineBytes = 48;

// Pushes the end of a stream exactly once, also where memory ran out on the way: the consumer waits
// for it and holds the model's lease until then.
class StreamEnd {
 public:
  explicit StreamEnd(std::shared_ptr<Sink<EmbedEvent>> sink) : sink_(std::move(sink)) {}
  ~StreamEnd() {
    if (!pushed_) Push({.status = MakeStatus(StatusCode::kInternal, "lost")});
  }
  StreamEnd(const StreamEnd&) = delete;
  StreamEnd& operator=(const StreamEnd&) = delete;

  void Push(EmbedEnd end) noexcept {
    pushed_ = true;
    sink_->Push(std::move(end));
  }

 private:
  const std::shared_ptr<Sink<EmbedEvent>> sink_;
  bool pushed_ = false;
};

}  // namespace

class EmbedParts final : public EmbedStream, public std::enable_shared_from_this<EmbedParts> {
 public:
  using Sent = Sink<EmbedEvent>;
  EmbedParts(Service::Impl* service, encode::EncodePlan plan,
             std::shared_ptr<const EmbedRequest> request, const EmbedPartOptions& options,
             std::shared_ptr<Sent> sink, Callback<EmbedEnd> answer)
      : service_(service),
        plan_(std::move(plan)),
        request_(std::move(request)),
        options_(options),
        dimensions_(request_->dimensions.value_or(plan_.engine->info().embedding_size)),
        sink_(std::move(sink)),
        answer_(std::move(answer)) {}

  // If the stream did not end, the answer's last owner answers.
  ~EmbedParts() override {
    if (paused_) service_->ReacquireSlot(Service::Impl::ShareOf(plan_.context));
  }

  int64_t part_bytes() const override { return std::max(options_.part_bytes, LineBytes()); }
  bool StartPart() override;
  void Stop(Status status) override;

 private:
  struct Part {
    bool done = false;
    Status status;
    EmbedRows rows;
    encode::Usage usage;
    encode::Truncation truncation;
  };

  int64_t LineBytes() const {
    return kPrintedLineBytes + dimensions_ * options_.printed_value_bytes;
  }
  size_t EndOfPart(size_t begin) const;
  encode::EncodePlan PlanPart(size_t begin, size_t end) const;
  void OnPart(size_t slot, Expected<encode::EncodeOutcome> outcome) noexcept;
  void Emit(std::unique_lock<std::mutex> lock);

  Service::Impl* const service_;  // waits for the answer before it ends
  const encode::EncodePlan plan_;
  const std::shared_ptr<const EmbedRequest> request_;
  const EmbedPartOptions options_;
  const int32_t dimensions_;
  const std::shared_ptr<Sent> sink_;

  std::mutex mutex_;
  // All guarded by mutex_.
  Callback<EmbedEnd> answer_;  // empty once it is called
  size_t next_item_ = 0;
  std::array<Part, kPartsMax> parts_;  // a ring, in the order of the inputs
  size_t begin_ = 0;
  size_t under_way_ = 0;
  bool emitting_ = false;  // a thread moves parts to the sink, later ones too
  bool paused_ = false;    // without a slot
  Status failure_;
  encode::Usage usage_;
  encode::Truncation truncation_;
};

size_t EmbedParts::EndOfPart(size_t begin) const {
  const auto rows = static_cast<size_t>(std::clamp<int64_t>(options_.part_bytes / LineBytes(), 1,
                                                            static_cast<int64_t>(kPartRowsMax)));
  size_t bytes = 0;
  size_t end = begin;
  while (end < plan_.items.size() && end - begin < rows && bytes < kPartTextBytesMax) {
    const encode::EncodeItem& item = plan_.items[end++];
    bytes += item.first.size() + item.ids.size_bytes();
  }
  return end;
}

encode::EncodePlan EmbedParts::PlanPart(size_t begin, size_t end) const {
  encode::EncodePlan part;
  part.engine = plan_.engine;
  part.items.assign(plan_.items.begin() + static_cast<ptrdiff_t>(begin),
                    plan_.items.begin() + static_cast<ptrdiff_t>(end));
  part.owner = plan_.owner;
  part.prompt = plan_.prompt;
  part.truncate = plan_.truncate;
  part.side = plan_.side;
  part.add_special_tokens = plan_.add_special_tokens;
  part.output = plan_.output;
  part.printed_value_bytes = options_.printed_value_bytes;
  part.request_items = plan_.items.size();
  part.context = plan_.context;
  if (part.context.memory != nullptr) {
    // Its own, which goes with its rows.
    part.context.memory = std::make_shared<RequestMemory>(service_->budget, part.context.priority);
  }
  return part;
}

bool EmbedParts::StartPart() {
  size_t begin = 0;
  size_t end = 0;
  size_t slot = 0;
  {
    std::unique_lock lock(mutex_);
    if (!answer_ || !failure_.ok() || next_item_ == plan_.items.size()) return false;
    if (under_way_ + sink_->size() >= kPartsMax) return false;
    if (paused_) service_->ReacquireSlot(Service::Impl::ShareOf(plan_.context));
    paused_ = false;
    begin = next_item_;
    end = next_item_ = EndOfPart(begin);
    slot = (begin_ + under_way_++) % kPartsMax;
    parts_[slot] = {};
    parts_[slot].rows.first = begin;
  }
  try {
    encode::EncodePlan part = PlanPart(begin, end);
    {
      const std::lock_guard lock(mutex_);
      parts_[slot].rows.memory = part.context.memory;
    }
    service_->Start(std::move(part),
                    [self = shared_from_this(), slot](Expected<encode::EncodeOutcome> outcome) {
                      self->OnPart(slot, std::move(outcome));
                    });
  } catch (...) {
    OnPart(slot, ExceptionStatus());
  }
  return true;
}

void EmbedParts::Stop(Status status) {
  std::unique_lock lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  Emit(std::move(lock));
}

void EmbedParts::OnPart(size_t slot, Expected<encode::EncodeOutcome> outcome) noexcept {
  Part made;
  made.done = true;
  try {
    if (outcome.ok()) {
      made.usage = outcome->usage;
      made.truncation = outcome->truncation;
      made.rows.values = std::move(outcome->values);
      FinishEmbeddings(outcome->width, dimensions_,
                       request_->normalize.value_or(plan_.engine->folder().normalize),
                       &made.rows.values);
      made.rows.dimensions = dimensions_;
    } else {
      made.status = std::move(outcome).status();
    }
  } catch (...) {
    made.status = ExceptionStatus();
  }
  std::unique_lock lock(mutex_);
  made.rows.first = parts_[slot].rows.first;
  made.rows.memory = std::move(parts_[slot].rows.memory);
  parts_[slot] = std::move(made);
  RunGuarded("a part of a stream", [&] { Emit(std::move(lock)); });
}

// Moves finished parts to the sink, and ends the stream after the last. One thread at a time,
// without the lock: Push may wake the consumer, which may call back into this stream.
void EmbedParts::Emit(std::unique_lock<std::mutex> lock) {
  if (emitting_) return;
  emitting_ = true;
  while (under_way_ > 0 && parts_[begin_].done) {
    Part part = std::exchange(parts_[begin_], {});
    begin_ = (begin_ + 1) % kPartsMax;
    --under_way_;
    if (failure_.ok()) failure_ = std::move(part.status);
    if (!failure_.ok()) continue;
    usage_.prompt_tokens += part.usage.prompt_tokens;
    truncation_.inputs += part.truncation.inputs;
    truncation_.tokens += part.truncation.tokens;
    truncation_.unread_bytes += part.truncation.unread_bytes;
    lock.unlock();
    sink_->Push(std::move(part.rows));
    lock.lock();
  }
  emitting_ = false;
  if (under_way_ > 0 || !answer_) return;
  const size_t left = plan_.items.size() - next_item_;
  if (failure_.ok() && left > 0) {
    if (!paused_) service_->ReleaseSlot(Service::Impl::ShareOf(plan_.context));
    paused_ = true;
    return;
  }
  if (paused_) service_->ReacquireSlot(Service::Impl::ShareOf(plan_.context));
  paused_ = false;
  const Callback<EmbedEnd> answer = std::exchange(answer_, nullptr);
  Status failure = std::move(failure_);
  lock.unlock();
  if (metrics::RequestTrace* const trace = plan_.context.trace.get())
    trace->Enter(metrics::Stage::kComplete);
  if (!failure.ok()) {
    plan_.engine->scheduler().CountDropped(failure.code(), left);
    return answer(std::move(failure));
  }
  EmbedEnd end;
  end.model = request_->model.empty() ? plan_.engine->name() : request_->model;
  end.usage = usage_;
  end.truncation = truncation_;
  service_->metrics.CountTokens(Behaviour::kEmbed, usage_, truncation_);
  answer(std::move(end));
}

void Service::AwaitEmbedder(const std::string& model, const RequestContext& context,
                            std::function<void(const Status&)> then) {
  impl_->WithModel(
      model, Impl::UseOf(Behaviour::kEmbed), context, then,
      [then](const RequestContext&) { then(Status::Ok()); }, false);
}

std::shared_ptr<EmbedStream> Service::EmbedInParts(EmbedRequest request, RequestContext context,
                                                   const EmbedPartOptions& options,
                                                   std::shared_ptr<Sink<EmbedEvent>> sink) {
  auto answer =
      impl_->Admit<EmbedEnd>(Behaviour::kEmbed, context,
                             [end = std::make_shared<StreamEnd>(sink)](Expected<EmbedEnd> result) {
                               if (result.ok()) return end->Push(*std::move(result));
                               end->Push({.status = std::move(result).status()});
                             });
  if (!answer) {
    impl_->CountRefused(request.model, context.priority);
    return nullptr;
  }
  context.cache_salt = cache::JoinCacheSalt(context.cache_salt, request.text.cache_salt);
  const auto owned = std::make_shared<const EmbedRequest>(std::move(request));
  metrics::RequestTrace* const trace = context.trace.get();
  auto plan = impl_->PlanEmbed(owned, std::move(context), Behaviour::kEmbed);
  if (!plan.ok()) {
    answer(std::move(plan).status());
    return nullptr;
  }
  if (trace != nullptr) {
    trace->SetModel(plan->engine->name());
    trace->SetRows(static_cast<int64_t>(plan->items.size()));
  }
  return std::make_shared<EmbedParts>(impl_.get(), *std::move(plan), owned, options,
                                      std::move(sink), std::move(answer));
}

}  // namespace penstock::api
