// ScanRepository: what a folder of models holds, told from names, sizes and times of files; none is
// opened.
//
//   DIR/name/model.toml   settings of the model, if any
//   DIR/name/config.pbtxt settings of a tensor model, if any, in Triton's form
//   DIR/name/1/           its version 1: a model folder, or a folder with one GGUF or tensor model
//   DIR/name/2/           ...
//
// Names that begin with '.' are left alone: a place to copy a version to before it is renamed.
// Symbolic links are followed where they end inside DIR, at any depth; one that leads out of it is
// an error of its version, its settings or its model. The folder is a stranger's: all of it is
// bounded, and what is refused keeps nothing else out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::runtime {

struct RepositoryVersion {
  int64_t number = 0;  // 1 or more
  std::string path;
  // Differs when a file's name, size or time of modification does, or those of the settings.
  uint64_t files = 0;
  std::string error;  // why it cannot be taken; "": it may be
};

struct RepositoryModel {
  std::string name;
  std::string settings;                     // the path of model.toml; "" = there is none
  std::string config;                       // the same of config.pbtxt
  std::vector<RepositoryVersion> versions;  // the highest first
};

struct RepositoryContents {
  std::vector<RepositoryModel> models;  // by name
  std::vector<std::string> left_out;    // what, and why: for the log
};

struct RepositoryLimits {
  static constexpr size_t kNameBytesMax = 200;
  static constexpr size_t kModelsMax = 64;      // as of the registry; the first by name
  static constexpr size_t kEntriesMax = 10000;  // of DIR, of a model's folder
  static constexpr size_t kVersionsMax = 16;    // of a model; the highest
  static constexpr size_t kFilesMax = 2000;     // of a version, folders counted
  static constexpr int kDepthMax = 4;           // of folders in a version
};

// kNotFound: it is no folder. kInvalidArgument: it cannot be read; kPayloadTooLarge: too many
// entries.
Expected<RepositoryContents> ScanRepository(const std::string& folder);

}  // namespace penstock::runtime
