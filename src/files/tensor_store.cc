#include "files/tensor_store.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/printable.h"
#include "files/gguf.h"
#include "files/safetensors.h"

namespace penstock::files {

Status TensorStore::AddSafetensors(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto parsed = ParseSafetensors(file.bytes());
  PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!parsed.ok()) return parsed.status().Annotate(path);
  if (parsed->size() > kTensorsMax - tensors_.size()) {
    return Status::InvalidArgument(path + ": more than " + std::to_string(kTensorsMax) +
                                   " tensors in all files");
  }
  for (TensorRecord& tensor : *parsed) tensors_.push_back(std::move(tensor));
  files_.push_back(std::move(file));
  return Status::Ok();
}

Status TensorStore::IndexNames() {
  by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    bytes_total_ += tensors_[i].data.size();
    if (!by_name_.emplace(tensors_[i].name, i).second) {
      return Status::InvalidArgument("tensor '" + Shown(tensors_[i].name) + "' is in two files");
    }
  }
  return Status::Ok();
}

Expected<std::unique_ptr<TensorStore>> TensorStore::OpenFile(const std::string& path) {
  auto store = std::make_unique<TensorStore>();
  PENSTOCK_RETURN_IF_ERROR(store->AddSafetensors(path));
  PENSTOCK_RETURN_IF_ERROR(store->IndexNames());
  return store;
}

Expected<std::unique_ptr<TensorStore>> TensorStore::OpenFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path root(folder);
  std::error_code ignored;
  if (fs::exists(root / "model.safetensors", ignored)) {
    return OpenFile((root / "model.safetensors").string());
  }
  const std::string index = (root / "model.safetensors.index.json").string();
  if (!fs::exists(index, ignored)) {
    if (fs::exists(root / "pytorch_model.bin", ignored) ||
        fs::exists(root / "pytorch_model.bin.index.json", ignored)) {
      return Status::Unsupported(folder +
                                 " has its weights as pytorch_model.bin only; convert them to "
                                 "model.safetensors");
    }
    return Status::NotFound("neither model.safetensors nor model.safetensors.index.json in " +
                            folder);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto weight_map, ReadSafetensorsIndex(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  auto store = std::make_unique<TensorStore>();
  for (const std::string& name : names) {
    PENSTOCK_RETURN_IF_ERROR(store->AddSafetensors((root / name).string()));
  }
  const Status indexed = store->IndexNames();
  if (!indexed.ok()) return indexed.Annotate(index);
  for (const auto& [tensor, file] : weight_map) {
    if (store->Find(tensor) == nullptr) {
      return Status::InvalidArgument(index + ": tensor '" + Shown(tensor) + "' is not in " +
                                     Shown(file));
    }
  }
  return store;
}

Expected<std::unique_ptr<TensorStore>> TensorStore::OpenGguf(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(GgufModel model, GgufModel::Open(path));
  return Of(std::move(model));
}

Expected<std::unique_ptr<TensorStore>> TensorStore::Of(GgufModel model) {
  auto store = std::make_unique<TensorStore>();
  store->gguf_ = {model.version, model.alignment, static_cast<int64_t>(model.files.size()),
                  std::move(model.metadata)};
  store->files_ = std::move(model.files);
  store->tensors_ = std::move(model.tensors);
  PENSTOCK_RETURN_IF_ERROR(store->IndexNames());
  return store;
}

Status TensorStore::Check() const {
  for (const MappedFile& file : files_) PENSTOCK_RETURN_IF_ERROR(file.Check());
  return Status::Ok();
}

const TensorRecord* TensorStore::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace penstock::files
