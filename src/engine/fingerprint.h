// A digest of all that a model's results depend on, in 64 hexadecimal digits: for caches that
// processes share.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::engine {

// SHA-256 over this program's own bytes, over `settings`, and over the name and content of every
// .json, .txt, .model and .safetensors file in the folder and the folders in it; or of a GGUF
// model, of which `path` is one file, over all its files. Two programs never share results: other
// kernels may give other last bits. Reads all of it: 0.6 s a GB where the processor has
// instructions for SHA (1.7 GB/s), several times that elsewhere.
Expected<std::string> ModelFingerprint(const std::string& path, std::string_view settings);

}  // namespace penstock::engine
