#include "jobs/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "base/regular_file.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "log/log.h"
#include "os/sync_folder.h"

namespace penstock::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMetadataBytesMax = 16 << 10;
constexpr size_t kFilenameBytesMax = 512;
constexpr std::string_view kFilePrefix = "file-";

Status DiskError(const std::string& path, const char* what) {
  return {StatusCode::kUnavailable, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return DiskError(path, "cannot write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::fdatasync(fd) == 0 ? Status::Ok() : DiskError(path, "cannot write");
}

Expected<FileDescriptor> OpenToWrite(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd < 0) return DiskError(path, "cannot open");
  return FileDescriptor(fd);
}

std::string Print(const StoredFile& file) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("filename", file.filename).Field("purpose", file.purpose);
  json.Field("owner", file.owner).Field("created", file.created_unix_s).EndObject();
  return text;
}

Expected<StoredFile> ReadMetadata(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, kMetadataBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  StoredFile file;
  PENSTOCK_ASSIGN_OR_RETURN(file.filename, object.GetString("filename"));
  PENSTOCK_ASSIGN_OR_RETURN(file.purpose, object.GetString("purpose"));
  PENSTOCK_ASSIGN_OR_RETURN(file.owner, object.GetString("owner"));
  PENSTOCK_ASSIGN_OR_RETURN(file.created_unix_s,
                            object.GetInt("created", 0, std::numeric_limits<int64_t>::max()));
  return file;
}

// Writes `text` behind the first `before` bytes of a file; after an error it has no more than
// these.
Status AppendAt(const std::string& path, uint64_t before, std::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenToWrite(path, O_APPEND));
  Status written = WriteAll(file.get(), text, path);
  if (!written.ok() && ::ftruncate(file.get(), static_cast<off_t>(before)) != 0) {
    LogWarn("{} ends with a part of a line: {}", path, std::strerror(errno));
  }
  return written;
}

// What a crash has left while a file was added or removed: a part of a file, or its metadata alone.
bool IsLeftOver(const std::string& name, const std::set<std::string>& names) {
  if (!name.starts_with(kFilePrefix)) return false;
  if (name.ends_with(".part")) return true;
  constexpr std::string_view kMetadata = ".json";
  if (!name.ends_with(kMetadata)) return false;
  const std::string id = name.substr(0, name.size() - kMetadata.size());
  return IsStoredId(id, kFilePrefix) && !names.contains(id);
}

Status NoSuchFile(const std::string& id) {
  return Status::NotFound(fmt::format("there is no file '{:.100}'", id), "file_id");
}

}  // namespace

Expected<std::unique_ptr<FileStore>> FileStore::Open(const std::string& folder, uint64_t bytes_max,
                                                     size_t files_max) {
  const std::string files = folder + "/files";
  PENSTOCK_RETURN_IF_ERROR(MakePrivateFolder(files));
  std::unique_ptr<FileStore> store(new FileStore(files, bytes_max, files_max));
  PENSTOCK_RETURN_IF_ERROR(store->Load());
  return store;
}

Status FileStore::Load() {
  std::error_code error;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    names.insert(entry.path().filename().string());
  }
  if (error) return {StatusCode::kUnavailable, folder_ + ": " + error.message()};
  for (const std::string& name : names) {
    if (IsLeftOver(name, names)) {
      ::unlink(PathOf(name).c_str());
      continue;
    }
    if (!IsStoredId(name, kFilePrefix)) continue;
    auto file = ReadMetadata(PathOf(name) + ".json");
    const uint64_t bytes = fs::file_size(PathOf(name), error);
    if (!file.ok() || error) {
      LogWarn("{} is left alone: {}", PathOf(name),
              file.ok() ? error.message() : file.status().message());
      continue;
    }
    file->id = name;
    file->bytes = bytes;
    for (Share* const share : {&all_, &of_owner_[file->owner]}) {
      share->bytes += bytes;
      ++share->places;
    }
    files_.emplace(name, *std::move(file));
  }
  return Status::Ok();
}

Status FileStore::TakeRoom(const std::string& owner, uint64_t bytes) {
  const auto full = [bytes](uint64_t limit, uint64_t held) {
    return bytes > limit || held > limit - bytes;
  };
  uint64_t& own = of_owner_[owner].bytes;
  const uint64_t own_max = owner.empty() ? bytes_max_ : bytes_max_ / 2;
  const bool too_many = full(bytes_max_, all_.bytes);
  if (too_many || full(own_max, own)) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("{} have {} bytes, and these would be {} more; the limit is {} "
                        "({}--batch-folder-bytes). Delete some",
                        too_many ? "the files here" : "your files", too_many ? all_.bytes : own,
                        bytes, too_many ? bytes_max_ : own_max, too_many ? "" : "a half of "),
            "file"};
  }
  all_.bytes += bytes;
  own += bytes;
  return Status::Ok();
}

void FileStore::GiveRoom(const std::string& owner, uint64_t bytes) {
  all_.bytes -= bytes;
  of_owner_[owner].bytes -= bytes;
}

Status FileStore::TakePlaces(const std::string& owner, size_t places) {
  size_t& own = of_owner_[owner].places;
  const size_t own_max = owner.empty() ? files_max_ : files_max_ / 2;
  const bool too_many = all_.places + places > files_max_;
  if (too_many || own + places > own_max) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("{} {} files, with those that batches will write; the limit is {}. Delete "
                        "some",
                        too_many ? "there are" : "you have", too_many ? all_.places : own,
                        too_many ? files_max_ : own_max),
            "file"};
  }
  all_.places += places;
  own += places;
  return Status::Ok();
}

void FileStore::GivePlaces(const std::string& owner, size_t places) {
  all_.places -= places;
  const auto own = of_owner_.find(owner);
  own->second.places -= places;
  if (own->second.places == 0 && own->second.bytes == 0) of_owner_.erase(own);
}

// A place, and room for its bytes.
Status FileStore::TakeFor(const StoredFile& file, const std::string& batch) {
  const auto kept = kept_.find(batch);
  const bool is_kept = kept != kept_.end() && kept->second.places > 0;
  if (!is_kept) PENSTOCK_RETURN_IF_ERROR(TakePlaces(file.owner, 1));
  Status taken = TakeRoom(file.owner, file.bytes);
  if (!taken.ok() && !is_kept) GivePlaces(file.owner, 1);
  if (taken.ok() && is_kept) --kept->second.places;
  return taken;
}

Status FileStore::KeepPlaces(const std::string& batch, const std::string& owner, size_t places) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_RETURN_IF_ERROR(TakePlaces(owner, places));
  kept_[batch] = {owner, places};
  return Status::Ok();
}

void FileStore::KeepPlacesAgain(const std::string& batch, const std::string& owner, size_t places) {
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[batch];
  const size_t more = places - std::min(places, kept.places);
  kept = {owner, kept.places + more};
  all_.places += more;
  of_owner_[owner].places += more;
}

void FileStore::ReleasePlaces(const std::string& batch) {
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(batch);
  if (kept == kept_.end()) return;
  if (kept->second.places > 0) GivePlaces(kept->second.owner, kept->second.places);
  kept_.erase(kept);
}

Expected<StoredFile> FileStore::Add(StoredFile file, std::string_view content,
                                    const std::string& batch) {
  file.id = NewStoredId(kFilePrefix);
  file.created_unix_s = UnixSeconds();
  file.filename.resize(std::min(file.filename.size(), kFilenameBytesMax));
  file.bytes = content.size();
  {
    // It counts from here on, so that two uploads do not share the last room.
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(TakeFor(file, batch));
  }
  const std::string path = PathOf(file.id);
  Status written = WriteFileAtomically(path + ".json", Print(file));
  if (written.ok()) written = WriteFileAtomically(path, content);
  if (!written.ok()) {
    ::unlink(path.c_str());
    ::unlink((path + ".json").c_str());
  }
  const std::lock_guard lock(mutex_);
  if (!written.ok()) {
    GiveRoom(file.owner, content.size());
    GivePlaces(file.owner, 1);
    return written;
  }
  files_.emplace(file.id, file);
  return file;
}

Status FileStore::Append(const std::string& id, std::string_view text) {
  uint64_t before = 0;
  std::string owner;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) return NoSuchFile(id);
    before = found->second.bytes;
    owner = found->second.owner;
    PENSTOCK_RETURN_IF_ERROR(TakeRoom(owner, text.size()));
  }
  Status written = AppendAt(PathOf(id), before, text);
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (written.ok() && found == files_.end()) written = NoSuchFile(id);  // removed meanwhile
  if (!written.ok()) {
    GiveRoom(owner, text.size());
    return written;
  }
  found->second.bytes += text.size();
  return Status::Ok();
}

Status FileStore::Truncate(const std::string& id, uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) return NoSuchFile(id);
    if (bytes >= found->second.bytes) return Status::Ok();
  }
  if (::truncate(PathOf(id).c_str(), static_cast<off_t>(bytes)) != 0) {
    return DiskError(PathOf(id), "cannot cut");
  }
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end()) return NoSuchFile(id);
  GiveRoom(found->second.owner, found->second.bytes - bytes);
  found->second.bytes = bytes;
  return Status::Ok();
}

Expected<StoredFile> FileStore::Get(const std::string& id, const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.owner != owner) return NoSuchFile(id);
  return found->second;
}

std::vector<StoredFile> FileStore::List(const std::string& owner,
                                        const std::string& purpose) const {
  std::vector<StoredFile> list;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (file.owner == owner && (purpose.empty() || purpose == file.purpose)) list.push_back(file);
    }
  }
  std::sort(list.begin(), list.end(), [](const StoredFile& a, const StoredFile& b) {
    return std::tie(b.created_unix_s, a.id) < std::tie(a.created_unix_s, b.id);
  });
  return list;
}

std::vector<StoredFile> FileStore::ListIf(
    const std::function<bool(const StoredFile&)>& wanted) const {
  std::vector<StoredFile> list;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, file] : files_) {
    if (wanted(file)) list.push_back(file);
  }
  return list;
}

Status FileStore::ChangeOwners(
    const std::function<std::string(const std::string& owner)>& owner_of) {
  for (StoredFile& file :
       ListIf([&](const StoredFile& each) { return owner_of(each.owner) != each.owner; })) {
    const std::string before = std::exchange(file.owner, owner_of(file.owner));
    PENSTOCK_RETURN_IF_ERROR(WriteFileAtomically(PathOf(file.id) + ".json", Print(file)));
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file.id);
    if (found == files_.end()) continue;
    found->second.owner = file.owner;
    Share& to = of_owner_[file.owner];
    to.bytes += file.bytes;
    ++to.places;
    of_owner_[before].bytes -= file.bytes;
    GivePlaces(before, 1);
    ++all_.places;  // the place itself stays
  }
  return Status::Ok();
}

Status FileStore::Remove(const std::string& id, const std::string& owner) {
  StoredFile file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end() || found->second.owner != owner) return NoSuchFile(id);
    file = found->second;
    files_.erase(found);
  }
  if (::unlink(PathOf(id).c_str()) != 0 && errno != ENOENT) {
    Status failed = DiskError(PathOf(id), "cannot delete");
    const std::lock_guard lock(mutex_);
    files_.emplace(id, std::move(file));
    return failed;
  }
  ::unlink((PathOf(id) + ".json").c_str());
  const bool synced = SyncFolderOf(PathOf(id));
  Status status = synced ? Status::Ok() : DiskError(PathOf(id), "cannot write its folder");
  const std::lock_guard lock(mutex_);
  GiveRoom(file.owner, file.bytes);
  GivePlaces(file.owner, 1);
  return status;
}

std::string NewStoredId(std::string_view prefix) {
  std::random_device random;
  std::string id(prefix);
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

bool IsStoredId(std::string_view id, std::string_view prefix) {
  return id.size() == prefix.size() + 32 && id.starts_with(prefix) &&
         std::all_of(id.begin() + static_cast<ptrdiff_t>(prefix.size()), id.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string part = path + ".part";
  {
    PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenToWrite(part, O_CREAT | O_TRUNC));
    if (Status written = WriteAll(file.get(), text, part); !written.ok()) {
      ::unlink(part.c_str());
      return written;
    }
  }
  if (::rename(part.c_str(), path.c_str()) != 0) return DiskError(path, "cannot rename");
  return SyncFolderOf(path) ? Status::Ok() : DiskError(path, "cannot write its folder");
}

Status MakePrivateFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) fs::permissions(path, fs::perms::owner_all, error);
  if (!error) return Status::Ok();
  return {StatusCode::kUnavailable,
          fmt::format("cannot make the folder {}: {}", path, error.message())};
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace penstock::jobs
