// The files of src/ui/page as they are in the program. cmake/embed.cmake makes the definition.
#pragma once

#include <cstddef>
#include <span>

namespace penstock::ui {

struct EmbeddedFile {
  const char* name;  // without a folder
  const unsigned char* bytes;
  size_t size;
  const char* sha256;  // of the bytes, 64 hexadecimal digits
};

std::span<const EmbeddedFile> EmbeddedFiles();

}  // namespace penstock::ui
