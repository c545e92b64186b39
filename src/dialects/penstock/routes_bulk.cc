// Bulk runs: Penstock's own.
#include "dialects/penstock/bulk.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void Bulk(const RouteCall& call) {
  const auto parsed = ParseBulkCall(call.body);
  if (!parsed.ok()) return call.Fail(parsed.status());
  if (parsed->begin) {
    const auto begun = call.service->BeginBulkRun(call.request->context.client);
    return begun.ok() ? call.Ok(PrintBulkRunBegun(*begun)) : call.Fail(begun.status());
  }
  call.service->EndBulkRun(parsed->id, Answer<api::BulkRunEnded>(call, {}, PrintBulkRunEnded));
}

constexpr Route kBulkRoutes[] = {
    {"POST", "/v1/bulk", kOpenAiErrors, Bulk,
     About("Begins or ends a bulk run", "BulkRequest", "BulkRun"), frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const serving::Route> BulkRoutes() { return kBulkRoutes; }

}  // namespace penstock::dialects
