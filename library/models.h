// Models: what is behind a penstock_models: models, service and routes of one guest.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "http/server_options.h"
#include "library/calls.h"
#include "library/request_call.h"
#include "runtime/local_models.h"

namespace penstock::library {

class Models {
 public:
  // As penstock_open.
  static Expected<std::unique_ptr<Models>> Open(std::string_view options);
  // As penstock_close.
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // As penstock_embed and penstock_request: failures are those of the call.
  std::shared_ptr<Call> Embed(const penstock_texts& texts, const char* request);
  std::shared_ptr<Call> Ask(const RouteRequest& asked);

  Calls* calls() { return calls_.get(); }

 private:
  Models() = default;

  http::ServerOptions server_;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  std::unique_ptr<runtime::LocalModels> local_;
  std::unique_ptr<serving::Router> router_;  // after what it uses
};

// A call that has failed.
std::shared_ptr<Call> FailedCall(const Status& why);

}  // namespace penstock::library
