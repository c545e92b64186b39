#include "hub/reference.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "common/regular_file.h"

namespace penstock {
namespace {

constexpr size_t kNameBytesMax = 96;  // as the hub has it
constexpr size_t kRevisionBytesMax = 256;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// The hub's rules for owners and repositories: no "--" or "..", no '-' or '.' at either end.
bool IsName(std::string_view text) {
  const auto edge = [](char c) { return c != '-' && c != '.'; };
  return !text.empty() && text.size() <= kNameBytesMax &&
         std::all_of(text.begin(), text.end(), IsNameByte) && edge(text.front()) &&
         edge(text.back()) && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos;
}

bool IsRevision(std::string_view text) {
  return !text.empty() && text.size() <= kRevisionBytesMax && text.front() != '/' &&
         text.back() != '/' &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsNameByte(c) || c == '/'; }) &&
         text.find("..") == std::string_view::npos && text.find("//") == std::string_view::npos;
}

bool LooksLikePath(const std::string& text) {
  return text[0] == '/' || text[0] == '~' || text == "." || text == ".." ||
         text.starts_with("./") || text.starts_with("../") || text.ends_with("/");
}

// By its first bytes.
bool IsGguf(const std::string& path) {
  const auto file = OpenRegularFile(path);
  char begin[4] = {};
  return file.ok() && ::read(file->get(), begin, sizeof begin) == sizeof begin &&
         std::string_view(begin, sizeof begin) == "GGUF";
}

}  // namespace

Expected<ModelReference> ModelReference::Parse(const std::string& text) {
  if (text.empty() || text.size() > kBytesMax || text.find('\0') != std::string::npos) {
    return Status::InvalidArgument(
        "a model reference has 1 to " + std::to_string(kBytesMax) + " bytes and no NUL", "model");
  }
  ModelReference reference;
  std::string path = text;
  const char* home = std::getenv("HOME");
  if (home != nullptr && text.starts_with("~/")) path = home + text.substr(1);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    reference.path = path;
    return reference;
  }
  if (std::filesystem::exists(path, ignored)) {
    if (!IsGguf(path)) {
      return Status::InvalidArgument(
          "'" + text +
              "' is a file and no GGUF file; a model is a folder with config.json, tokenizer.json "
              "and safetensors, or a GGUF file",
          "model");
    }
    reference.path = path;
    return reference;
  }
  if (LooksLikePath(text)) return Status::NotFound("no model folder at " + path, "model");

  const size_t at = text.find('@');
  const std::string repository = text.substr(0, at);
  reference.revision = at == std::string::npos ? "main" : text.substr(at + 1);
  const size_t slash = repository.find('/');
  reference.owner = repository.substr(0, slash);
  reference.name = slash == std::string::npos ? "" : repository.substr(slash + 1);
  if (!IsName(reference.owner) || !IsName(reference.name) || !IsRevision(reference.revision)) {
    return Status::InvalidArgument("'" + text +
                                       "' is neither a folder that exists nor owner/name or "
                                       "owner/name@revision on the hub",
                                   "model");
  }
  return reference;
}

}  // namespace penstock
