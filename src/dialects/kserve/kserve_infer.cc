#include "dialects/kserve/kserve_infer.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "api/infer.h"
#include "dialects/kserve/kserve_request.h"
#include "dialects/kserve/tensor_json.h"
#include "json/json_writer.h"
#include "log/exception_status.h"
#include "threads/byte_budget.h"

namespace penstock::dialects {
namespace {

using serving::ErrorBody;
using serving::PrintError;
using serving::RouteCall;

constexpr const char* kJsonBytesHeader = "Inference-Header-Content-Length";

// Results up to this size are copied on an io thread: about a tenth of a millisecond.
constexpr uint64_t kCopyOnIoBytesMax = 1 << 20;
// JSON up to this size is printed on the thread that brings the results.
constexpr uint64_t kPrintAtOnceBytesMax = 1 << 10;

// One request, from its body to its answer. Deletes itself at the end.
class KserveInfer final : public api::InferCall {
 public:
  explicit KserveInfer(const RouteCall& call)
      : service_(call.service),
        respond_(call.respond),
        request_(call.request),
        error_body_(call.route->error_body),
        body_(call.TakeBody()) {}

  // Ends `self`, or hands it over to the service.
  static void Start(std::unique_ptr<KserveInfer> self) {
    if (const Status status = self->Parse(); !status.ok()) {
      const Status known = self->service_->Model(self->model).status();
      return self->Fail(known.ok() ? status : known);
    }
    uint64_t shared = 0;
    for (const auto& input : self->parsed_.shared_inputs) shared += input.shared.bytes();
    if (shared <= kCopyOnIoBytesMax) return Run(std::move(self));
    const Priority priority = self->context.priority;
    const auto kept = std::make_shared<std::unique_ptr<KserveInfer>>(std::move(self));
    const Status taken = (*kept)->service_->RunOnWorker(priority, shared, [kept] {
      const http::Responder respond = (*kept)->respond_;
      const ErrorBody error_body = (*kept)->error_body_;
      const std::string id = (*kept)->request_->id;
      try {
        Run(std::move(*kept));
      } catch (...) {
        respond.Send(PrintError(error_body, ExceptionStatus(), id));
      }
    });
    if (!taken.ok()) (*kept)->Fail(taken);
  }

  void Done(const Status& status) override {
    std::unique_ptr<KserveInfer> self(this);
    try {
      Finish(std::move(self), status);
    } catch (...) {
      // Memory has run out; the last Responder that goes answers the request.
    }
  }

 private:
  void Fail(const Status& status) const {
    respond_.Send(PrintError(error_body_, status, request_->id));
  }

  Status Parse() {
    context = request_->context;
    PENSTOCK_ASSIGN_OR_RETURN(
        const size_t json_bytes,
        KserveJsonBytes(request_->Header("inference-header-content-length"), body_.size()));
    PENSTOCK_ASSIGN_OR_RETURN(
        parsed_,
        ParseKserveRequest(body_, json_bytes, service_->shared_memory(), context.memory.get()));
    parsed_.parameters.ApplyTo(request_->begin, &context);
    may_lead = true;
    inputs = std::move(parsed_.inputs);
    outputs = std::move(parsed_.outputs);
    return Status::Ok();
  }

  static void Run(std::unique_ptr<KserveInfer> self) {
    if (const Status status = self->ReadShared(); !status.ok()) return self->Fail(status);
    api::Service* const service = self->service_;
    service->Infer(self.release());
  }

  Status ReadShared() {
    for (const KserveRequest::SharedInput& shared : parsed_.shared_inputs) {
      const uint64_t bytes = shared.shared.bytes();
      PENSTOCK_RETURN_IF_ERROR(Take(bytes));
      TensorBytes copy;
      copy.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
      copy.size = bytes;
      PENSTOCK_RETURN_IF_ERROR(shared.shared.Read({copy.data.get(), bytes}));
      inputs[shared.input].bytes = copy.span();
      parsed_.made.push_back(std::move(copy));
    }
    return Status::Ok();
  }

  // Counts bytes as held until the end of the request.
  Status Take(uint64_t bytes) const {
    if (context.memory == nullptr) return Status::Ok();
    return context.memory->Take(static_cast<int64_t>(bytes));
  }

  static void Finish(std::unique_ptr<KserveInfer> self, const Status& status) {
    if (!status.ok()) return self->Fail(status);
    uint64_t json_bytes = 0;
    if (const Status placed = self->PlaceOutputs(&json_bytes); !placed.ok()) {
      return self->Fail(placed);
    }
    // Printed here, the bytes of binary outputs are copied once.
    if (json_bytes <= kPrintAtOnceBytesMax) return self->respond_.Send(self->Print());
    if (const Status kept = self->KeepOutputs(); !kept.ok()) return self->Fail(kept);
    const http::Responder respond = self->respond_;
    api::Service* const service = self->service_;
    const Priority priority = self->context.priority;
    const std::shared_ptr<KserveInfer> shared = std::move(self);
    if (json_bytes <= kPrintOnIoBytesMax) {
      return respond.Send([shared] { return shared->Print(); });
    }
    service->FinishOnWorker(priority, json_bytes, [shared, respond] {
      try {
        respond.Send(shared->Print());
      } catch (...) {
        shared->Fail(ExceptionStatus());
      }
    });
  }

  // Writes results to shared memory, checks and admits the rest, and counts what is to be printed.
  Status PlaceOutputs(uint64_t* json_bytes) {
    uint64_t answer_bytes = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = outputs[i];
      const KserveRequest::Output& form = parsed_.FormOf(i);
      Status status;
      if (!form.region.empty()) {
        status = form.shared.Write(output.bytes);
      } else if (form.binary) {
        answer_bytes += output.bytes.size();
      } else {
        status = CheckPrintable(output.type, output.bytes);
        if (status.ok()) *json_bytes += TensorJsonBytesMax(output.type, output.bytes);
      }
      if (!status.ok()) return status.Annotate(fmt::format("output '{}'", output.name));
    }
    answer_bytes += *json_bytes;
    const auto limit = static_cast<uint64_t>(service_->options().response_bytes);
    if (answer_bytes > limit) {
      return {StatusCode::kPayloadTooLarge,
              fmt::format("the answer would have up to {} bytes; at most {} are allowed "
                          "(--max-response-bytes)",
                          answer_bytes, limit),
              "outputs"};
    }
    return Take(answer_bytes);
  }

  // Copies results that are to be printed after Done.
  Status KeepOutputs() {
    uint64_t bytes = 0;
    for (size_t i = 0; i < outputs.size(); ++i) bytes += outputs[i].bytes.size();
    PENSTOCK_RETURN_IF_ERROR(Take(bytes));
    kept_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::byte* to = kept_.get();
    for (Output& output : outputs) {
      if (output.bytes.empty()) continue;
      std::memcpy(to, output.bytes.data(), output.bytes.size());
      output.bytes = {to, output.bytes.size()};
      to += output.bytes.size();
    }
    return Status::Ok();
  }

  http::HttpResponse Print() const {
    http::HttpResponse response;
    std::string& body = response.body;
    JsonWriter json(&body);
    json.BeginObject().Field("model_name", served_model());
    json.Field("model_version", api::ServedVersion(served_version()));
    if (!parsed_.id.empty()) json.Field("id", parsed_.id);
    json.Key("outputs").BeginArray();
    uint64_t binary_bytes = 0;
    bool binary = false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = outputs[i];
      const KserveRequest::Output& form = parsed_.FormOf(i);
      json.BeginObject().Field("name", output.name);
      json.Field("datatype", signature::ElementTypeName(output.type)).Key("shape").BeginArray();
      for (const int64_t size : output.shape) json.Int(size);
      json.EndArray();
      if (!form.region.empty()) {
        json.Key("parameters").BeginObject().Field("shared_memory_region", form.region);
        if (form.offset > 0) json.Field("shared_memory_offset", form.offset);
        json.Field("shared_memory_byte_size", output.bytes.size()).EndObject();
      } else if (form.binary) {
        json.Key("parameters").BeginObject();
        json.Field("binary_data_size", output.bytes.size()).EndObject();
        binary_bytes += output.bytes.size();
        binary = true;
      } else {
        json.Key("data").Raw("");
        AppendTensorJson(output.type, output.bytes, &body);
      }
      json.EndObject();
    }
    json.EndArray().EndObject();
    if (!binary) return response;
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kJsonBytesHeader, std::to_string(body.size()));
    body.reserve(body.size() + binary_bytes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const KserveRequest::Output& form = parsed_.FormOf(i);
      if (!form.binary || !form.region.empty()) continue;
      body.append(reinterpret_cast<const char*>(outputs[i].bytes.data()), outputs[i].bytes.size());
    }
    return response;
  }

  api::Service* const service_;
  const http::Responder respond_;
  const std::shared_ptr<const http::HttpRequest> request_;
  const ErrorBody error_body_;
  const std::string body_;
  KserveRequest parsed_;
  std::unique_ptr<std::byte[]> kept_;
};

}  // namespace

size_t KserveInferJsonBytes(const http::HttpRequest& request, size_t body_bytes) {
  const auto bytes = KserveJsonBytes(request.Header("inference-header-content-length"), body_bytes);
  return bytes.ok() ? *bytes : 0;  // it is refused before anything is parsed
}

void AnswerKserveInfer(const RouteCall& call, std::string model, std::string version) {
  auto infer = std::make_unique<KserveInfer>(call);
  infer->model = std::move(model);
  infer->version = std::move(version);
  KserveInfer::Start(std::move(infer));
}

}  // namespace penstock::dialects
