#include "hub/reference.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/regular_file.h"

namespace penstock::hub {
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

// What follows the hub's host; nullopt: the text does not begin with it.
std::optional<std::string> BehindHost(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  }
  for (const std::string_view host : {"hf.co/", "huggingface.co/", "www.huggingface.co/"}) {
    if (text.starts_with(host)) return std::string(text.substr(host.size()));
  }
  return std::nullopt;
}

// The address of a page of the hub, without its host, as a reference: "a/b/tree/v1" is "a/b@v1",
// "a/b/blob/v1/c.gguf" is "a/b/c.gguf@v1".
std::string ReferenceOfPage(std::string page) {
  page = page.substr(0, page.find_first_of("?#"));
  while (page.ends_with('/')) page.pop_back();
  const size_t name = page.find('/');
  const size_t kind = name == std::string::npos ? name : page.find('/', name + 1);
  if (kind == std::string::npos) return page;
  const std::string repository = page.substr(0, kind);
  for (const std::string_view word : {"/tree/", "/blob/", "/resolve/"}) {
    if (!std::string_view(page).substr(kind).starts_with(word)) continue;
    const size_t revision = kind + word.size();
    const size_t end =
        word == "/tree/" ? page.size() : std::min(page.find('/', revision), page.size());
    return repository + page.substr(end) + "@" + page.substr(revision, end - revision);
  }
  return page;
}

// What stands on the hub for a short name of Ollama's library, whose models these are not.
struct ShortName {
  std::string_view name;  // without the tag behind ':'
  const char* reference;
};
constexpr ShortName kShortNames[] = {
    {"llama3", "bartowski/Meta-Llama-3-8B-Instruct-GGUF:Q4_K_M"},
    {"llama3.1", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M"},
    {"llama3.2", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
    {"mistral", "bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M"},
    {"qwen2.5", "bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M"},
    {"qwen3", "Qwen/Qwen3-8B-GGUF:Q4_K_M"},
    {"gemma2", "bartowski/gemma-2-9b-it-GGUF:Q4_K_M"},
    {"gemma3", "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"},
    {"phi3", "bartowski/Phi-3.5-mini-instruct-GGUF:Q4_K_M"},
    {"smollm2", "bartowski/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M"},
    {"all-minilm", "sentence-transformers/all-MiniLM-L6-v2"},
    {"nomic-embed-text", "nomic-ai/nomic-embed-text-v1.5"},
    {"mxbai-embed-large", "mixedbread-ai/mxbai-embed-large-v1"},
    {"bge-m3", "BAAI/bge-m3"},
};

// Why a name without an owner is none, and what may be meant.
std::string WithoutOwner(const std::string& name) {
  const std::string_view plain = std::string_view(name).substr(0, name.find_first_of(":@"));
  for (const ShortName& known : kShortNames) {
    if (plain == known.name) {
      return std::string("a repository is written owner/name, such as ") + known.reference;
    }
  }
  return "a repository is written owner/name";
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
      return Malformed(text, mark == ':' ? "it names two quantisations; ':' may occur once"
                                         : "it names two revisions; '@' may occur once");
    }
    if (mark == ':' ? !IsQuantisation(value) : !IsRevision(value)) {
      return Malformed(text, "'" + value + "' after '" + mark + "' is not a " +
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

Expected<ModelReference> ModelReference::ParseHub(const std::string& given) {
  const auto page = BehindHost(given);
  const std::string text = page ? ReferenceOfPage(*page) : given;
  if (text.find("://") != std::string::npos) {
    return Malformed(text, "it is a URL; the hub's address is set by HF_ENDPOINT");
  }
  if (page && BehindHost(text)) {
    return Malformed(text, "an owner cannot have the name of the hub's host");
  }
  ModelReference reference;
  const size_t marks = std::min(text.find_first_of(":@"), text.size());
  const std::string repository = text.substr(0, marks);
  const size_t slash = repository.find('/');
  if (slash == std::string::npos) {
    return Malformed(text, WithoutOwner(text));
  }
  const size_t next = std::min(repository.find('/', slash + 1), repository.size());
  reference.owner = repository.substr(0, slash);
  reference.name = repository.substr(slash + 1, next - slash - 1);
  if (next < repository.size()) reference.file = repository.substr(next + 1);
  for (const std::string& name : {reference.owner, reference.name}) {
    if (!IsName(name))
      return Malformed(text, "'" + name + "' is not the name of an owner or a repository");
  }
  if (next < repository.size() &&
      (!IsRepositoryPath(reference.file) || !Upper(reference.file).ends_with(".GGUF"))) {
    return Malformed(text, "'" + reference.file + "' after the repository is not a .gguf file");
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
  const bool looks_local = LooksLikePath(text) && !BehindHost(text);
  if (!looks_local && !beside) return ParseHub(text);
  const size_t colon = path.rfind(':');
  if (colon != std::string::npos && std::filesystem::exists(path.substr(0, colon), ignored)) {
    return Status::NotFound("no model at " + path +
                                "; a quantisation after ':' is for the hub; for a folder, name the "
                                "GGUF file in it",
                            "model");
  }
  const char* const what = beside                                        ? "no model file at "
                           : std::filesystem::path(path).has_extension() ? "no model at "
                                                                         : "no model folder at ";
  return Status::NotFound(what + path, "model");
}

}  // namespace penstock::hub
