// FileStore: files that clients upload and batches write, in a folder with bounds of bytes and
// files, of which an owner that is not "" may fill a half: one of several does not take the room of
// all. Places for files can be kept for a batch, so that it has them whatever others upload.
//
//   DIR/files/<id>        the content
//   DIR/files/<id>.json   what is known of it, written before the content may be found
//
// A file belongs to its owner (jobs/owner_key.h; "" where no key is asked for): to others it is
// not there. Any thread. Add, Append, Truncate and Remove block on the disk; no lock is held
// meanwhile, so that Get and List do not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::jobs {

struct StoredFile {
  std::string id;  // "file-" and 32 hexadecimal digits
  std::string filename;
  std::string purpose;
  std::string owner;
  uint64_t bytes = 0;
  int64_t created_unix_s = 0;
};

class FileStore {
 public:
  static constexpr size_t kFilesMax = 10'000;

  // Creates the folder if it is missing, and reads the files of an earlier run. kUnavailable: the
  // folder cannot be read or written.
  static Expected<std::unique_ptr<FileStore>> Open(const std::string& folder, uint64_t bytes_max,
                                                   size_t files_max = kFilesMax);

  // Sets id and created_unix_s. kPayloadTooLarge: the folder would hold more than its bytes or
  // files, or more of this owner than its half; kUnavailable: the disk.
  // `batch`: takes one of the places that are kept for that batch, if there are any.
  Expected<StoredFile> Add(StoredFile file, std::string_view content,
                           const std::string& batch = "");
  // Adds to the end of a file, and has it on the disk; on an error nothing is added. Errors: those
  // of Add, and kNotFound. One thread at a time appends to a file or cuts it.
  Status Append(const std::string& id, std::string_view text);
  // Cuts a file to its first bytes.
  Status Truncate(const std::string& id, uint64_t bytes);

  // Keeps places for files of a batch. kPayloadTooLarge as of Add.
  Status KeepPlaces(const std::string& batch, const std::string& owner, size_t places);
  // As many as were kept before, whatever the limits are: of a batch that was accepted.
  void KeepPlacesAgain(const std::string& batch, const std::string& owner, size_t places);
  // What is left of them is for all again.
  void ReleasePlaces(const std::string& batch);

  // kNotFound: it is not there, or is another's.
  Expected<StoredFile> Get(const std::string& id, const std::string& owner) const;
  // The newest first. `purpose` "": any.
  std::vector<StoredFile> List(const std::string& owner, const std::string& purpose) const;
  // Those of all owners that `wanted` is true of.
  std::vector<StoredFile> ListIf(const std::function<bool(const StoredFile&)>& wanted) const;
  // Files go to the owner that `owner_of` gives for theirs. kUnavailable: the disk.
  Status ChangeOwners(const std::function<std::string(const std::string& owner)>& owner_of);
  // Once it returns OK, the file is gone after a loss of power too. kNotFound. kUnavailable: the
  // disk; the file may be gone.
  Status Remove(const std::string& id, const std::string& owner);
  // The path of a file that exists.
  std::string PathOf(const std::string& id) const { return folder_ + "/" + id; }

 private:
  FileStore(std::string folder, uint64_t bytes_max, size_t files_max)
      : folder_(std::move(folder)), bytes_max_(bytes_max), files_max_(files_max) {}
  Status Load();
  // All under mutex_.
  Status TakeRoom(const std::string& owner, uint64_t bytes);
  void GiveRoom(const std::string& owner, uint64_t bytes);
  Status TakePlaces(const std::string& owner, size_t places);
  void GivePlaces(const std::string& owner, size_t places);
  Status TakeFor(const StoredFile& file, const std::string& batch);

  const std::string folder_;
  const uint64_t bytes_max_;
  const size_t files_max_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::map<std::string, StoredFile> files_;
  // Counts files, what is being written, and places that are kept.
  struct Share {
    uint64_t bytes = 0;
    size_t places = 0;
  };
  Share all_;
  std::map<std::string, Share> of_owner_;
  struct Kept {
    std::string owner;
    size_t places = 0;
  };
  std::map<std::string, Kept> kept_;  // by batch
};

// Makes a folder if it is missing, which only this user may enter, then and from now on.
Status MakePrivateFolder(const std::string& path);

// "batch_" or "file-" and 32 hexadecimal digits, drawn at random.
std::string NewStoredId(std::string_view prefix);
bool IsStoredId(std::string_view id, std::string_view prefix);

// Replaces a file as a whole: whoever reads it, also after a crash, has the old or the new text.
// Once it returns OK, a loss of power leaves the new one.
Status WriteFileAtomically(const std::string& path, std::string_view text);

int64_t UnixSeconds();

}  // namespace penstock::jobs
