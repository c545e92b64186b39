#include "load/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace penstock::load {

Status WriteTextFile(const std::string& path, std::string_view text) {
  if (path.empty()) return Status::Ok();
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  bool failed = file == nullptr;
  if (!failed) failed = std::fwrite(text.data(), 1, text.size(), file) != text.size();
  if (file != nullptr) failed = std::fclose(file) != 0 || failed;
  if (!failed) return Status::Ok();
  return {StatusCode::kUnavailable, "cannot write " + path + ": " + strerror(errno)};
}

}  // namespace penstock::load
