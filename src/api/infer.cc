// Service::Infer: from a request's tensors by name to a job of the model's scheduler, and back.
//
// Nothing here is allocated, locked or shared by threads once a call is used again: it keeps the
// memory of its vectors, and is counted by thread (infer_counts.h).
#include "api/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "api/request_checks.h"
#include "api/service_impl.h"
#include "base/printable.h"
#include "engine/tensor_engine.h"
#include "log/exception_status.h"

namespace penstock::api {
namespace {

constexpr int64_t kRowsMax = 1 << 30;

std::string Names(const std::vector<signature::TensorSpec>& specs) {
  constexpr size_t kNamesMax = 20;
  std::string names;
  for (size_t i = 0; i < specs.size() && i < kNamesMax; ++i) {
    names += (i > 0 ? ", " : "") + Shown(specs[i].name);
  }
  return specs.size() > kNamesMax ? names + fmt::format(" and {} more", specs.size() - kNamesMax)
                                  : names;
}

// The place of `name`, which most often is `likely`; nullopt: there is no such tensor.
std::optional<size_t> Find(const std::vector<signature::TensorSpec>& specs, const std::string& name,
                           size_t likely) {
  if (likely < specs.size() && specs[likely].name == name) return likely;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
  }
  return std::nullopt;
}

// Whether `bytes` holds exactly `count` elements of type BYTES, and nothing behind them.
bool HoldsElements(std::span<const std::byte> bytes, uint64_t count) {
  for (; count > 0; --count) {
    uint32_t length = 0;
    if (bytes.size() < sizeof length) return false;
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (bytes.size() < length) return false;
    bytes = bytes.subspan(length);
  }
  return bytes.empty();
}

Status CheckBytes(const InferCall::Input& input) {
  const std::optional<uint64_t> count = signature::ElementCount(input.shape);
  if (input.type == signature::ElementType::kBytes) {
    if (count && HoldsElements(input.bytes, *count)) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("input '{}' of shape {}: its {} bytes are not that many BYTES elements, each a "
                    "length of 4 bytes and that many bytes",
                    Shown(input.name), signature::ShapeText(input.shape), input.bytes.size()),
        "inputs");
  }
  const size_t size = signature::ElementBytes(input.type);
  if (count && *count * size == input.bytes.size()) return Status::Ok();
  const std::string needed =
      count ? fmt::format("instead of {}", *count * size) : "and its shape over 2^59 elements";
  return Status::InvalidArgument(
      fmt::format("input '{}' of shape {} and type {} has {} bytes {}", Shown(input.name),
                  signature::ShapeText(input.shape), signature::ElementTypeName(input.type),
                  input.bytes.size(), needed),
      "inputs");
}

// The bytes of a result with `rows` rows; nullopt if the model's signature does not fix them.
std::optional<uint64_t> ResultBytes(const signature::TensorSpec& spec, bool batched,
                                    uint32_t rows) {
  if (spec.type == signature::ElementType::kBytes || !spec.shape) return std::nullopt;
  uint64_t bytes = signature::ElementBytes(spec.type) * (batched ? rows : 1);
  for (size_t i = batched ? 1 : 0; i < spec.shape->size(); ++i) {
    const signature::DimensionRange& dimension = (*spec.shape)[i];
    if (!dimension.fixed()) return std::nullopt;
    bytes *= static_cast<uint64_t>(dimension.min);
  }
  return bytes;
}

}  // namespace

// The service's view of a call.
class InferRun {
 public:
  static void Start(Service* service, InferCall* call);

 private:
  static void Await(InferCall* call);
  static void Run(InferCall* call, registry::Lease<engine::TensorEngine> engine);
  static Status Prepare(InferCall* call);
  static Status CheckVersion(const InferCall& call);
  static Status TakeInputs(InferCall* call);
  static Status TakeInput(InferCall* call, const InferCall::Input& input, size_t index);
  static Status CheckRows(InferCall* call);
  static Status TakeOutputs(InferCall* call);
  static void OnDone(sched::TensorJob* job, Status status);
  static void Finish(InferCall* call, const Status& status);
};

// Every way of a call from here leads to one Finish.
void InferRun::Start(Service* of, InferCall* call) {
  Service::Impl* const service = of->impl_.get();
  service->metrics.infers()
      .Begin();  // before `accepting` is read: Drain after StopAccepting sees it
  call->service_ = of;
  call->served_model_.clear();
  call->served_version_ = 0;
  Status refused;
  try {
    if (!service->accepting) {
      refused = {StatusCode::kUnavailable, "the server is shutting down"};
    } else if (refused = service->CheckMemory(call->context.priority); !refused.ok()) {
      // Nothing is begun.
    } else if (!call->context.bulk_run.empty()) {
      auto entered = service->bulk_runs.Enter(call->context.bulk_run);
      if (!entered.ok()) refused = entered.status();
      if (entered.ok()) call->in_run_ = *std::move(entered);
    }
    if (refused.ok()) {
      if (call->context.keep_alive) return Await(call);
      auto engine = service->registry->Find<engine::TensorEngine>(call->model);
      if (engine.ok()) return Run(call, *std::move(engine));
      refused = std::move(engine).status();
      if (refused.code() == StatusCode::kUnavailable &&
          service->registry->MustAwait(call->model, {.capability = engine::Capability::kTensors})) {
        return Await(call);
      }
      if (refused.code() == StatusCode::kUnsupported) {
        refused = CannotInfer(*service->registry, call->model);
      }
    }
  } catch (...) {
    refused = ExceptionStatus();
  }
  Finish(call, refused);
}

// Where the model may have to be loaded.
void InferRun::Await(InferCall* call) {
  Service::Impl* const service = call->service_->impl_.get();
  const auto answer = [call](const Status& status) { Finish(call, status); };
  service->WithModel(
      call->model, {.capability = engine::Capability::kTensors}, call->context, answer,
      [service, call](const RequestContext&) {
        auto engine = service->registry->Find<engine::TensorEngine>(call->model);
        if (engine.ok()) return Run(call, *std::move(engine));
        Finish(call, engine.code() == StatusCode::kUnsupported
                         ? CannotInfer(*service->registry, call->model)
                         : std::move(engine).status());
      },
      /*has_slot=*/false);
}

void InferRun::Run(InferCall* call, registry::Lease<engine::TensorEngine> engine) {
  call->lease_ = std::move(engine);
  Status status;
  try {
    status = Prepare(call);
  } catch (...) {
    status = ExceptionStatus();
  }
  // The scheduler waits for threads in Submit before it is destroyed: where the call is answered
  // meanwhile, and its lease gone, this needs none.
  if (status.ok()) {
    status = call->lease_->scheduler().Submit(call);
    if (status.ok()) return;  // the call may be gone
  }
  Finish(call, status);
}

Status InferRun::Prepare(InferCall* call) {
  PENSTOCK_RETURN_IF_ERROR(CheckVersion(*call));
  PENSTOCK_RETURN_IF_ERROR(TakeInputs(call));
  PENSTOCK_RETURN_IF_ERROR(TakeOutputs(call));
  call->served_model_ = call->lease_->name();
  call->served_version_ = call->lease_->version();
  call->done = OnDone;
  if (metrics::RequestTrace* const trace = call->context.trace.get()) {
    trace->SetModel(call->served_model_);
    trace->SetRows(std::max<int64_t>(call->rows, 1));
    trace->Enter(metrics::Stage::kQueue);
  }
  return Status::Ok();
}

Status InferRun::CheckVersion(const InferCall& call) {
  if (call.version.empty()) return Status::Ok();
  const std::string served = ServedVersion(call.lease_->version());
  if (call.version == served) return Status::Ok();
  return Status::NotFound(fmt::format("model '{}' is served in version {}, not '{}'",
                                      call.lease_->name(), served, Shown(call.version)),
                          "version");
}

Status InferRun::TakeInputs(InferCall* call) {
  const engine::TensorEngine& engine = *call->lease_;
  const std::vector<signature::TensorSpec>& specs = engine.signature().inputs;
  sched::TensorJob* const job = call;
  job->inputs.resize(specs.size());
  call->given_.assign(specs.size(), 0);
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    const InferCall::Input& input = call->inputs[i];
    const std::optional<size_t> index = Find(specs, input.name, i);
    if (index) {
      PENSTOCK_RETURN_IF_ERROR(TakeInput(call, input, *index));
      continue;
    }
    const auto& ignored = engine.ignored_inputs();
    if (std::find(ignored.begin(), ignored.end(), input.name) != ignored.end()) continue;
    return Status::InvalidArgument(fmt::format("model '{}' has no input '{}'; its inputs are {}",
                                               engine.name(), Shown(input.name), Names(specs)),
                                   "inputs");
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (call->given_[i] != 0) continue;
    return Status::InvalidArgument(
        fmt::format("input '{}' is missing; the inputs of model '{}' are {}", Shown(specs[i].name),
                    engine.name(), Names(specs)),
        "inputs");
  }
  return CheckRows(call);
}

Status InferRun::TakeInput(InferCall* call, const InferCall::Input& input, size_t index) {
  const signature::TensorSpec& spec = call->lease_->signature().inputs[index];
  if (std::exchange(call->given_[index], 1) != 0) {
    return Status::InvalidArgument(fmt::format("input '{}' is given twice", Shown(input.name)),
                                   "inputs");
  }
  if (input.type != spec.type) {
    return Status::InvalidArgument(
        fmt::format("input '{}' has type {}; model '{}' takes {}", Shown(input.name),
                    signature::ElementTypeName(input.type), call->lease_->name(),
                    signature::ElementTypeName(spec.type)),
        "inputs");
  }
  if (!spec.Takes(input.shape)) {
    return Status::InvalidArgument(
        fmt::format("input '{}' has shape {}; model '{}' takes {}", Shown(input.name),
                    signature::ShapeText(input.shape), call->lease_->name(),
                    signature::ShapeText(spec.shape)),
        "inputs");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(input));
  signature::TensorData& view = static_cast<sched::TensorJob*>(call)->inputs[index];
  view.shape.assign(input.shape.begin(), input.shape.end());
  view.bytes = input.bytes;
  return Status::Ok();
}

// All inputs are there, in shapes that the model takes.
Status InferRun::CheckRows(InferCall* call) {
  sched::TensorJob* const job = call;
  const signature::TensorSignature& signature = call->lease_->signature();
  job->rows = 1;
  if (signature.max_batch_size == 0) return Status::Ok();
  const int64_t rows = job->inputs[0].shape[0];
  for (size_t i = 1; i < job->inputs.size(); ++i) {
    if (job->inputs[i].shape[0] == rows) continue;
    return Status::InvalidArgument(
        fmt::format("input '{}' has {} rows and input '{}' {}; all must have the same number",
                    Shown(signature.inputs[i].name), job->inputs[i].shape[0],
                    Shown(signature.inputs[0].name), rows),
        "inputs");
  }
  if (rows > kRowsMax) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the request has {} rows; the limit is {}", rows, kRowsMax), "inputs"};
  }
  job->rows = static_cast<uint32_t>(rows);
  return Status::Ok();
}

Status InferRun::TakeOutputs(InferCall* call) {
  sched::TensorJob* const job = call;
  const signature::TensorSignature& signature = call->lease_->signature();
  const std::vector<signature::TensorSpec>& specs = signature.outputs;
  if (call->outputs.empty()) {
    call->outputs.resize(specs.size());
    for (size_t i = 0; i < specs.size(); ++i) call->outputs[i].name = specs[i].name;
  }
  job->results.resize(specs.size());
  for (sched::TensorResult& result : job->results) result.wanted = false;
  call->order_.resize(call->outputs.size());
  for (size_t i = 0; i < call->outputs.size(); ++i) {
    const InferCall::Output& output = call->outputs[i];
    const std::optional<size_t> index = Find(specs, output.name, i);
    if (!index) {
      return Status::InvalidArgument(
          fmt::format("model '{}' has no output '{}'; its outputs are {}", call->lease_->name(),
                      Shown(output.name), Names(specs)),
          "outputs");
    }
    sched::TensorResult& result = job->results[*index];
    if (std::exchange(result.wanted, true)) {
      return Status::InvalidArgument(
          fmt::format("output '{}' is asked for twice", Shown(output.name)), "outputs");
    }
    // Where the size is not known yet, the scheduler looks at it when it is.
    const auto bytes = ResultBytes(specs[*index], signature.max_batch_size > 0, job->rows);
    if (!output.sink.empty() && bytes && *bytes > output.sink.size()) {
      return Status::InvalidArgument(
          fmt::format("output '{}' has {} bytes; the memory that was given for it has {}",
                      Shown(output.name), *bytes, output.sink.size()),
          "outputs");
    }
    result.sink = output.sink;
    call->order_[i] = static_cast<uint32_t>(*index);
  }
  return Status::Ok();
}

void InferRun::OnDone(sched::TensorJob* job, Status status) {
  auto* const call = static_cast<InferCall*>(job);
  if (status.ok()) {
    const std::vector<signature::TensorSpec>& specs = call->lease_->signature().outputs;
    const bool filled = RunGuarded("the results of a request", [&] {
      for (size_t i = 0; i < call->outputs.size(); ++i) {
        const uint32_t index = call->order_[i];
        const sched::TensorResult& result = job->results[index];
        InferCall::Output& output = call->outputs[i];
        output.type = specs[index].type;
        output.shape.assign(result.shape.begin(), result.shape.end());
        output.bytes = result.bytes;
      }
    });
    if (filled) {
      call->service_->impl_->metrics.infer_duration().Record(
          std::chrono::nanoseconds(Clock::now() - job->progress.submitted).count());
    } else {
      status = MakeStatus(StatusCode::kResourceExhausted, "out of memory");
    }
  }
  Finish(call, status);
}

void InferRun::Finish(InferCall* call, const Status& status) {
  ServiceMetrics& metrics = call->service_->impl_->metrics;
  const bool ok = status.ok();
  if (!ok) {
    metrics.CountInferFailure(status.code());
    for (InferCall::Output& output : call->outputs) {
      output.shape.clear();
      output.bytes = {};
    }
  }
  {
    // Until Done has returned, as the results are the model's. The call may be gone then.
    const registry::Lease<engine::TensorEngine> lease = std::move(call->lease_);
    const std::shared_ptr<const void> in_run = std::move(call->in_run_);
    call->Done(status);
  }
  metrics.infers().End(ok);
}

void Service::Infer(InferCall* call) { InferRun::Start(this, call); }

Expected<sched::TensorStatistics> Service::InferStatistics(const std::string& model) const {
  PENSTOCK_ASSIGN_OR_RETURN(const registry::Lease<engine::TensorEngine> engine,
                            impl_->registry->Find<engine::TensorEngine>(model));
  return engine->scheduler().Statistics();
}

}  // namespace penstock::api
