// What handlers of all dialects do alike: parse a body's object, and print what the Service
// answers in the form of the route.
//
// Small answers are printed on the io thread, through Responder::Send, large ones on a worker.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
#include "dialects/shared/errors.h"
#include "dialects/shared/fields.h"
#include "frontend/request_policy.h"
#include "frontend/wire_names.h"
#include "log/exception_status.h"
#include "serving/route.h"

namespace penstock::dialects {

// Parses the body, once, for a handler of its object.
template <void (*kHandle)(const serving::RouteCall& call, const JsonObject& object)>
void WithObject(const serving::RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  kHandle(call, body->object());
}

// An answer up to this size is printed on the io thread.
inline constexpr size_t kPrintOnIoBytesMax = 64 << 10;

// Estimated bytes of the printed response.
template <typename Response>
size_t PrintedBytes(const Response& response) {
  if constexpr (requires { response.values; }) {
    return response.values.size() * 12;
  } else if constexpr (requires { response.items; }) {
    return response.items.size() * 50;
  } else if constexpr (requires { response.scores; }) {
    return response.scores.size() * 12;
  } else if constexpr (requires {
                         response.inputs;
                         response.labels;
                       }) {
    return response.inputs.size() * response.labels.size() * 60;
  } else if constexpr (requires { response.texts; }) {
    size_t bytes = 0;
    for (const std::string& text : response.texts) bytes += text.size();
    return bytes;
  } else if constexpr (requires { response.inputs; }) {
    size_t tokens = 0;
    for (const auto& input : response.inputs) tokens += input.size();
    return tokens * 72;
  } else {
    return 0;
  }
}

// Adds X-Penstock-Run-Stages where a stage was left out, which makes the answer worthless.
void AddRunStages(const api::Service& service, http::HttpResponse* response);

// A Service callback that answers `call`: with the error in the route's error body and with wire
// field names, or with print(response) and, where the response reports truncation, its headers.
// `repeated_bytes`: bytes of the request that the answer repeats.
template <typename Response, typename Print>
api::Callback<Response> Answer(const serving::RouteCall& call, frontend::FieldNames native_to_wire,
                               Print print, size_t repeated_bytes = 0) {
  native_to_wire.emplace_back("bulk_run", frontend::kBulkIdHeader);
  return [respond = call.respond, request = call.request, error_body = call.route->error_body,
          service = call.service, names = std::move(native_to_wire), print = std::move(print),
          repeated_bytes](Expected<Response> result) {
    const size_t bytes = result.ok() ? PrintedBytes(*result) + repeated_bytes : 0;
    auto shared = std::make_shared<Expected<Response>>(std::move(result));
    auto make = [shared, request, error_body, service, names, print]() -> http::HttpResponse {
      if (!shared->ok()) {
        return serving::PrintError(error_body, frontend::WithWireNames(shared->status(), names),
                                   request->id);
      }
      http::HttpResponse response;
      response.body = print(shared->value());
      if constexpr (requires { shared->value().truncation; }) {
        AddTruncationHeaders(shared->value().truncation, &response);
      }
      AddRunStages(*service, &response);
      return response;
    };
    if (bytes <= kPrintOnIoBytesMax) return respond.Send(std::move(make));
    service->FinishOnWorker(
        request->context.priority, bytes, [respond, request, error_body, make = std::move(make)] {
          try {
            respond.Send(make());
          } catch (...) {
            respond.Send(serving::PrintError(error_body, ExceptionStatus(), request->id));
          }
        });
  };
}

}  // namespace penstock::dialects
