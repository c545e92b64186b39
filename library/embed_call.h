// A call that embeds texts: float32 rows.
#pragma once

#include <memory>
#include <string>

#include "api/service.h"
#include "library/call.h"
#include "threads/request_context.h"

namespace penstock::library {

class EmbedCall final : public Call {
 public:
  using Call::Call;
  static constexpr int32_t kInputsMax = 1 << 20;

  // Once. `request` may be null. Failures are those of the call.
  void Start(api::Service* service, const penstock_texts& texts, const char* request);

 private:
  int Take(penstock_view* view) override;
  void Stop() override { cancel_->Cancel(); }

  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  // Set before the state is PENSTOCK_ENDED.
  api::EmbedResponse response_;
  std::string info_;  // made by Take
};

}  // namespace penstock::library
