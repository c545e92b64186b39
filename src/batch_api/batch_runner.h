// BatchRunner: runs batches (OpenAI's /v1/batches), a line of a file as one request to a route,
// with the route's own handler and as bulk work.
//
//   thread of the batch:  reads the file, line after line; at most kUnderWay requests at once
//   model, workers        answer them
//   thread of the batch:  prints the answers and adds them to the output and error files
//
// At most kAtOnce batches run at once, each of another owner, so that an owner with many does not
// keep others waiting; the batches of one owner run one after the other, the oldest first. If more
// owners have batches they take turns: one that has run for kSlice stops after the lines under way,
// for the owner whose last turn is longest ago, and goes on later. A restart goes on where
// the files stop: lines that have an answer are not run again. Lines that are told to come back
// (429, 503) are. A line that was under way when the process crashed is run by itself the next
// time, and after kCrashesMax crashes not any more: it gets an error.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "http/server_options.h"
#include "jobs/batch_store.h"
#include "jobs/file_store.h"
#include "jobs/owner_key.h"
#include "os/file_lock.h"

namespace penstock {
class CancelToken;
}  // namespace penstock

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::frontend {
class KeyRing;
}  // namespace penstock::frontend

namespace penstock::http {
struct HttpRequest;
}  // namespace penstock::http

namespace penstock::metrics {
class Metrics;
}  // namespace penstock::metrics

namespace penstock::serving {
class RouteTable;
}  // namespace penstock::serving

namespace penstock::batch_api {

class BatchRunner {
 public:
  static constexpr size_t kAtOnce = 4;
  static constexpr size_t kUnderWay = 16;  // requests of a batch
  static constexpr int64_t kLinesMax = 50'000;
  static constexpr size_t kCustomIdBytesMax = 512;
  static constexpr std::chrono::seconds kSlice{5};
  static constexpr int64_t kWindowS = 24 * 3600;  // then what is left is not run
  static constexpr size_t kOutputs = 2;           // files that a batch writes
  static constexpr int kCrashesMax = 2;           // of a line

  // Opens options.batch_folder and begins with what is there. Service, metrics and table must
  // outlive it. kUnavailable: the folder cannot be used, or another server has it.
  static Expected<std::unique_ptr<BatchRunner>> Start(
      api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
      const serving::RouteTable& table, std::shared_ptr<const frontend::KeyRing> keys);
  // As Stop, however long it takes.
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  // Cancels the requests under way, also those whose lines are being read: what they were is run
  // after a restart. Batches that are taken from now on wait for it, too. Does not block.
  void BeginStop();
  // BeginStop, and ends the threads. False: one of them still works after `timeout`, and uses what
  // it was given.
  bool Stop(std::chrono::milliseconds timeout);

  jobs::FileStore& files() { return *files_; }
  const jobs::BatchStore& batches() const { return *batches_; }
  // The owner of what a request asks for, by its key; "" where no key is asked for.
  std::string OwnerOf(const http::HttpRequest& request) const;
  // Files whose owner has no key any more, so that no request can ask for them.
  std::vector<jobs::StoredFile> FilesOfGoneKeys() const;
  // Whether the request has an administrator's key, which may list and delete these.
  bool IsAdmin(const http::HttpRequest& request) const;
  // Logs how many there are. At the start and after each reload of keys.
  void TellOfGoneKeys() const;
  // kNotFound: no such file. kUnprocessable: a batch that is not over has it.
  Status RemoveFile(const std::string& id, const std::string& owner);
  // Whether lines may name that route.
  static bool Takes(const std::string& endpoint);
  // `batch`: owner, endpoint, input_file_id and metadata. Errors: those of BatchStore::Add;
  // kNotFound: no such file.
  Expected<jobs::Batch> Submit(jobs::Batch batch);
  // One that is running ends soon, with what it has. Over already: it stays as it is.
  Expected<jobs::Batch> Cancel(const std::string& id, const std::string& owner);

 private:
  class Hold;
  class Run;
  class Turn;
  BatchRunner(api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
              const serving::RouteTable& table, std::shared_ptr<const frontend::KeyRing> keys,
              jobs::OwnerKey owner_key, FileLock lock);
  Status OpenStores();
  void Loop();
  void RunNext();
  void RunTurn(Turn* turn);
  // The oldest of the owner whose last turn is longest ago; the caller has the mutex.
  jobs::Batch NextBatch() const;
  // Whether an owner without a turn has a batch, and all turns are taken.
  bool OthersWait();
  std::unique_ptr<Run> TakePaused(const std::string& id);
  void KeepPaused(std::unique_ptr<Run> run);
  Status RunOne(Turn* turn);
  Expected<jobs::Batch> Begin(const jobs::Batch& batch, const CancelToken& cancel);
  Status Finish(const jobs::Batch& batch, jobs::BatchStatus outcome);
  Status MakeOutputs(const jobs::Batch& batch, std::vector<std::string>* ids);
  void RemoveEmpty(const jobs::Batch& batch, const std::vector<std::string>& ids);
  bool IsStopping();
  // Waits before a batch that the disk held up is tried again.
  void Pause();

  api::Service* const service_;
  metrics::Metrics* const metrics_;
  const http::ServerOptions options_;
  const serving::RouteTable& table_;
  const std::shared_ptr<const frontend::KeyRing> keys_;
  const jobs::OwnerKey owner_key_;
  const FileLock lock_;  // of the folder
  std::unique_ptr<jobs::FileStore> files_;
  std::unique_ptr<jobs::BatchStore> batches_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  bool stopping_ = false;
  size_t loops_ = 0;                                    // threads that have not ended
  std::map<std::string, Turn*> running_;                // by owner
  std::map<std::string, uint64_t> last_turns_;          // by owner: the number of its last turn
  uint64_t turns_ = 0;                                  // so far
  std::map<std::string, std::unique_ptr<Run>> paused_;  // by batch: those that go on later
  std::multiset<std::string> held_;                     // ids of batches that may not begin
  std::vector<std::thread> threads_;  // touched only by the thread that starts and stops the runner
};

}  // namespace penstock::batch_api
