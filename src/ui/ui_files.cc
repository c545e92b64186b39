#include "ui/ui_files.h"

#include <zlib.h>

#include <vector>

#include "ui/embedded_files.h"

namespace penstock::ui {
namespace {

const char* ContentType(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// Empty where zlib fails or nothing is gained.
std::string Gzip(std::string_view text) {
  constexpr int kGzipWindowBits = 15 + 16;  // 16: with the header of gzip
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindowBits, 9,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string packed(text.size(), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(whole ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

std::span<const UiFile> UiFiles() {
  static const std::vector<UiFile> files = [] {
    std::vector<UiFile> all;
    for (const EmbeddedFile& file : EmbeddedFiles()) {
      const std::string_view text(reinterpret_cast<const char*>(file.bytes), file.size);
      const std::string digest(file.sha256, 16);
      all.push_back({file.name, ContentType(file.name), text, Gzip(text), '"' + digest + '"'});
    }
    return all;
  }();
  return files;
}

const UiFile* FindUiFile(std::string_view name) {
  for (const UiFile& file : UiFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace penstock::ui
