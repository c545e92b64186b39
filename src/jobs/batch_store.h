// Batches of requests (OpenAI's /v1/batches): what is known of each, kept in a folder as
// DIR/batches/<id>.json, so that a restart finds it.
//
// Any thread. Add and Update block on the disk; Get, List, NextToRun and the like do not wait for
// them.
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
#include "jobs/file_store.h"
#include "json/json.h"

namespace penstock::jobs {

enum class BatchStatus {
  kValidating,  // waits for its turn, or its input is being checked
  kInProgress,
  kCancelling,
  kCompleted,
  kFailed,  // its input is at fault, or the server; `errors` says which
  kExpired,
  kCancelled,
};
const char* BatchStatusName(BatchStatus status);  // "validating", "in_progress", ...
bool IsOver(BatchStatus status);

// What is wrong with the input.
struct BatchError {
  std::string code, message, param;
  int64_t line = 0;  // from 1; 0: of no line
};

struct Batch {
  std::string id, owner, endpoint, input_file_id;
  std::string metadata;  // a JSON object; "": none
  BatchStatus status = BatchStatus::kValidating;
  std::string output_file_id, error_file_id;  // empty: no such file
  // Unix time of each, in seconds; 0: not yet.
  int64_t created = 0, in_progress = 0, expires = 0, completed = 0, failed = 0, expired = 0,
          cancelling = 0, cancelled = 0;
  int64_t lines = 0, lines_completed = 0, lines_failed = 0;
  std::vector<BatchError> errors;
};

inline constexpr std::string_view kBatchPrefix = "batch_";  // of ids

// `purpose` of the files that batches write.
inline constexpr const char* kBatchOutputPurpose = "batch_output";

// OpenAI's form.
void WriteBatch(const Batch& batch, JsonWriter* json);

class BatchStore {
 public:
  static constexpr size_t kBatchesMax = 1000;
  static constexpr size_t kWaitingMax = 100;  // that are not over, of an owner

  // kUnavailable: the folder cannot be read or written.
  static Expected<std::unique_ptr<BatchStore>> Open(const std::string& folder);

  // Sets created, and the id where it has none. Where there are too many, the oldest that is over
  // is forgotten, of the same owner if it has one. kResourceExhausted: none is over, or too many of
  // this owner wait.
  Expected<Batch> Add(Batch batch);
  // kNotFound: it is not there, or is another's.
  Expected<Batch> Get(const std::string& id, const std::string& owner) const;
  // The newest first.
  std::vector<Batch> List(const std::string& owner) const;
  // The batch with the lowest `turn` among those that are not over and may run; among equals the
  // oldest. Its id is "" if there is none.
  Batch NextToRun(const std::function<bool(const Batch&)>& may_run,
                  const std::function<uint64_t(const Batch&)>& turn = {}) const;
  // Those of all owners that are not over.
  std::vector<Batch> ListUnfinished() const;
  // Batches go to the owner that `owner_of` gives for theirs. kUnavailable: the disk.
  Status ChangeOwners(const std::function<std::string(const std::string& owner)>& owner_of);
  // Where the StartRecord of a batch is kept while the batch runs.
  std::string StartsPathOf(const std::string& id) const { return folder_ + "/" + id + ".starts"; }
  // Whether a batch that is not over reads or writes that file.
  bool Uses(const std::string& file_id) const;
  // Whether any batch, also one that is over, names that file.
  bool Names(const std::string& file_id) const;
  // Changes a batch; `saves`: also on the disk. kNotFound; kUnavailable: the disk, and nothing has
  // changed: whoever asked tries again. Others see the change once it is saved.
  Expected<Batch> Update(const std::string& id, bool saves,
                         const std::function<void(Batch*)>& change);

 private:
  explicit BatchStore(std::string folder) : folder_(std::move(folder)) {}
  Status Load();
  Status Save(const Batch& batch) const;
  std::string PathOf(const std::string& id) const { return folder_ + "/" + id + ".json"; }
  // The id of the oldest batch of `owner` (null: of anyone) that is over; empty if no batch is.
  // The caller holds mutex_.
  std::string OldestOver(const std::string* owner) const;
  // The one that makes room for a new one of `owner`: its own oldest, else anyone's. The caller
  // holds mutex_.
  std::string OldestToForget(const std::string& owner) const;
  // Whether `owner` may have one more.
  Status CheckRoom(const std::string& owner) const;

  const std::string folder_;
  // One thread at a time changes batches. It is held while the disk is written, mutex_ is not.
  // Taken before mutex_.
  std::mutex writer_;
  mutable std::mutex mutex_;
  std::map<std::string, Batch> batches_;  // guarded by mutex_; changed under both
};

// Removes empty files that no batch names: what a crash has left between the making of a batch's
// files and the saving of their names. Before the first batch runs.
void RemoveUnusedOutputs(FileStore* files, const BatchStore& batches);

}  // namespace penstock::jobs
