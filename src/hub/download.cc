#include "hub/download.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/json.h"
#include "common/regular_file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListingBytesMax = 32 << 20;
constexpr size_t kFilesMax = 100'000;
constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kWeightsIndex = "model.safetensors.index.json";

struct RemoteFile {
  std::string name;
  std::string etag;
  uint64_t bytes = 0;
  bool large = false;  // kept in LFS: the etag is the SHA-256 of the contents
};

struct Listing {
  std::string commit;
  std::set<std::string> files;
};

std::string Unquoted(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

// An etag becomes the name of a file.
bool IsEtag(const std::string& text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The etag of a small file: as git names it, by SHA-1.
bool IsSha1(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// In hexadecimal digits, over `prefix` and the file.
Expected<std::string> DigestOfFile(const EVP_MD* kind, const std::string& prefix,
                                   const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  if (context == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) {
    return Status::Internal("cannot compute the digest of " + path);
  }
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  std::vector<char> block(1 << 20);
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::Internal("cannot read " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(got));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &bytes);
  std::string hex;
  for (unsigned i = 0; i < bytes; ++i) {
    constexpr char kHex[] = "0123456789abcdef";
    hex.push_back(kHex[digest[i] >> 4]);
    hex.push_back(kHex[digest[i] & 15]);
  }
  return hex;
}

// Held while a blob is written; another process that wants the same one waits, then finds it.
class FileLock {
 public:
  static Expected<FileLock> Take(const std::string& path) {
    std::error_code ignored;
    fs::create_directories(fs::path(path).parent_path(), ignored);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return Status::Internal("cannot open " + path + ": " + std::strerror(errno));
    while (::flock(fd, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      ::close(fd);
      return Status::Internal("cannot lock " + path + ": " + std::strerror(errno));
    }
    return FileLock(fd);
  }
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

// Of IsWantedFile's, those that say how texts become tokens.
bool IsTokenizerFile(const std::string& file) {
  return IsWantedFile(file) && (file.starts_with("tokenizer") || file.starts_with("sentence_") ||
                                file == "config_sentence_transformers.json");
}

class Downloader {
 public:
  Downloader(const ModelReference& reference, const RepositoryCache& cache,
             const ResolveOptions& options)
      : reference_(reference), cache_(cache), options_(options), http_(WithToken(options)) {}

  Expected<std::string> Run() {
    PENSTOCK_ASSIGN_OR_RETURN(listing_, List());
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> wanted, Wanted());
    PENSTOCK_RETURN_IF_ERROR(FetchAll(wanted));
    if (!options_.tokenizer_only && !listing_.files.contains(std::string(kWeights))) {
      const fs::path index = fs::path(cache_.SnapshotFolder(listing_.commit)) / kWeightsIndex;
      PENSTOCK_ASSIGN_OR_RETURN(const auto shards, ShardsOf(index.string()));
      PENSTOCK_RETURN_IF_ERROR(FetchAll(shards));
    }
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "modules.json"}) {
      if (listing_.files.contains(file)) continue;
      PENSTOCK_RETURN_IF_ERROR(cache_.MarkAbsent(listing_.commit, file));
    }
    // Last, so that a branch never points to half a snapshot.
    PENSTOCK_RETURN_IF_ERROR(cache_.WriteRef(reference_.revision, listing_.commit));
    return listing_.commit;
  }

 private:
  static HttpFetchOptions WithToken(const ResolveOptions& options) {
    HttpFetchOptions http = options.http;
    http.token = options.token;
    return http;
  }

  Status Refused(int status, const std::string& what) const {
    const std::string host = HostOf(options_.endpoint);
    if (status == 401 || status == 403) {
      const char* hint = options_.token.empty()
                             ? "; it is private or gated, or not there: set HF_TOKEN to a token "
                               "that may read it"
                             : "; the token in HF_TOKEN may not read it";
      return Status(StatusCode::kUnauthenticated, host + " refuses " + what + hint, "model");
    }
    if (status == 404) return Status::NotFound(host + " has no " + what, "model");
    return Status(StatusCode::kUnavailable,
                  host + " answered " + std::to_string(status) + " for " + what, "model");
  }

  Expected<Listing> List() {
    // A slash inside a revision is part of its name.
    std::string revision;
    for (const char c : reference_.revision) {
      revision += c == '/' ? "%2F" : EncodePath(std::string(1, c));
    }
    const std::string url =
        options_.endpoint + "/api/models/" + reference_.repository() + "/revision/" + revision;
    PENSTOCK_ASSIGN_OR_RETURN(const HttpReply reply, http_.Get(url, kListingBytesMax));
    const std::string what = reference_.repository() + "@" + reference_.revision;
    if (reply.status != 200) return Refused(reply.status, what);
    auto listing = ParseListing(reply.body);
    if (!listing.ok()) return listing.status().Annotate("the list of files of " + what);
    return listing;
  }

  static Expected<Listing> ParseListing(const std::string& body) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
    Listing listing;
    PENSTOCK_ASSIGN_OR_RETURN(listing.commit, object.GetString("sha", 64));
    if (listing.commit.empty() ||
        listing.commit.find_first_not_of("0123456789abcdef") != std::string::npos) {
      return Status::InvalidArgument("'sha' is not a commit", "sha");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const auto siblings, object.GetArray("siblings", kFilesMax));
    for (const simdjson::dom::element sibling : siblings) {
      std::string_view name;
      if (sibling["rfilename"].get(name) != simdjson::SUCCESS) {
        return Status::InvalidArgument("'siblings' without 'rfilename'", "siblings");
      }
      listing.files.emplace(name);
    }
    return listing;
  }

  Expected<std::vector<std::string>> Wanted() const {
    const auto has = [&](std::string_view file) {
      return listing_.files.contains(std::string(file));
    };
    std::vector<std::string> wanted;
    for (const std::string& file : listing_.files) {
      if (options_.tokenizer_only ? IsTokenizerFile(file) : IsWantedFile(file)) {
        wanted.push_back(file);
      }
    }
    const std::string repository = reference_.repository();
    if (options_.tokenizer_only) {
      if (has("tokenizer.json")) return wanted;
      return Status::Unsupported(repository + " has no tokenizer.json", "model");
    }
    if (!has("config.json")) {
      return Status::Unsupported(repository + " has no config.json", "model");
    }
    if (has(kWeights)) {
      wanted.emplace_back(kWeights);
    } else if (has(kWeightsIndex)) {
      wanted.emplace_back(kWeightsIndex);
    } else {
      return Status::Unsupported(repository +
                                     " has no model.safetensors; other forms of weights are not "
                                     "supported",
                                 "model");
    }
    return wanted;
  }

  Status FetchAll(const std::vector<std::string>& names) {
    std::vector<RemoteFile> files;
    for (const std::string& name : names) {
      if (cache_.Has(listing_.commit, name)) continue;
      PENSTOCK_ASSIGN_OR_RETURN(RemoteFile file, Facts(name));
      bytes_total_ += file.bytes;
      files.push_back(std::move(file));
    }
    // Small ones first: a faulty model shows before its weights are downloaded.
    std::stable_sort(files.begin(), files.end(),
                     [](const RemoteFile& a, const RemoteFile& b) { return a.bytes < b.bytes; });
    for (const RemoteFile& file : files) {
      PENSTOCK_RETURN_IF_ERROR(Fetch(file));
      bytes_done_ += file.bytes;
    }
    return Status::Ok();
  }

  std::string UrlOf(const std::string& file) const {
    return options_.endpoint + "/" + reference_.repository() + "/resolve/" + listing_.commit + "/" +
           EncodePath(file);
  }

  Expected<RemoteFile> Facts(const std::string& name) {
    PENSTOCK_ASSIGN_OR_RETURN(const HttpReply reply, http_.Head(UrlOf(name)));
    const std::string what = reference_.repository() + "/" + name;
    if (reply.status >= 400 || reply.status < 200) return Refused(reply.status, what);
    const auto header = [&](const char* first, const char* second) -> std::string {
      for (const char* key : {first, second}) {
        const auto found = reply.headers.find(key);
        if (found != reply.headers.end()) return found->second;
      }
      return "";
    };
    RemoteFile file;
    file.name = name;
    file.etag = Unquoted(header("x-linked-etag", "etag"));
    file.large = reply.headers.contains("x-linked-etag") && IsSha256(file.etag);
    file.bytes = std::strtoull(header("x-linked-size", "content-length").c_str(), nullptr, 10);
    if (!IsEtag(file.etag)) {
      return Status(StatusCode::kUnavailable,
                    HostOf(options_.endpoint) + " gives no usable ETag for " + what);
    }
    return file;
  }

  Status Fetch(const RemoteFile& file) {
    PENSTOCK_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(cache_.LockPath(file.etag)));
    const std::string blob = cache_.BlobPath(file.etag);
    std::error_code error;
    if (!fs::exists(blob, error)) {
      fs::create_directories(fs::path(blob).parent_path(), error);
      PENSTOCK_RETURN_IF_ERROR(FetchBlob(file, blob));
    }
    return cache_.Link(listing_.commit, file.name, file.etag);
  }

  // Twice at most: a resumed file may have begun wrong, a fresh one may not.
  Status FetchBlob(const RemoteFile& file, const std::string& blob) {
    const std::string incomplete = blob + ".incomplete";
    const auto report = [&](uint64_t bytes) { return Report(file, bytes); };
    for (int attempt = 0;; ++attempt) {
      PENSTOCK_RETURN_IF_ERROR(http_.Download(UrlOf(file.name), incomplete, file.bytes, report));
      const Status status = CheckDigest(file, incomplete);
      std::error_code error;
      if (status.ok()) {
        fs::rename(incomplete, blob, error);
        return error ? Status::Internal("cannot make " + blob + ": " + error.message())
                     : Status::Ok();
      }
      fs::remove(incomplete, error);
      if (attempt == 1) return status;
    }
  }

  static Status CheckDigest(const RemoteFile& file, const std::string& path) {
    const auto differs = [&](const char* kind, const std::string& digest) {
      return Status(StatusCode::kUnavailable, file.name + " as downloaded has " + kind + " " +
                                                  digest + ", the hub says " + file.etag);
    };
    if (file.large) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(EVP_sha256(), "", path));
      return digest == file.etag ? Status::Ok() : differs("SHA-256", digest);
    }
    if (!IsSha1(file.etag)) return Status::Ok();
    // As git names contents; some mirrors give the SHA-1 of the contents alone.
    std::error_code error;
    const std::string blob =
        "blob " + std::to_string(fs::file_size(path, error)) + std::string(1, '\0');
    PENSTOCK_ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(EVP_sha1(), blob, path));
    if (digest == file.etag) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const std::string plain, DigestOfFile(EVP_sha1(), "", path));
    return plain == file.etag ? Status::Ok() : differs("git's SHA-1", digest);
  }

  bool Report(const RemoteFile& file, uint64_t bytes) const {
    if (!options_.progress) return true;
    HubProgress progress;
    progress.file = file.name;
    progress.file_bytes_done = bytes;
    progress.file_bytes_total = file.bytes;
    progress.bytes_done = bytes_done_ + bytes;
    progress.bytes_total = bytes_total_;
    return options_.progress(progress);
  }

  const ModelReference& reference_;
  const RepositoryCache& cache_;
  const ResolveOptions& options_;
  HttpFetch http_;
  Listing listing_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
};

}  // namespace

bool IsWantedFile(const std::string& file) {
  constexpr std::string_view kTop[] = {
      "config.json",
      "tokenizer.json",
      "tokenizer_config.json",
      "special_tokens_map.json",
      "generation_config.json",
      "chat_template.jinja",
      "chat_template.json",
      "modules.json",
      "config_sentence_transformers.json",
      "sentence_bert_config.json",
      "sentence_roberta_config.json",
      "sentence_distilbert_config.json",
      "sentence_camembert_config.json",
      "sentence_xlm-roberta_config.json",
  };
  if (std::find(std::begin(kTop), std::end(kTop), file) != std::end(kTop)) return true;
  // N_Kind/config.json and N_Kind/model.safetensors, the folders of modules.
  const size_t digits = file.find_first_not_of("0123456789");
  const size_t slash = file.find('/');
  if (digits == 0 || digits == std::string::npos || file[digits] != '_' ||
      slash == std::string::npos) {
    return false;
  }
  const std::string inside = file.substr(slash + 1);
  return inside == "config.json" || inside == kWeights;
}

Expected<std::string> DownloadSnapshot(const ModelReference& reference,
                                       const RepositoryCache& cache,
                                       const ResolveOptions& options) {
  return Downloader(reference, cache, options).Run();
}

}  // namespace penstock
