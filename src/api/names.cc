#include "api/names.h"

#include <fmt/format.h>

namespace penstock::api {

Status CheckName(std::string_view name, const std::string& field) {
  if (name.size() > kNameBytesMax) {
    return Status::InvalidArgument(fmt::format("'{}' is {} bytes long; at most {} are allowed",
                                               field, name.size(), kNameBytesMax),
                                   field);
  }
  if (name.find('\0') != std::string_view::npos) {
    return Status::InvalidArgument(fmt::format("'{}' must not hold a NUL character", field), field);
  }
  return Status::Ok();
}

}  // namespace penstock::api
