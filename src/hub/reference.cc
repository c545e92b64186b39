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
constexpr size_t kQuantisationBytesMax = 32;
constexpr size_t kPathBytesMax = 1024;
constexpr size_t kPathPartBytesMax = 255;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsNameByte(char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; }

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

bool IsQuantisation(std::string_view text) {
  return !text.empty() && text.size() <= kQuantisationBytesMax && IsAlphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_'; });
}

std::string Upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
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

Status Malformed(const std::string& text, const std::string& why) {
  return Status::InvalidArgument(
      "'" + text + "' is neither a folder nor a file that exists, nor a model on the hub: " + why +
          " (the forms: owner/name, owner/name:QUANT, owner/name/file.gguf, each with @revision "
          "behind it if wanted)",
      "model");
}

// ":QUANT" and "@revision" in either order, each once at most.
Status ReadSuffixes(const std::string& text, size_t at, ModelReference* reference) {
  while (at < text.size()) {
    const char mark = text[at];
    const size_t end = std::min(text.find_first_of(":@", at + 1), text.size());
    const std::string value = text.substr(at + 1, end - at - 1);
    std::string& field = mark == ':' ? reference->quantisation : reference->revision;
    if (!field.empty()) {
      return Malformed(text, mark == ':' ? "it names two quantisations, ':' may stand there once"
                                         : "it names two revisions, '@' may stand there once");
    }
    if (mark == ':' ? !IsQuantisation(value) : !IsRevision(value)) {
      return Malformed(text, "'" + value + "' behind '" + mark + "' is no " +
                                 (mark == ':' ? "quantisation, such as Q4_K_M"
                                              : "revision, such as main, a tag or a commit"));
    }
    field = mark == ':' ? Upper(value) : value;
    at = end;
  }
  return Status::Ok();
}

Expected<ModelReference> LocalFile(const std::string& text, const std::string& path) {
  ModelReference reference;
  reference.path = path;
  if (IsGguf(path)) return reference;
  const char* const hint = path.ends_with(".safetensors") ? "name the folder it is in; " : "";
  return Status::InvalidArgument("'" + text + "' is a file and no GGUF file; " + hint +
                                     "a model is a folder with config.json, tokenizer.json and "
                                     "safetensors, or a GGUF file",
                                 "model");
}

}  // namespace

bool IsRepositoryPath(std::string_view path) {
  if (path.empty() || path.size() > kPathBytesMax) return false;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || byte < 32 || byte == 127) return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kPathPartBytesMax) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

std::string ModelReference::Short() const {
  if (local()) return path;
  return repository() + (file.empty() ? "" : "/" + file) +
         (quantisation.empty() ? "" : ":" + quantisation);
}

std::string ModelReference::Text() const {
  return local() || revision == "main" ? Short() : Short() + "@" + revision;
}

Expected<ModelReference> ModelReference::ParseHub(const std::string& text) {
  if (text.find("://") != std::string::npos) {
    return Malformed(text, "it is a URL; the hub's address is set by HF_ENDPOINT");
  }
  ModelReference reference;
  const size_t marks = std::min(text.find_first_of(":@"), text.size());
  const std::string repository = text.substr(0, marks);
  const size_t slash = repository.find('/');
  if (slash == std::string::npos) {
    return Malformed(text, "a repository is written owner/name");
  }
  const size_t next = std::min(repository.find('/', slash + 1), repository.size());
  reference.owner = repository.substr(0, slash);
  reference.name = repository.substr(slash + 1, next - slash - 1);
  if (next < repository.size()) reference.file = repository.substr(next + 1);
  for (const std::string& name : {reference.owner, reference.name}) {
    if (!IsName(name))
      return Malformed(text, "'" + name + "' is no name of an owner or repository");
  }
  if (next < repository.size() &&
      (!IsRepositoryPath(reference.file) || !Upper(reference.file).ends_with(".GGUF"))) {
    return Malformed(text, "'" + reference.file + "' behind the repository is no .gguf file of it");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadSuffixes(text, marks, &reference));
  if (!reference.file.empty() && !reference.quantisation.empty()) {
    return Malformed(text, "it names a file and a quantisation; give one of them");
  }
  if (reference.revision.empty()) reference.revision = "main";
  return reference;
}

std::string ExpandHome(const std::string& path) {
  const char* const home = std::getenv("HOME");
  return home != nullptr && path.starts_with("~/") ? home + path.substr(1) : path;
}

Expected<ModelReference> ModelReference::Parse(const std::string& text) {
  if (text.empty() || text.size() > kBytesMax || text.find('\0') != std::string::npos) {
    return Status::InvalidArgument(
        "a model reference has 1 to " + std::to_string(kBytesMax) + " bytes and no NUL", "model");
  }
  ModelReference reference;
  const std::string path = ExpandHome(text);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    reference.path = path;
    return reference;
  }
  if (std::filesystem::exists(path, ignored)) return LocalFile(text, path);
  // "models/x.gguf" beside a folder "models" is a path with a slip.
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const bool beside = path.ends_with(".gguf") && std::filesystem::is_directory(parent, ignored);
  if (!LooksLikePath(text) && !beside) return ParseHub(text);
  const size_t colon = path.rfind(':');
  if (colon != std::string::npos && std::filesystem::exists(path.substr(0, colon), ignored)) {
    return Status::NotFound("no model at " + path +
                                "; a quantisation behind ':' is for the hub: of a folder, name the "
                                "GGUF file in it",
                            "model");
  }
  const char* const what = beside                                        ? "no model file at "
                           : std::filesystem::path(path).has_extension() ? "no model at "
                                                                         : "no model folder at ";
  return Status::NotFound(what + path, "model");
}

}  // namespace penstock
