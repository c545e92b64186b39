// ModelReference: a user's name of a model: a local folder or GGUF file, or "owner/name" or
// "owner/name@revision" on the Hugging Face hub.
#pragma once

#include <string>

#include "common/status.h"

namespace penstock {

struct ModelReference {
  static constexpr size_t kBytesMax = 4096;

  std::string path;  // a local folder or GGUF file; then the others are empty
  std::string owner;
  std::string name;
  std::string revision;  // branch, tag or commit; "main" if not given

  bool local() const { return !path.empty(); }
  std::string repository() const { return owner + "/" + name; }

  // A folder or a GGUF file that exists is always taken as one; "~/" is the home folder.
  // kInvalidArgument lists the forms; kNotFound: a path that does not exist.
  static Expected<ModelReference> Parse(const std::string& text);
};

}  // namespace penstock
