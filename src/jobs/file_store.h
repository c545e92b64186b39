// FileStore: files that clients upload and batches write, in a folder with a bound of bytes, of
// which an owner that is not "" may fill a half: one of several does not take the room of all.
//
//   DIR/files/<id>        the content
//   DIR/files/<id>.json   what is known of it, written before the content may be found
//
// A file belongs to its owner (a hash of an API key; "" where no key is asked for): to others it is
// not there. Any thread. Add, Append, Truncate, Remove and Read block on the disk; no lock is held
// meanwhile, so that Get and List do not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace penstock {

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
  Expected<StoredFile> Add(StoredFile file, std::string_view content);
  // Adds to the end of a file, and has it on the disk; on an error nothing is added. Errors: those
  // of Add, and kNotFound. One thread at a time appends to a file or cuts it.
  Status Append(const std::string& id, std::string_view text);
  // Cuts a file to its first bytes.
  Status Truncate(const std::string& id, uint64_t bytes);

  // kNotFound: it is not there, or is another's.
  Expected<StoredFile> Get(const std::string& id, const std::string& owner) const;
  // The newest first. `purpose` "": any.
  std::vector<StoredFile> List(const std::string& owner, const std::string& purpose) const;
  // Files without a byte, of all owners.
  std::vector<StoredFile> ListEmpty(const std::string& purpose) const;
  // Once it returns OK, the file is gone after a loss of power too. kNotFound. kUnavailable: the
  // disk; the file may be gone.
  Status Remove(const std::string& id, const std::string& owner);
  // The whole content. kPayloadTooLarge: more than bytes_max.
  Expected<std::string> Read(const std::string& id, const std::string& owner,
                             uint64_t bytes_max) const;
  // Of a file that exists.
  std::string PathOf(const std::string& id) const { return folder_ + "/" + id; }

 private:
  FileStore(std::string folder, uint64_t bytes_max, size_t files_max)
      : folder_(std::move(folder)), bytes_max_(bytes_max), files_max_(files_max) {}
  Status Load();
  // Both under mutex_.
  Status TakeRoom(const std::string& owner, uint64_t bytes);
  void GiveRoom(const std::string& owner, uint64_t bytes);

  const std::string folder_;
  const uint64_t bytes_max_;
  const size_t files_max_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::map<std::string, StoredFile> files_;
  // Of the files, and of what is being written.
  uint64_t bytes_ = 0;
  std::map<std::string, uint64_t> owner_bytes_;
  size_t adding_ = 0;  // files
};

// "batch_" or "file-" and 32 hexadecimal digits, drawn at random.
std::string NewStoredId(std::string_view prefix);
bool IsStoredId(std::string_view id, std::string_view prefix);

// Replaces a file as a whole: whoever reads it, also after a crash, has the old or the new text.
// Once it returns OK, a loss of power leaves the new one.
Status WriteFileAtomically(const std::string& path, std::string_view text);

int64_t UnixSeconds();

}  // namespace penstock
