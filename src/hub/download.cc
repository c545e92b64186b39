#include "hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/regular_file.h"
#include "hub/digest.h"
#include "hub/file_choice.h"
#include "hub/partial_file.h"
#include "hub/range_fetch.h"
#include "log/log.h"
#include "os/file_lock.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

struct RemoteFile {
  std::string name;
  std::string etag;
  uint64_t bytes = 0;
  bool large = false;  // kept in LFS: the etag is the SHA-256 of the contents
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

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// The contents are on the disk before another process may see the file under its name.
Status SyncFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0 && ::fsync(file.get()) == 0) return Status::Ok();
  return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
}

// Bytes that files in `folder`, which need not be there yet, may still take; nothing where unknown.
std::optional<uint64_t> FreeBytes(fs::path folder) {
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

std::string SizeText(uint64_t bytes) {
  char text[32];
  const auto size = static_cast<double>(bytes);
  if (size < 1e6) {
    std::snprintf(text, sizeof text, "%.0f kB", size / 1e3);
  } else if (size < 1e9) {
    std::snprintf(text, sizeof text, "%.1f MB", size / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f GB", size / 1e9);
  }
  return text;
}

// Asks one hub about one repository.
class HubClient {
 public:
  HubClient(const ModelReference& reference, const ResolveOptions& options,
            std::function<bool()> cancelled)
      : reference_(reference),
        options_(options),
        settings_(Settings(options, std::move(cancelled))),
        http_(settings_) {}

  HttpFetch& http() { return http_; }
  const HttpFetchOptions& settings() const { return settings_; }

  Expected<RepositoryListing> List(bool sizes) {
    // A slash inside a revision is part of its name.
    std::string revision;
    for (const char c : reference_.revision) {
      revision += c == '/' ? "%2F" : EncodePath(std::string(1, c));
    }
    const std::string url = options_.endpoint + "/api/models/" + reference_.repository() +
                            "/revision/" + revision + (sizes ? "?blobs=true" : "");
    PENSTOCK_ASSIGN_OR_RETURN(const HttpReply reply, http_.Get(url, RepositoryListing::kBytesMax));
    const std::string what = reference_.repository() + "@" + reference_.revision;
    if (reply.status != 200) return Refused(reply, what);
    auto listing = RepositoryListing::Parse(reply.body);
    if (!listing.ok()) return listing.status().Annotate("the list of files of " + what);
    return listing;
  }

  // What the hub says of a file.
  Expected<RemoteFile> Facts(const std::string& commit, const std::string& name) {
    PENSTOCK_ASSIGN_OR_RETURN(const HttpReply reply, http_.Head(UrlOf(commit, name)));
    const std::string what = reference_.repository() + "/" + name;
    if (reply.status >= 400 || reply.status < 200) return Refused(reply, what);
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

  std::string UrlOf(const std::string& commit, const std::string& file) const {
    return options_.endpoint + "/" + reference_.repository() + "/resolve/" + commit + "/" +
           EncodePath(file);
  }

 private:
  static HttpFetchOptions Settings(const ResolveOptions& options, std::function<bool()> cancelled) {
    HttpFetchOptions http = options.http;
    http.token = options.token;
    http.cancelled = std::move(cancelled);
    return http;
  }

  Status Refused(const HttpReply& reply, const std::string& what) const {
    const std::string host = HostOf(options_.endpoint);
    const int status = reply.status;
    if (status == 401 || status == 403) {
      return {StatusCode::kUnauthenticated, host + " refuses " + what + Advice(reply), "model"};
    }
    if (status == 404) return Status::NotFound(host + " has no " + what, "model");
    return {StatusCode::kUnavailable, BadStatus(reply, what), "model"};
  }

  // The hub refused the request (401 or 403): says how to get access.
  std::string Advice(const HttpReply& reply) const {
    const auto code = reply.headers.find("x-error-code");
    const bool gated = code != reply.headers.end() && code->second == "GatedRepo";
    const std::string page = options_.endpoint + "/" + reference_.repository();
    if (gated || (reply.status == 403 && code == reply.headers.end())) {
      return "; it is gated: accept its licence at " + page + ", then " +
             (options_.token.empty() ? "set HF_TOKEN to a token of that account"
                                     : "try again; the token in HF_TOKEN must be of the account "
                                       "that accepted it");
    }
    return options_.token.empty()
               ? "; it is private or gated, or not there: set HF_TOKEN to a token that may read it"
               : "; the token in HF_TOKEN may not read it";
  }

  std::string BadStatus(const HttpReply& reply, const std::string& what) const {
    std::string text =
        HostOf(options_.endpoint) + " answered " + std::to_string(reply.status) + " for " + what;
    if (reply.status != 429) return text;
    const auto after = reply.headers.find("retry-after");
    const int seconds = after == reply.headers.end() ? 0 : RetryAfterMs(after->second) / 1000;
    text += ": too many requests; try again ";
    return text + (seconds > 0 ? "in " + std::to_string(seconds) + " s" : "later");
  }

  const ModelReference& reference_;
  const ResolveOptions& options_;
  const HttpFetchOptions settings_;
  HttpFetch http_;
};

class Downloader {
 public:
  Downloader(const ModelReference& reference, const RepositoryCache& cache,
             const ResolveOptions& options)
      : reference_(reference),
        cache_(cache),
        options_(options),
        hub_(reference, options, [this] { return !Tell(); }) {}

  Expected<DownloadedSnapshot> Run() {
    PENSTOCK_ASSIGN_OR_RETURN(listing_, hub_.List(/*sizes=*/false));
    PENSTOCK_ASSIGN_OR_RETURN(FileChoice choice,
                              ChooseFiles(listing_, reference_, options_.tokenizer_only));
    PENSTOCK_RETURN_IF_ERROR(FetchAll(choice.files));
    if (choice.sharded) PENSTOCK_RETURN_IF_ERROR(FetchShards());
    if (choice.format != ModelFormat::kGguf) {
      for (const char* file : {"tokenizer.json", "tokenizer_config.json", "modules.json"}) {
        if (listing_.Has(file)) continue;
        PENSTOCK_RETURN_IF_ERROR(cache_.MarkAbsent(listing_.commit, file));
      }
    }
    PENSTOCK_RETURN_IF_ERROR(cache_.WriteListing(listing_));
    // Last, so that a branch never points to half a snapshot.
    PENSTOCK_RETURN_IF_ERROR(cache_.WriteRef(reference_.revision, listing_.commit));
    return DownloadedSnapshot{listing_.commit, std::move(choice)};
  }

 private:
  Status FetchShards() {
    const fs::path index = fs::path(cache_.SnapshotFolder(listing_.commit)) / kWeightsIndex;
    PENSTOCK_ASSIGN_OR_RETURN(const auto shards, ShardsOf(index.string()));
    for (const std::string& shard : shards) {
      if (listing_.Has(shard)) continue;
      return Status::NotFound(reference_.repository() + ": " + std::string(kWeightsIndex) +
                                  " names " + shard + ", which is not there",
                              "model");
    }
    return FetchAll(shards);
  }

  Status FetchAll(const std::vector<std::string>& names) {
    std::vector<RemoteFile> files;
    for (const std::string& name : names) {
      if (cache_.Has(listing_.commit, name)) continue;
      PENSTOCK_ASSIGN_OR_RETURN(RemoteFile file, hub_.Facts(listing_.commit, name));
      now_.bytes_total += file.bytes;
      files.push_back(std::move(file));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckLimit(files));
    PENSTOCK_RETURN_IF_ERROR(CheckRoom(files));
    // Small ones first: a faulty model shows before its weights are downloaded.
    std::stable_sort(files.begin(), files.end(),
                     [](const RemoteFile& a, const RemoteFile& b) { return a.bytes < b.bytes; });
    for (const RemoteFile& file : files) {
      now_.file = file.name;
      now_.file_bytes_done = 0;
      now_.file_bytes_total = file.bytes;
      now_.checking = false;
      PENSTOCK_RETURN_IF_ERROR(Fetch(file));
      bytes_before_ += file.bytes;
    }
    return Status::Ok();
  }

  // By what the hub says of each file; a size that it does not say is counted as it comes.
  Status CheckLimit(const std::vector<RemoteFile>& files) const {
    uint64_t needed = 0;
    for (const RemoteFile& file : files) {
      std::error_code ignored;
      if (fs::exists(cache_.BlobPath(file.etag), ignored)) continue;
      const uint64_t more = needed + file.bytes;
      needed = more < needed ? UINT64_MAX : more;
    }
    if (needed <= BytesLeft()) return Status::Ok();
    return {StatusCode::kPayloadTooLarge,
            reference_.repository() + " has more to download than " +
                std::to_string(options_.bytes_max) + " bytes, the limit",
            "model"};
  }
  uint64_t BytesLeft() const {
    return options_.bytes_max - std::min(options_.bytes_max, bytes_fetched_);
  }

  // Whether the disk has room for what is not there yet.
  Status CheckRoom(const std::vector<RemoteFile>& files) const {
    uint64_t needed = 0;
    for (const RemoteFile& file : files) {
      const std::string blob = cache_.BlobPath(file.etag);
      if (SizeOf(blob) > 0) continue;
      const uint64_t there = std::max(SizeOf(blob + ".incomplete"), BytesOnDisk(blob + ".ranges"));
      needed += file.bytes - std::min(file.bytes, there);
    }
    const auto room = FreeBytes(options_.cache_root);
    if (!room || needed <= *room) return Status::Ok();
    return Status(StatusCode::kInternal,
                  reference_.repository() + " needs " + SizeText(needed) + " more in " +
                      options_.cache_root + ", where " + SizeText(*room) +
                      " are free; HF_HUB_CACHE names another place",
                  "model");
  }

  // For a file with holes, the bytes that it takes.
  static uint64_t BytesOnDisk(const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_blocks) * 512 : 0;
  }

  Status Fetch(const RemoteFile& file) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const FileLock lock, FileLock::Take(cache_.LockPath(file.etag), [this] { return Tell(); }));
    const std::string blob = cache_.BlobPath(file.etag);
    std::error_code error;
    if (!fs::exists(blob, error)) {
      fs::create_directories(fs::path(blob).parent_path(), error);
      PENSTOCK_RETURN_IF_ERROR(FetchBlob(file, blob));
      bytes_fetched_ += SizeOf(blob);
    }
    Report(file.bytes);
    return cache_.Link(listing_.commit, file.name, file.etag);
  }

  // Twice at most: a resumed file may have begun wrong, a fresh one may not.
  Status FetchBlob(const RemoteFile& file, const std::string& blob) {
    for (int attempt = 0;; ++attempt) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string received, Receive(file, blob));
      const Status status = CheckDigest(file, received);
      if (status.code() == StatusCode::kCancelled) return status;
      std::error_code error;
      if (status.ok()) {
        PENSTOCK_RETURN_IF_ERROR(SyncFile(received));
        fs::rename(received, blob, error);
        return error ? Status::Internal("cannot make " + blob + ": " + error.message())
                     : Status::Ok();
      }
      fs::remove(received, error);
      if (attempt == 1) return status;
      LogWarn("{}; downloading it once more", status.message());
      now_.file_bytes_done = 0;
    }
  }

  // The path of the whole file, not yet checked.
  Expected<std::string> Receive(const RemoteFile& file, const std::string& blob) {
    const std::string url = hub_.UrlOf(listing_.commit, file.name);
    const std::string incomplete = blob + ".incomplete";
    const auto report = [this](uint64_t bytes) { return Report(bytes); };
    const RangeOptions& ranges = options_.ranges;
    std::error_code ignored;
    const bool begun = fs::exists(blob + ".ranges", ignored);
    const bool large = ranges.connections > 1 && file.bytes >= ranges.file_bytes_min;
    if (file.bytes > 0 && (large || begun)) {
      PENSTOCK_ASSIGN_OR_RETURN(
          PartialFile partial,
          PartialFile::Open(blob + ".ranges", file.bytes, SegmentBytes(ranges, file.bytes)));
      PENSTOCK_RETURN_IF_ERROR(partial.AdoptPrefix(incomplete));
      const Status status = DownloadRanges(hub_.settings(), ranges, url, &partial, report);
      if (status.ok()) {
        PENSTOCK_RETURN_IF_ERROR(partial.Finish());
        return blob + ".ranges";
      }
      if (status.code() != StatusCode::kUnsupported) return status;
      LogInfo("{}: {}; one connection is used", file.name, status.message());
      PENSTOCK_RETURN_IF_ERROR(partial.MoveAsPrefix(incomplete));
    }
    PENSTOCK_RETURN_IF_ERROR(
        hub_.http().Download(url, incomplete, file.bytes, report,
                             std::min(HttpFetch::kUnknownLengthBytesMax, BytesLeft())));
    return incomplete;
  }

  Status CheckDigest(const RemoteFile& file, const std::string& path) {
    const auto differs = [&](const char* kind, const std::string& digest) {
      return Status(StatusCode::kUnavailable, file.name + " as downloaded has " + kind + " " +
                                                  digest + ", the hub says " + file.etag);
    };
    if (file.large) {
      now_.checking = true;
      auto digest = Sha256OfFile(path, [this](uint64_t) { return Tell(); });
      now_.checking = false;
      PENSTOCK_RETURN_IF_ERROR(digest.status());
      return *digest == file.etag ? Status::Ok() : differs("SHA-256", *digest);
    }
    if (!IsSha1(file.etag)) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const std::string digest, GitSha1OfFile(path));
    if (digest == file.etag) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const std::string plain, Sha1OfFile(path));
    return plain == file.etag ? Status::Ok() : differs("git's SHA-1", digest);
  }

  bool Tell() const { return !options_.progress || options_.progress(now_); }

  bool Report(uint64_t bytes) {
    now_.file_bytes_done = bytes;
    now_.bytes_done = bytes_before_ + bytes;
    return Tell();
  }

  const ModelReference& reference_;
  const RepositoryCache& cache_;
  const ResolveOptions& options_;
  HubClient hub_;
  RepositoryListing listing_;
  HubProgress now_;
  uint64_t bytes_before_ = 0;   // of the files that are done
  uint64_t bytes_fetched_ = 0;  // of these, the ones that were not here before
};

}  // namespace

Expected<DownloadedSnapshot> DownloadSnapshot(const ModelReference& reference,
                                              const RepositoryCache& cache,
                                              const ResolveOptions& options) {
  return Downloader(reference, cache, options).Run();
}

Expected<RepositoryListing> FetchListing(const ModelReference& reference,
                                         const ResolveOptions& options, bool sizes) {
  return HubClient(reference, options, nullptr).List(sizes);
}

}  // namespace penstock::hub
