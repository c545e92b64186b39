#include "default_models.h"

#include <fmt/format.h>

#include "hub/default_model.h"
#include "hub/environment.h"
#include "hub/hub.h"
#include "log/log.h"

namespace penstock::cli {
namespace {

// "OWNER/NAME,NAME=REF", or the reference alone where it is the user's.
std::string Named(const hub::DefaultModel& model) {
  if (model.name.empty()) return model.reference;
  return model.name + "," + model.name.substr(model.name.rfind('/') + 1) + "=" + model.reference;
}

// Whether the first request can load it; it is not fetched.
Status CanLoad(const std::string& reference, bool auto_pull) {
  hub::ResolveOptions options;
  options.offline = true;
  const Status here = hub::ResolveModel(reference, options).status();
  return here.ok() || (auto_pull && !hub::HubIsOffline()) ? Status::Ok() : here;
}

Status Fetch(const std::string& reference, const std::function<bool()>& go_on) {
  hub::ResolveOptions options;
  bool told = false;
  options.progress = [&](const hub::HubProgress& progress) {
    if (!told && progress.bytes_total > 0) {
      told = true;
      LogInfo("{}: downloading {:.1f} MB", reference,
              static_cast<double>(progress.bytes_total) / 1e6);
    }
    return go_on();
  };
  return hub::ResolveModel(reference, options).status();
}

}  // namespace

void TakeServedDefaults(runtime::ModelOptions* flags, const std::function<bool()>& go_on) {
  if (!flags->models.empty() || !flags->repositories.empty()) return;
  runtime::TakeDefaultModel(flags);
  if (!flags->served_names.empty()) return;
  hub::SetAutoPull(flags->auto_pull);
  const hub::DefaultModel text = hub::FindDemoModel();
  const Status there =
      flags->preload ? Fetch(text.reference, go_on) : CanLoad(text.reference, flags->auto_pull);
  if (!there.ok()) {
    LogWarn("no model of text is served: {}", there.message());
    return;
  }
  flags->models = {Named(hub::FindDefaultModel()), Named(text)};
  flags->default_name.clear();
  LogMessage(LogEnabled(LogLevel::kInfo) ? LogLevel::kInfo : LogLevel::kWarn,
             fmt::format("for text the default, {}", text.reference));
}

}  // namespace penstock::cli
