#include "openvino/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/printable.h"
#include "files/mapped_file.h"
#include "openvino/ir_scan.h"
#include "openvino/onnx_scan.h"

namespace penstock::openvino {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesMax = 100000;  // of a SavedModel

struct Kind {
  const char* extension;
  ModelFormat format;
};
constexpr std::array kKinds = {
    Kind{".onnx", ModelFormat::kOnnx},
    Kind{".xml", ModelFormat::kIr},
    Kind{".tflite", ModelFormat::kTfLite},
    Kind{".pb", ModelFormat::kTensorFlowGraph},
    Kind{".graphdef", ModelFormat::kTensorFlowGraph},
};
constexpr char kSavedModelFile[] = "saved_model.pb";
constexpr char kSavedModelFolder[] = "model.savedmodel";  // as in a repository of Triton

Status Missing(const fs::path& path) {
  return Status::NotFound(fmt::format("{}: there is no such model", Printable(path.string())));
}

Expected<uint64_t> RegularBytes(const fs::path& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path.string()));
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return Status::InvalidArgument(path.string() + ": " + error.message());
  return uint64_t{bytes};
}

// Whether `path`, its links followed, is inside `folder`.
bool IsInside(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  const fs::path base = fs::canonical(folder, error);
  if (error) return false;
  const fs::path whole = fs::weakly_canonical(path, error);
  if (error) return false;
  const auto [at, rest] = std::mismatch(base.begin(), base.end(), whole.begin(), whole.end());
  return at == base.end() && rest != whole.end();
}

Status CheckExternal(const std::vector<ExternalData>& external, const fs::path& folder,
                     uint64_t* bytes) {
  std::map<std::string, uint64_t> sizes;
  for (const ExternalData& data : external) {
    auto known = sizes.find(data.location);
    if (known == sizes.end()) {
      const std::string shown = Printable(data.location);
      const fs::path path = folder / data.location;
      if (fs::path(data.location).is_absolute() || !IsInside(folder, path)) {
        return Status::InvalidArgument(
            fmt::format("external data '{}' is outside the model's folder", shown));
      }
      const auto size = RegularBytes(path);
      if (!size.ok()) return Status::InvalidArgument("external data: " + size.status().message());
      *bytes += *size;
      known = sizes.emplace(data.location, *size).first;
    }
    const uint64_t length = data.length.value_or(0);
    if (data.offset > known->second || length > known->second - data.offset) {
      return Status::InvalidArgument(
          fmt::format("external data '{}' has {} bytes, a tensor lies at {} to {}",
                      Printable(data.location), known->second, data.offset, data.offset + length));
    }
  }
  return Status::Ok();
}

Status LookAtOnnx(ModelFiles* files) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(files->path));
  PENSTOCK_ASSIGN_OR_RETURN(OnnxScan scan, ScanOnnx(file.bytes()));
  PENSTOCK_RETURN_IF_ERROR(file.Check());
  files->inputs = std::move(scan.inputs);
  files->outputs = std::move(scan.outputs);
  return CheckExternal(scan.external, fs::path(files->path).parent_path(), &files->bytes);
}

// The C API cannot reset a state, so one client's would reach the next.
Status CheckNoState(std::string_view xml) {
  // Readers of XML tell UTF-16 and UTF-32 by themselves, in which nothing would be found here.
  if (xml.find('\0') != std::string_view::npos) {
    return Status::InvalidArgument("the XML is to be UTF-8, and has zero bytes");
  }
  const std::string operation = StateOperationOf(xml);
  if (operation.empty()) return Status::Ok();
  return Status::Unsupported("the model keeps a state between runs (" + operation +
                             "), which is not supported: export it with the state as inputs and "
                             "outputs");
}

Status LookAtIr(ModelFiles* files) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(files->path));
  PENSTOCK_RETURN_IF_ERROR(CheckNoState(file.text()));
  PENSTOCK_RETURN_IF_ERROR(file.Check());
  const fs::path weights = fs::path(files->path).replace_extension(".bin");
  std::error_code error;
  if (!fs::exists(weights, error)) return Status::Ok();  // a model without constants has none
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t bytes, RegularBytes(weights));
  files->bytes += bytes;
  return Status::Ok();
}

Status LookAtSavedModel(ModelFiles* files) {
  PENSTOCK_RETURN_IF_ERROR(RegularBytes(fs::path(files->path) / kSavedModelFile).status());
  size_t count = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(files->path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++count > kFilesMax) {
      return Status::InvalidArgument(fmt::format("the folder has over {} files", kFilesMax));
    }
    std::error_code ignored;
    if (entry->is_directory(ignored)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const uint64_t bytes, RegularBytes(entry->path()));
    files->bytes += bytes;
  }
  if (error) return Status::InvalidArgument(error.message());
  return Status::Ok();
}

// What the model of a folder may be called.
std::vector<std::string> NamesInFolder() {
  std::vector<std::string> names = {kSavedModelFile, kSavedModelFolder};
  for (const Kind& kind : kKinds) names.push_back(std::string("model") + kind.extension);
  return names;
}

// The model in a folder.
Expected<fs::path> FindInFolder(const fs::path& folder) {
  std::string found;
  for (const std::string& name : NamesInFolder()) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    if (!found.empty()) {
      return Status::InvalidArgument(fmt::format("{} has both {} and {}; name the file",
                                                 Printable(folder.string()), found, name));
    }
    found = name;
  }
  if (!found.empty()) return folder / found;
  return Status::Unsupported(fmt::format("{}: the folder has none of {}",
                                         Printable(folder.string()),
                                         fmt::join(NamesInFolder(), ", ")));
}

Status LookAt(ModelFiles* files) {
  switch (files->format) {
    case ModelFormat::kOnnx:
      return LookAtOnnx(files);
    case ModelFormat::kIr:
      return LookAtIr(files);
    case ModelFormat::kSavedModel:
      return LookAtSavedModel(files);
    case ModelFormat::kTfLite:
    case ModelFormat::kTensorFlowGraph:
      return Status::Ok();
  }
  return Status::Ok();
}

}  // namespace

bool LooksLikeModel(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    const std::vector<std::string> names = NamesInFolder();
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      std::error_code ignored;
      return fs::exists(fs::path(path) / name, ignored);
    });
  }
  return fs::exists(status) && std::any_of(kKinds.begin(), kKinds.end(), [&](const Kind& kind) {
           return fs::path(path).extension() == kind.extension;
         });
}

Expected<ModelFiles> FindModelFiles(const std::string& path) {
  std::error_code error;
  fs::path file = path;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) return Missing(file);
  if (fs::is_directory(status)) {
    PENSTOCK_ASSIGN_OR_RETURN(file, FindInFolder(file));
  }
  ModelFiles files;
  const std::string shown = Printable(file.string());
  if (file.filename() == kSavedModelFolder) file /= kSavedModelFile;
  if (file.filename() == kSavedModelFile) {
    files.format = ModelFormat::kSavedModel;
    files.path = file.has_parent_path() ? file.parent_path().string() : ".";
    PENSTOCK_RETURN_IF_ERROR(LookAt(&files).Annotate(shown));
    return files;
  }
  const Kind* found = nullptr;
  for (const Kind& kind : kKinds) {
    if (file.extension() == kind.extension) found = &kind;
  }
  if (found == nullptr) {
    return Status::Unsupported(
        fmt::format("{}: a tensor model is an .onnx, .xml, .tflite, .pb or .graphdef file, or a "
                    "folder with one",
                    shown));
  }
  files.format = found->format;
  files.path = file.string();
  PENSTOCK_ASSIGN_OR_RETURN(files.bytes, RegularBytes(file));
  PENSTOCK_RETURN_IF_ERROR(LookAt(&files).Annotate(shown));
  return files;
}

}  // namespace penstock::openvino
