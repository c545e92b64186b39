#include "library/embed_call.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8_check.h"
#include "dialects/shared/fields.h"
#include "json/json.h"

namespace penstock::library {
namespace {

// Offset i of the texts.
int64_t OffsetAt(const penstock_texts& texts, int64_t i) {
  if (texts.offset_bits == 64) return static_cast<const int64_t*>(texts.offsets)[i];
  return static_cast<const int32_t*>(texts.offsets)[i];
}

Expected<std::vector<api::Input>> ReadTexts(const penstock_texts& texts) {
  if (texts.count > EmbedCall::kInputsMax) {
    return Status(StatusCode::kPayloadTooLarge,
                  fmt::format("texts.count is {}; a call takes {} texts at most", texts.count,
                              EmbedCall::kInputsMax),
                  "texts.count");
  }
  if (texts.count < 0) return Status::InvalidArgument("texts.count is negative", "texts.count");
  if (texts.offset_bits != 32 && texts.offset_bits != 64) {
    return Status::InvalidArgument("texts.offset_bits must be 32 or 64", "texts.offset_bits");
  }
  std::vector<api::Input> inputs;
  if (texts.count == 0) return inputs;
  if (texts.offsets == nullptr) {
    return Status::InvalidArgument("texts.offsets is NULL", "texts.offsets");
  }
  inputs.resize(static_cast<size_t>(texts.count));
  for (int64_t i = 0; i < texts.count; ++i) {
    const int64_t begin = OffsetAt(texts, i);
    const int64_t end = OffsetAt(texts, i + 1);
    if (begin < 0 || end < begin || (end > begin && texts.bytes == nullptr)) {
      return Status::InvalidArgument(
          fmt::format("texts.offsets: text {} is from {} to {}", i, begin, end), "texts.offsets");
    }
    if (end == begin) continue;
    const std::string_view text(texts.bytes + begin, static_cast<size_t>(end - begin));
    if (!IsValidUtf8(text)) {
      return Status::InvalidArgument(fmt::format("inputs[{}] is not UTF-8", i),
                                     fmt::format("inputs[{}]", i));
    }
    inputs[static_cast<size_t>(i)].text = text;
  }
  return inputs;
}

Status CheckKeys(const JsonObject& object) {
  static constexpr std::string_view kKnown[] = {
      "model",      "dimensions", "normalize",          "prompt",   "prompt_name",
      "input_type", "truncate",   "add_special_tokens", "priority", "truncation_direction"};
  for (const JsonField& field : object) {
    bool known = false;
    for (const std::string_view key : kKnown) known = known || field.key == key;
    if (known) continue;
    return Status::InvalidArgument("there is no field '" + std::string(field.key) + "'",
                                   std::string(field.key));
  }
  return Status::Ok();
}

Status ReadRequest(const char* json, api::EmbedRequest* request, RequestContext* context) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto body, dialects::RequestBody::Parse(json));
  const JsonObject& object = body.object();
  PENSTOCK_RETURN_IF_ERROR(CheckKeys(object));
  PENSTOCK_ASSIGN_OR_RETURN(request->model, dialects::GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(request->dimensions,
                            dialects::GetOptionalInt(object, "dimensions", 1, 1 << 30));
  PENSTOCK_ASSIGN_OR_RETURN(request->normalize, dialects::GetOptionalBool(object, "normalize"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto special,
                            dialects::GetOptionalBool(object, "add_special_tokens"));
  request->add_special_tokens = special.value_or(true);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string priority, object.GetStringOr("priority", ""));
  if (priority == "bulk") {
    context->priority = Priority::kBulk;
  } else if (!priority.empty() && priority != "interactive") {
    return Status::InvalidArgument("priority must be interactive or bulk", "priority");
  }
  return dialects::ParseTextOptions(object, &request->text);
}

std::string InfoOf(const api::EmbedResponse& response) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("model", response.model);
  json.Field("prompt_tokens", response.usage.prompt_tokens);
  dialects::WriteTruncation(response.truncation, &json);
  json.EndObject();
  return text;
}

}  // namespace

void EmbedCall::Start(api::Service* service, const penstock_texts& texts, const char* json) {
  api::EmbedRequest request;
  RequestContext context;
  context.cancel = cancel_;
  auto inputs = ReadTexts(texts);
  if (!inputs.ok()) return SetFailed(inputs.status());
  request.inputs = *std::move(inputs);
  if (json != nullptr) {
    if (const Status read = ReadRequest(json, &request, &context); !read.ok()) {
      return SetFailed(read);
    }
  }
  service->Embed(std::move(request), std::move(context),
                 [self = shared_from_this(), this](Expected<api::EmbedResponse> response) {
                   if (!response.ok()) return SetFailed(response.status());
                   response_ = *std::move(response);
                   SetState(PENSTOCK_ENDED);
                 });
}

int EmbedCall::Take(penstock_view* view) {
  if (info_.empty()) info_ = InfoOf(response_);
  const auto size = static_cast<int64_t>(response_.values.size());
  const int64_t columns = response_.dimensions;
  *view = {.data = response_.values.data(),
           .bytes = size * static_cast<int64_t>(sizeof(float)),
           .rows = columns == 0 ? 0 : size / columns,
           .columns = columns,
           .status = 0,
           .content_type = nullptr,
           .headers = nullptr,
           .info = info_.c_str()};
  return PENSTOCK_ENDED;
}

}  // namespace penstock::library
