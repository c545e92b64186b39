// Bulk runs: Penstock's own.
#include "routes/bulk.h"
#include "routes/routes.h"

namespace penstock::routes {
namespace {

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
    {"POST", "/v1/bulk", ErrorBody::kOpenAi, Bulk,
     About("Begins or ends a bulk run", "BulkRequest", "BulkRun"), frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const Route> BulkRoutes() { return kBulkRoutes; }

}  // namespace penstock::routes
