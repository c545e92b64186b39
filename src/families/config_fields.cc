#include "families/config_fields.h"

#include <string>

#include "base/printable.h"

namespace penstock::families {

std::string_view PresentField(const JsonObject& config, FieldNames names) {
  for (const std::string_view name : names) {
    if (config.Has(name)) return name;
  }
  return *names.begin();
}

Status ReadInt(const JsonObject& config, FieldNames names, int32_t absent, int64_t min, int64_t max,
               int32_t* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t value,
                            config.GetIntOr(PresentField(config, names), absent, min, max));
  *out = static_cast<int32_t>(value);
  return Status::Ok();
}

Status ReadFloat(const JsonObject& config, FieldNames names, double absent, double min, double max,
                 float* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const double value,
                            config.GetNumberOr(PresentField(config, names), absent, min, max));
  *out = static_cast<float>(value);
  return Status::Ok();
}

Status ReadActivation(const JsonObject& config, std::string_view key, std::string_view absent,
                      HiddenActivation* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, config.GetStringOr(key, absent));
  const auto known = HiddenActivationNamed(name);
  if (!known) {
    return Status::Unsupported(std::string("'") + config.PathOf(key) + "': activation '" +
                                   Shown(name) + "' is not supported",
                               config.PathOf(key));
  }
  *out = *known;
  return Status::Ok();
}

Status RefuseIfSet(const JsonObject& config, FieldNames names) {
  for (const std::string_view name : names) {
    const auto value = config.Find(name);
    if (!value) continue;
    bool truth = false;
    double number = 0;
    if (value->Get(&truth) && !truth) continue;
    if (value->Get(&number) && number == 0) continue;
    if (JsonObject object; value->Get(&object) && object.empty()) continue;
    return Status::Unsupported(
        std::string("'") + config.PathOf(name) + "' is set, which is not supported",
        config.PathOf(name));
  }
  return Status::Ok();
}

Status RefuseIfFalse(const JsonObject& config, std::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool value, config.GetBoolOr(name, true));
  if (value) return Status::Ok();
  return Status::Unsupported(
      std::string("'") + config.PathOf(name) + "' is false, which is not supported",
      config.PathOf(name));
}

}  // namespace penstock::families
