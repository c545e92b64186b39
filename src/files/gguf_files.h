// Which GGUF file a path stands for.
#pragma once

#include <initializer_list>
#include <string>

#include "base/status.h"

namespace penstock::files {

// What weights of a folder are called that has no GGUF model.
inline constexpr std::initializer_list<const char*> kSafetensorsFiles = {
    "model.safetensors", "model.safetensors.index.json"};

// `path` itself if it is a file; of a folder the one GGUF model in it, of several files the first.
// Empty: the folder has one of the files `instead`, or no .gguf file; files named mmproj*, which
// are for images, do not count. kNotFound: there is no such
// path. kInvalidArgument, field model: several models are in the folder; the message names them.
Expected<std::string> FindGguf(const std::string& path,
                               std::initializer_list<const char*> instead = kSafetensorsFiles);

}  // namespace penstock::files
