#include "dialects/shared/errors.h"

#include "base/name_table.h"

namespace penstock::dialects {
namespace {

const char* OpenAiType(int http_status) {
  if (http_status == 401) return "authentication_error";
  if (http_status == 403) return "permission_error";
  if (http_status == 429) return "rate_limit_error";
  if (http_status >= 500) return "server_error";
  return "invalid_request_error";
}

std::string_view OpenAiCode(int http_status, const Status& status) {
  static constexpr NumberName kCodes[] = {
      {401, "invalid_api_key"},        {403, "forbidden"},
      {405, "method_not_allowed"},     {408, "request_timeout"},
      {415, "unsupported_media_type"}, {429, "rate_limit_exceeded"},
      {431, "header_too_large"}};
  if (http_status == 404) return status.field() == "model" ? "model_not_found" : "not_found";
  return NameOfNumber(kCodes, http_status, StatusCodeName(status.code()));
}

// TEI's ErrorType names; "Authentication", "Forbidden", "NotFound" and "Timeout" are additions.
const char* TeiType(int http_status) {
  static constexpr NumberName kTypes[] = {{401, "Authentication"}, {403, "Forbidden"},
                                          {404, "NotFound"},       {408, "Timeout"},
                                          {429, "Overloaded"},     {503, "Unhealthy"}};
  const bool backend = http_status >= 500 || http_status == 424;
  return NameOfNumber(kTypes, http_status, backend ? "Backend" : "Validation");
}

const char* AnthropicType(int http_status) {
  static constexpr NumberName kTypes[] = {{401, "authentication_error"}, {403, "permission_error"},
                                          {404, "not_found_error"},      {413, "request_too_large"},
                                          {429, "rate_limit_error"},     {503, "overloaded_error"},
                                          {504, "timeout_error"}};
  return NameOfNumber(kTypes, http_status,
                      http_status >= 500 ? "api_error" : "invalid_request_error");
}

}  // namespace

void WriteOpenAiError(int http_status, const Status& status, std::string_view, JsonWriter* json) {
  json->Key("error").BeginObject().Field("message", status.message());
  json->Field("type", OpenAiType(http_status)).Key("param");
  if (status.field().empty()) {
    json->Null();
  } else {
    json->String(status.field());
  }
  json->Field("code", OpenAiCode(http_status, status)).EndObject();
  json->Field("detail", status.message());
}

void WriteRerankError(int http_status, const Status& status, std::string_view id,
                      JsonWriter* json) {
  json->Field("message", status.message()).Field("detail", status.message());
  if (!status.field().empty()) json->Field("field", status.field());
  json->Field("code", OpenAiCode(http_status, status)).Field("id", id);
}

void WriteTeiError(int http_status, const Status& status, std::string_view, JsonWriter* json) {
  json->Field("error", status.message()).Field("error_type", TeiType(http_status));
  if (!status.field().empty()) json->Field("field", status.field());
}

void WriteMessageError(int, const Status& status, std::string_view, JsonWriter* json) {
  json->Field("error", status.message());
}

void WriteAnthropicError(int http_status, const Status& status, std::string_view id,
                         JsonWriter* json) {
  json->Field("type", "error").Key("error").BeginObject();
  json->Field("type", AnthropicType(http_status)).Field("message", status.message());
  json->EndObject().Field("request_id", id);
}

}  // namespace penstock::dialects
