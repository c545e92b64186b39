// The files of a model: opened, put in order, and checked against each other.
#include <cstdio>
#include <utility>

#include "base/printable.h"
#include "base/seeded_hash.h"
#include "files/gguf.h"

namespace penstock::files {
namespace {

// What a file says of itself in the keys split.*; a model in one file has none.
struct Part {
  int64_t number = 0;  // from 0
  int64_t count = 1;
  int64_t tensors = 0;  // of all parts together
};

Expected<Part> ReadPart(const GgufMetadata& metadata) {
  Part part;
  PENSTOCK_ASSIGN_OR_RETURN(part.count, metadata.GetIntOr("split.count", 1, 0, kGgufPartsMax));
  if (part.count <= 1) return Part();  // some writers put 0 into a model of one file
  PENSTOCK_ASSIGN_OR_RETURN(part.number, metadata.GetInt("split.no", 0, part.count - 1));
  PENSTOCK_ASSIGN_OR_RETURN(
      part.tensors, metadata.GetInt("split.tensors.count", 0, static_cast<int64_t>(kTensorsMax)));
  return part;
}

// "-00002-of-00003.gguf"
std::string Ending(int64_t number, int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05d-of-%05d.gguf", static_cast<int>(number + 1),
                static_cast<int>(count));
  return text;
}

std::string PartName(const Part& part) {
  return "part " + std::to_string(part.number + 1) + " of " + std::to_string(part.count);
}

struct OpenFile {
  MappedFile mapped;
  GgufFile file;
  Part part;
};

Expected<OpenFile> OpenPart(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  auto file = ParseGguf(mapped.bytes());
  PENSTOCK_RETURN_IF_ERROR(mapped.Check());
  if (!file.ok()) return file.status().Annotate(path);
  const auto part = ReadPart(file->metadata);
  if (!part.ok()) return part.status().Annotate(path);
  return OpenFile{std::move(mapped), *std::move(file), *part};
}

// The paths of all parts, found by the name of one.
Expected<std::vector<std::string>> PartPaths(const std::string& path, const Part& part) {
  if (part.count == 1) return std::vector<std::string>{path};
  const std::string ending = Ending(part.number, part.count);
  if (!path.ends_with(ending)) {
    return Status::InvalidArgument(path + " is " + PartName(part) +
                                   " by its keys 'split.*', but "
                                   "its name does not end in " +
                                   ending);
  }
  const std::string stem = path.substr(0, path.size() - ending.size());
  std::vector<std::string> paths;
  for (int64_t i = 0; i < part.count; ++i) paths.push_back(stem + Ending(i, part.count));
  return paths;
}

// `part`, which stands where `wanted` should.
Status CheckPart(const std::string& path, const Part& part, const Part& wanted) {
  if (part.count == wanted.count && part.number == wanted.number &&
      part.tensors == wanted.tensors) {
    return Status::Ok();
  }
  if (part.count == wanted.count && part.number == wanted.number) {
    return Status::InvalidArgument(path + ": key 'split.tensors.count' is " +
                                       std::to_string(part.tensors) + ", in other parts it is " +
                                       std::to_string(wanted.tensors),
                                   "split.tensors.count");
  }
  return Status::InvalidArgument(path + " must be " + PartName(wanted) + ", but is " +
                                     (part.count == 1 ? "a whole model" : PartName(part)) +
                                     " by its keys 'split.*'",
                                 "split.no");
}

// Names, once each over all files, and their number.
Status CheckTensors(const std::string& path, const std::vector<TensorRecord>& tensors,
                    const Part& part) {
  SeededSet<std::string_view> names;
  for (const TensorRecord& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Status::InvalidArgument(path + ": tensor '" + Shown(tensor.name) +
                                     "' is in two parts");
    }
  }
  if (part.count > 1 && static_cast<int64_t>(tensors.size()) != part.tensors) {
    return Status::InvalidArgument(path + ": its parts have " + std::to_string(tensors.size()) +
                                       " tensors, key 'split.tensors.count' says " +
                                       std::to_string(part.tensors),
                                   "split.tensors.count");
  }
  return Status::Ok();
}

}  // namespace

Expected<GgufModel> GgufModel::Open(const std::string& path) {
  auto given = OpenPart(path);
  if (!given.ok()) return given.status();
  const Part said = given->part;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> paths, PartPaths(path, said));
  GgufModel model;
  for (int64_t i = 0; i < said.count; ++i) {
    const std::string& name = paths[static_cast<size_t>(i)];
    const Part wanted = {i, said.count, said.tensors};
    auto opened = i == said.number ? std::exchange(given, Status::Ok()) : OpenPart(name);
    if (!opened.ok()) return opened.status().Annotate(PartName(wanted));
    PENSTOCK_RETURN_IF_ERROR(CheckPart(name, opened->part, wanted));
    if (i == 0) {
      model.version = opened->file.version;
      model.alignment = opened->file.alignment;
      model.metadata = std::move(opened->file.metadata);
    }
    for (TensorRecord& tensor : opened->file.tensors) model.tensors.push_back(std::move(tensor));
    model.files.push_back(std::move(opened->mapped));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTensors(path, model.tensors, said));
  return model;
}

}  // namespace penstock::files
