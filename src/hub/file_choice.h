// Which files of a repository a reference stands for. Looks at names alone.
//
// Safetensors: config.json, the weights, and the small files Penstock reads beside them; nothing
// else. GGUF: the files of one quantisation, all parts of a split one; files whose names say that
// they are not a language model (mmproj, imatrix) never. A repository that has both kinds is taken
// as safetensors, unless the reference names a quantisation or a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/listing.h"
#include "hub/reference.h"

namespace penstock::hub {

// Names the shards of weights in safetensors.
inline constexpr std::string_view kWeightsIndex = "model.safetensors.index.json";

enum class ModelFormat { kSafetensors, kGguf, kTokenizer };
const char* FormatName(ModelFormat format);  // "safetensors", "gguf", "tokenizer"

// One model of a repository in GGUF.
struct GgufFiles {
  std::string quantisation;        // "Q4_K_M", "UD-Q4_K_XL"; "" = its name says none
  std::vector<std::string> files;  // all parts, in order
  uint64_t bytes = 0;              // 0 = not known
  size_t parts_missing = 0;        // of a split model
};

struct FileChoice {
  ModelFormat format = ModelFormat::kSafetensors;
  std::string quantisation;        // of GGUF
  std::vector<std::string> files;  // of GGUF the first part is the first
  // Safetensors whose weights are in several files: those that model.safetensors.index.json names
  // come besides.
  bool sharded = false;
};

// The quantisation a file's name, or else the folder it is in, ends with: "F16" of
// "x-fp16.gguf". "" if there is none.
std::string QuantisationOf(std::string_view file);

// The models of a repository in GGUF, by quantisation and name.
std::vector<GgufFiles> GgufModelsOf(const RepositoryListing& listing);

// The quantisations that are taken where none is named, the first that is there.
std::span<const std::string_view> QuantisationOrder();

// "Q4_K_M, Q8_0, F16"; of files whose names say none, the names.
std::string QuantisationList(const std::vector<GgufFiles>& models);

// kUnsupported: no weights that Penstock reads. kNotFound: not that quantisation, not that file.
// kInvalidArgument: several files are meant. The message lists what is there.
Expected<FileChoice> ChooseFiles(const RepositoryListing& listing, const ModelReference& reference,
                                 bool tokenizer_only);

// Whether a file of a repository is one Penstock reads, weights left out: config.json,
// tokenizer.json, modules.json, 1_Pooling/config.json, 2_Dense/model.safetensors, ...
bool IsWantedFile(std::string_view file);

// Whether the cache keeps the name of a file in the list it stores.
bool IsModelFile(std::string_view file);

}  // namespace penstock::hub
