#include "runtime/per_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::runtime {
namespace {

bool Has(const registry::ModelSpec& model, const std::string& name) {
  return model.name == name ||
         std::find(model.aliases.begin(), model.aliases.end(), name) != model.aliases.end();
}

}  // namespace

Expected<PerModel> PerModel::Parse(const std::string& flag, const std::vector<std::string>& given) {
  PerModel out;
  out.flag_ = flag;
  const auto refuse = [&](const std::string& why) {
    return Status::InvalidArgument(fmt::format("--{} {}", flag, why), flag);
  };
  for (const std::string& text : given) {
    bool begun = false;  // a value that more may be added to
    for (size_t from = 0; from <= text.size();) {
      const size_t end = std::min(text.find(',', from), text.size());
      const std::string item = text.substr(from, end - from);
      from = end + 1;
      const size_t equals = item.rfind('=');
      if (equals == std::string::npos && begun) {
        out.values_.back().second += "," + item;
        continue;
      }
      std::string name = equals == std::string::npos ? "" : item.substr(0, equals);
      if (equals == 0) return refuse(fmt::format("'{}' has no name before '='", item));
      if (std::any_of(out.values_.begin(), out.values_.end(),
                      [&](const auto& known) { return known.first == name; })) {
        return refuse(name.empty() ? "is given twice for all models"
                                   : fmt::format("is given twice for '{}'", name));
      }
      out.values_.emplace_back(std::move(name),
                               equals == std::string::npos ? item : item.substr(equals + 1));
      begun = true;
    }
  }
  return out;
}

std::vector<std::string> PerModel::Values() const {
  std::vector<std::string> values;
  for (const auto& [name, value] : values_) values.push_back(value);
  return values;
}

Expected<std::string> PerModel::Of(const registry::ModelSpec& model) const {
  std::string for_all;
  const std::pair<std::string, std::string>* own = nullptr;
  for (const auto& known : values_) {
    if (known.first.empty()) {
      for_all = known.second;
    } else if (Has(model, known.first)) {
      if (own != nullptr) {
        return Status::InvalidArgument(fmt::format("--{} is given for '{}' and for '{}', which are "
                                                   "one model",
                                                   flag_, own->first, known.first),
                                       flag_);
      }
      own = &known;
    }
  }
  return own == nullptr ? for_all : own->second;
}

Status PerModel::CheckNames(const std::vector<registry::ModelSpec>& models) const {
  for (const auto& entry : values_) {
    const std::string& name = entry.first;
    if (name.empty() ||
        std::any_of(models.begin(), models.end(),
                    [&](const registry::ModelSpec& model) { return Has(model, name); })) {
      continue;
    }
    std::string served;
    for (const registry::ModelSpec& model : models)
      served += (served.empty() ? "" : ", ") + model.name;
    return Status::InvalidArgument(
        fmt::format("--{} names '{}', which is not served; served: {}", flag_, name, served),
        flag_);
  }
  return Status::Ok();
}

}  // namespace penstock::runtime
