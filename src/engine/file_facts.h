// FileFacts: what the files of a model say of it, read from their headers and settings: told of
// models that are not loaded.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace penstock::engine {

struct FileFacts {
  std::string path;      // the folder, or the GGUF file
  std::string revision;  // commit if known, else ""
  std::string architecture;
  int32_t max_tokens = 0;  // of a text, or of prompt and text together; as the files have it
  int32_t hidden_size = 0;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // in the files
  bool generates = false;
  bool chat = false;          // it has a chat template
  std::string chat_template;  // its text
};

// Of the text model at `path`, a folder or a .gguf file; milliseconds. `chat_template`: the one
// that was asked for, as in ModelTemplates. Errors as the model's load, as far as files tell.
Expected<FileFacts> ReadFileFacts(const std::string& path, const std::string& chat_template);

}  // namespace penstock::engine
