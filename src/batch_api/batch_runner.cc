#include "batch_api/batch_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <utility>

#include "api/service.h"
#include "base/seeded_hash.h"
#include "batch_api/batch_lines.h"
#include "cache/cache_salt.h"
#include "frontend/key_ring.h"
#include "http/message.h"
#include "jobs/start_record.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "serving/inner_call.h"
#include "serving/route_table.h"
#include "threads/byte_budget.h"

namespace penstock::batch_api {
namespace {

using serving::CallInner;
using serving::PrintError;
using serving::Route;

constexpr const char* kEndpoints[] = {"/v1/embeddings", "/v1/chat/completions", "/v1/completions",
                                      "/v1/responses"};
constexpr std::chrono::milliseconds kBackOffMin{100};
constexpr std::chrono::milliseconds kBackOffMax{5000};
// A model that does not come is an error of the line in the end: after about two minutes.
constexpr int kUnavailableMax = 30;
// How often the runner looks whether it is to end while it waits for answers.
constexpr std::chrono::milliseconds kLookEvery{200};
// Lines that wait for a model that does not come, and their bodies.
constexpr size_t kAgainMax = 1024;
constexpr size_t kAgainBytesMax = 8 << 20;
// The part of these bytes that batches may hold while they wait for their next turn. A batch over
// it begins its waiting lines anew.
constexpr size_t kPausedBytesMax = 32 << 20;
constexpr size_t kTurnOwnersMax = 10'000;  // whose turns are known
// A batch that the disk holds up is tried again after this time.
constexpr std::chrono::seconds kTryAgain{10};

struct LineAnswer {
  BatchLine line;
  int tries = 0;
  std::string request_id;
  http::Exchange::Print print;
};

// Where answers go; outlives the runner where a request does. Lists, so that an answer that has
// come finds its place without memory.
struct LineAnswers {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<LineAnswer> ready;  // guarded by mutex
};

// Memory of a request for each byte of its line, as for a body that a connection reads.
constexpr int64_t kMemoryPerLineByte = 4;

// A fault of the disk, or memory that is short: not of the batch, which goes on later. A folder
// that is full ends it: its owner has to make room.
bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kResourceExhausted;
}

}  // namespace

// A batch's place among those that run, for as long as this lives, and what ends its requests.
class BatchRunner::Turn {
 public:
  Turn(BatchRunner* runner, jobs::Batch given) : batch(std::move(given)), runner_(runner) {
    runner_->running_[batch.owner] = this;  // the caller has the mutex
  }
  ~Turn() {
    const std::lock_guard lock(runner_->mutex_);
    runner_->running_.erase(batch.owner);
    auto& turns = runner_->last_turns_;
    if (turns.size() >= kTurnOwnersMax) turns.clear();
    RunGuarded("batches", [&] { turns[batch.owner] = ++runner_->turns_; });
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Ends the batch. Any thread: that of the batch may be inside the handler of a line, which looks
  // at the line's token while it reads.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancel_.Cancel();
    for (const auto& [number, token] : lines_) token->Cancel();
  }
  // Its requests alone.
  void CancelLines() {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, token] : lines_) token->Cancel();
  }
  const CancelToken& token() const { return cancel_; }
  bool cancelled() const { return cancel_.cancelled(); }

  // Each line has its own: a request that fails on its way cancels itself by it.
  std::shared_ptr<CancelToken> NewLine(int64_t number) {
    auto token = std::make_shared<CancelToken>();
    const std::lock_guard lock(mutex_);
    if (cancel_.cancelled()) token->Cancel();
    lines_[number] = token;
    return token;
  }
  void EndLine(int64_t number) {
    const std::lock_guard lock(mutex_);
    lines_.erase(number);
  }

  const jobs::Batch batch;

 private:
  BatchRunner* const runner_;
  CancelToken cancel_;
  std::mutex mutex_;                                       // taken after the runner's
  std::map<int64_t, std::shared_ptr<CancelToken>> lines_;  // under way, by number
};

// One batch while it runs.
class BatchRunner::Run {
 public:
  // `batch`: as it was begun.
  Run(BatchRunner* runner, Turn* turn, jobs::Batch batch)
      : runner_(runner),
        turn_(turn),
        batch_(std::move(batch)),
        starts_(runner->batches_->StartsPathOf(batch_.id)) {
    route_ = runner_->table_.FindPost(batch_.endpoint, &route_index_);
  }

  ~Run() {
    if (turn_ != nullptr) turn_->CancelLines();  // after a failure some are under way
  }

  const std::string& id() const { return batch_.id; }
  size_t held_bytes() const { return again_bytes_; }
  // Its turn is over, with no line under way; another follows.
  void Pause() { turn_ = nullptr; }
  void Resume(Turn* turn) { turn_ = turn; }

  // Before the first turn.
  Status Open() {
    PENSTOCK_RETURN_IF_ERROR(FindAnswered());
    PENSTOCK_RETURN_IF_ERROR(runner_->files_->Get(batch_.input_file_id, batch_.owner).status());
    input_.open(runner_->files_->PathOf(batch_.input_file_id), std::ios::binary);
    return input_ ? Status::Ok() : CannotRead();
  }

  // Whether it is over; else it goes on in its next turn, or after a restart.
  Expected<jobs::BatchStatus> Go() {
    auto look = Clock::now() + BatchRunner::kSlice;
    bool yields = false;
    for (;;) {
      // Both a client's cancel and the end of the server cancel what is under way.
      if (turn_->cancelled()) turn_->CancelLines();
      if (!yields && Clock::now() >= look) {
        yields = runner_->OthersWait();
        look = Clock::now() + kLookEvery;
      }
      const bool submits = !turn_->cancelled() && !IsLate() && !yields;
      if (submits) PENSTOCK_RETURN_IF_ERROR(SubmitAll());
      if (under_way_ == 0 && (!submits || (again_.empty() && at_end_))) break;
      PENSTOCK_RETURN_IF_ERROR(TakeAnswers());
    }
    if (again_.empty() && at_end_ && !lost_) return jobs::BatchStatus::kCompleted;
    if (runner_->IsStopping()) return jobs::BatchStatus::kInProgress;
    if (turn_->cancelled()) return jobs::BatchStatus::kCancelled;
    if (yields && !IsLate()) return jobs::BatchStatus::kInProgress;
    PENSTOCK_RETURN_IF_ERROR(WriteLate());
    return jobs::BatchStatus::kExpired;
  }

 private:
  bool IsLate() const { return jobs::UnixSeconds() >= batch_.expires; }

  // Lines with an answer, of an earlier run.
  Status FindAnswered() {
    done_.resize(static_cast<size_t>(BatchRunner::kLinesMax) + 1);
    int64_t counts[2] = {0, 0};
    for (const int which : {0, 1}) {
      const std::string& id = which == 0 ? batch_.output_file_id : batch_.error_file_id;
      uint64_t bytes = 0;
      PENSTOCK_RETURN_IF_ERROR(runner_->files_->Get(id, batch_.owner).status());
      PENSTOCK_ASSIGN_OR_RETURN(const auto numbers,
                                ReadAnswered(runner_->files_->PathOf(id), &bytes));
      PENSTOCK_RETURN_IF_ERROR(runner_->files_->Truncate(id, bytes));
      for (const int64_t number : numbers) {
        if (number > 0 && number < static_cast<int64_t>(done_.size())) {
          done_[static_cast<size_t>(number)] = true;
          starts_.Forget(number);
        }
      }
      counts[which] = static_cast<int64_t>(numbers.size());
    }
    return runner_->batches_
        ->Update(batch_.id, false,
                 [&](jobs::Batch* batch) {
                   batch->lines_completed = counts[0];
                   batch->lines_failed = counts[1];
                 })
        .status();
  }

  Status Count(int64_t completed, int64_t failed) {
    return runner_->batches_
        ->Update(batch_.id, false,
                 [&](jobs::Batch* batch) {
                   batch->lines_completed += completed;
                   batch->lines_failed += failed;
                 })
        .status();
  }

  // The next line without an answer; none at the end.
  Expected<std::optional<LineAnswer>> ReadNext() {
    std::string text;
    while (std::getline(input_, text)) {
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      ++number_;
      if (number_ < static_cast<int64_t>(done_.size()) && done_[static_cast<size_t>(number_)]) {
        continue;
      }
      LineAnswer answer;
      PENSTOCK_ASSIGN_OR_RETURN(answer.line, ParseBatchLine(text, batch_.endpoint));
      answer.line.number = number_;
      return std::optional<LineAnswer>(std::move(answer));
    }
    // A failed read ends the loop, too.
    if (input_.bad() || number_ != batch_.lines) return CannotRead();
    at_end_ = true;
    return std::optional<LineAnswer>();
  }
  static Status CannotRead() { return {StatusCode::kUnavailable, "cannot read the input file"}; }

  Status SubmitAll() {
    while (under_way_ < BatchRunner::kUnderWay && !alone_) {
      if (suspect_) {
        // By itself: if the process crashes again, it was this line.
        if (under_way_ > 0) return Status::Ok();
        alone_ = true;
        Submit(*std::exchange(suspect_, std::nullopt));
        continue;
      }
      if (!again_.empty() && again_.front().when <= Clock::now()) {
        Waiting waiting = std::move(again_.front());
        again_.pop_front();
        again_bytes_ -= waiting.answer.line.body.size();
        full_ -= waiting.full ? 1 : 0;
        Submit(std::move(waiting.answer));
        continue;
      }
      if (at_end_ || MayNotAdd()) return Status::Ok();
      PENSTOCK_ASSIGN_OR_RETURN(auto next, ReadNext());
      if (!next) continue;
      const int crashes = starts_.CrashesOf(next->line.number);
      if (crashes >= BatchRunner::kCrashesMax) {
        PENSTOCK_RETURN_IF_ERROR(GiveUp(next->line));
      } else if (crashes > 0) {
        suspect_ = std::move(next);
      } else {
        Submit(*std::move(next));
      }
    }
    return Status::Ok();
  }

  Status GiveUp(const BatchLine& line) {
    LogWarn("batch {}: line {} is not run again: the server ended {} times while it was under way",
            batch_.id, line.number, BatchRunner::kCrashesMax);
    std::string error;
    AppendBatchError(
        line, "server_error",
        fmt::format("the server ended {} times while this request was under way; it is "
                    "not run again",
                    BatchRunner::kCrashesMax),
        &error);
    PENSTOCK_RETURN_IF_ERROR(runner_->files_->Append(batch_.error_file_id, error));
    starts_.Forget(line.number);
    return Count(0, 1);
  }

  // While the server says that it is full, nothing more is added. Lines whose model does not come
  // wait beside the others, up to a bound.
  bool MayNotAdd() const {
    return full_ > 0 || again_.size() >= kAgainMax || again_bytes_ > kAgainBytesMax ||
           runner_->service_->IsShortOfMemory(Priority::kBulk);
  }

  void Submit(LineAnswer answer) {
    auto request = std::make_shared<http::HttpRequest>();
    request->method = "POST";
    request->target = request->path = batch_.endpoint;
    request->id = http::NewRequestId();
    request->remote = "batch";
    request->route = route_index_;
    request->begin = Clock::now();
    request->context.priority = Priority::kBulk;
    request->context.cancel = turn_->NewLine(answer.line.number);
    request->context.client = SeededHash()(batch_.owner);
    request->context.cache_salt = cache::CacheSaltOf(runner_->options_.cache_secret, batch_.owner);
    request->context.memory = runner_->service_->NewRequestMemory(Priority::kBulk);
    std::string body = answer.line.body;
    request->body_bytes = body.size();
    answer.request_id = request->id;
    starts_.Begin(answer.line.number);
    ++answer.tries;
    ++under_way_;
    const auto line = std::make_shared<std::list<LineAnswer>>();
    line->push_back(std::move(answer));
    const auto done = [answers = answers_, line](http::Exchange::Print print) {
      line->front().print = std::move(print);
      const std::lock_guard lock(answers->mutex);
      answers->ready.splice(answers->ready.end(), *line);
      answers->changed.notify_one();
    };
    const auto bytes = static_cast<int64_t>(body.size());
    const Status taken = request->context.memory->Take(bytes * kMemoryPerLineByte);
    if (!taken.ok()) {
      return done([taken, error_body = route_->error_body, id = request->id] {
        return PrintError(error_body, taken, id);
      });
    }
    CallInner({runner_->service_, runner_->metrics_, &runner_->options_, &runner_->table_}, route_,
              request, std::move(body), done);
  }

  // Waits for answers, or for the time to look again.
  Status TakeAnswers() {
    std::list<LineAnswer> ready;
    {
      std::unique_lock lock(answers_->mutex);
      auto until = Clock::now() + kLookEvery;
      if (!again_.empty()) until = std::min(until, again_.front().when);
      answers_->changed.wait_until(lock, until, [this] { return !answers_->ready.empty(); });
      ready.swap(answers_->ready);
    }
    std::string outputs, errors;
    int64_t completed = 0, failed = 0;
    for (LineAnswer& answer : ready) {
      if (--under_way_ == 0) alone_ = false;
      turn_->EndLine(answer.line.number);
      http::HttpResponse response = PrintOf(answer);
      if (Repeats(response.status, answer)) continue;
      starts_.Forget(answer.line.number);
      const bool good = response.status < 400;
      // An answer is on one line; what a printer put between values does not matter.
      std::replace(response.body.begin(), response.body.end(), '\n', ' ');
      AppendBatchAnswer(answer.line, response.status, answer.request_id, response.body,
                        good ? &outputs : &errors);
      ++(good ? completed : failed);
    }
    if (!outputs.empty()) {
      PENSTOCK_RETURN_IF_ERROR(runner_->files_->Append(batch_.output_file_id, outputs));
    }
    if (!errors.empty()) {
      PENSTOCK_RETURN_IF_ERROR(runner_->files_->Append(batch_.error_file_id, errors));
    }
    return Count(completed, failed);
  }

  http::HttpResponse PrintOf(const LineAnswer& answer) const {
    try {
      if (answer.print) return answer.print();
      return PrintError(route_->error_body, Status::Internal("the request was lost"),
                        answer.request_id);
    } catch (...) {
      return PrintError(route_->error_body, ExceptionStatus(), answer.request_id);
    }
  }

  // A line that is to come back, or that was cancelled with the runner, has no answer yet.
  bool Repeats(int status, LineAnswer& answer) {
    if (status == 499) lost_ = true;
    if (status == 499) return true;
    if (status == 503 && answer.tries >= kUnavailableMax) return false;
    if (status != 429 && status != 503) return false;
    starts_.Return(answer.line.number);
    const auto wait = std::min(kBackOffMin * (1 << std::min(answer.tries - 1, 6)), kBackOffMax);
    const bool full = status == 429;
    again_bytes_ += answer.line.body.size();
    full_ += full ? 1 : 0;
    Waiting waiting{Clock::now() + wait, full, std::move(answer)};
    const auto place = std::upper_bound(
        again_.begin(), again_.end(), waiting.when,
        [](Clock::time_point when, const Waiting& one) { return when < one.when; });
    again_.insert(place, std::move(waiting));
    return true;
  }

  // Writes errors for the lines that were not run in time.
  Status WriteLate() {
    std::string errors;
    int64_t failed = 0;
    const auto write = [&](const BatchLine& line) {
      ++failed;
      AppendBatchError(line, "batch_expired", "the batch was not finished within 24 hours",
                       &errors);
    };
    for (const Waiting& waiting : again_) write(waiting.answer.line);
    if (suspect_) write(suspect_->line);
    while (!at_end_) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto next, ReadNext());
      if (next) write(next->line);
    }
    PENSTOCK_RETURN_IF_ERROR(runner_->files_->Append(batch_.error_file_id, errors));
    return Count(0, failed);
  }

  BatchRunner* const runner_;
  Turn* turn_;  // null between its turns
  const jobs::Batch batch_;
  jobs::StartRecord starts_;
  const Route* route_ = nullptr;
  int32_t route_index_ = -1;
  const std::shared_ptr<LineAnswers> answers_ = std::make_shared<LineAnswers>();
  std::ifstream input_;
  std::vector<bool> done_;  // by number of the line
  int64_t number_ = 0;      // of the last line read
  bool at_end_ = false;
  // A line that comes back.
  struct Waiting {
    Clock::time_point when;
    bool full = false;  // the server was
    LineAnswer answer;
  };
  std::deque<Waiting> again_;  // by `when`
  size_t again_bytes_ = 0;     // of their bodies
  size_t full_ = 0;            // of them
  size_t under_way_ = 0;
  bool lost_ = false;  // a line was cancelled
  // A line that was under way at a crash: it waits until no other is, and none begins beside it.
  std::optional<LineAnswer> suspect_;
  bool alone_ = false;
};

// Keeps a batch from beginning, for as long as this lives.
class BatchRunner::Hold {
 public:
  // The caller has the mutex.
  Hold(BatchRunner* runner, const std::string& id)
      : runner_(runner), place_(runner->held_.insert(id)) {}
  ~Hold() {
    const std::lock_guard lock(runner_->mutex_);
    runner_->held_.erase(place_);
    runner_->changed_.notify_all();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  BatchRunner* const runner_;
  const std::multiset<std::string>::iterator place_;
};

BatchRunner::BatchRunner(api::Service* service, metrics::Metrics* metrics,
                         const http::ServerOptions& options, const serving::RouteTable& table,
                         std::shared_ptr<const frontend::KeyRing> keys, jobs::OwnerKey owner_key,
                         FileLock lock)
    : service_(service),
      metrics_(metrics),
      options_(options),
      table_(table),
      keys_(std::move(keys)),
      owner_key_(std::move(owner_key)),
      lock_(std::move(lock)) {}

Expected<std::unique_ptr<BatchRunner>> BatchRunner::Start(
    api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
    const serving::RouteTable& table, std::shared_ptr<const frontend::KeyRing> keys) {
  if (std::error_code error; !std::filesystem::exists(options.batch_folder, error)) {
    PENSTOCK_RETURN_IF_ERROR(jobs::MakePrivateFolder(options.batch_folder));
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto lock, FileLock::Try(options.batch_folder + "/lock"));
  if (!lock) {
    return Status(StatusCode::kUnavailable,
                  "another server has the folder " + options.batch_folder);
  }
  PENSTOCK_ASSIGN_OR_RETURN(jobs::OwnerKey owner_key, jobs::OwnerKey::Open(options.batch_folder));
  std::unique_ptr<BatchRunner> runner(new BatchRunner(
      service, metrics, options, table, std::move(keys), std::move(owner_key), *std::move(lock)));
  PENSTOCK_RETURN_IF_ERROR(runner->OpenStores());
  runner->TellOfGoneKeys();
  runner->loops_ = kAtOnce;
  for (size_t i = 0; i < kAtOnce; ++i) {
    runner->threads_.emplace_back([raw = runner.get()] { raw->Loop(); });
  }
  return runner;
}

BatchRunner::~BatchRunner() {
  BeginStop();
  for (std::thread& thread : threads_) thread.join();
}

void BatchRunner::BeginStop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& [owner, turn] : running_) turn->Cancel();
  changed_.notify_all();
}

bool BatchRunner::Stop(std::chrono::milliseconds timeout) {
  BeginStop();
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return loops_ == 0; })) return false;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return true;
}

bool BatchRunner::Takes(const std::string& endpoint) {
  return std::find(std::begin(kEndpoints), std::end(kEndpoints), endpoint) != std::end(kEndpoints);
}

Status BatchRunner::RemoveFile(const std::string& id, const std::string& owner) {
  PENSTOCK_RETURN_IF_ERROR(files_->Get(id, owner).status());
  if (batches_->Uses(id)) {
    return {StatusCode::kUnprocessable,
            "a batch that waits or runs has this file; cancel it, or wait for its end", "file_id"};
  }
  return files_->Remove(id, owner);
}

Expected<jobs::Batch> BatchRunner::Submit(jobs::Batch batch) {
  if (const auto file = files_->Get(batch.input_file_id, batch.owner); !file.ok()) {
    return Status(file.code(), file.status().message(), "input_file_id");
  }
  batch.expires = jobs::UnixSeconds() + kWindowS;
  const std::string id = batch.id = jobs::NewStoredId(jobs::kBatchPrefix);
  PENSTOCK_RETURN_IF_ERROR(files_->KeepPlaces(id, batch.owner, kOutputs));
  auto added = batches_->Add(std::move(batch));
  if (!added.ok()) {
    files_->ReleasePlaces(id);
    return added;
  }
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return added;
}

Expected<jobs::Batch> BatchRunner::Cancel(const std::string& id, const std::string& owner) {
  PENSTOCK_RETURN_IF_ERROR(batches_->Get(id, owner).status());
  const auto find = [&]() -> Turn* {  // under mutex_; null: it does not run
    const auto turn = running_.find(owner);
    return turn != running_.end() && turn->second->batch.id == id ? turn->second : nullptr;
  };
  // One that does not run is over at once, and must not begin while that is being saved.
  std::optional<Hold> hold;
  {
    const std::lock_guard lock(mutex_);
    // One that has run ends in its next turn, with the files it has.
    if (find() == nullptr && !paused_.contains(id)) hold.emplace(this, id);
  }
  PENSTOCK_ASSIGN_OR_RETURN(jobs::Batch batch, batches_->Update(id, true, [&](jobs::Batch* each) {
    if (jobs::IsOver(each->status)) return;
    each->cancelling = jobs::UnixSeconds();
    each->status = jobs::BatchStatus::kCancelling;
    if (!hold) return;
    each->cancelled = each->cancelling;
    each->status = jobs::BatchStatus::kCancelled;
  }));
  if (jobs::IsOver(batch.status)) files_->ReleasePlaces(id);
  const std::lock_guard lock(mutex_);
  // None any more: its thread was held up by the disk, and finds it cancelled the next time.
  if (Turn* const turn = find()) turn->Cancel();
  return batch;
}

bool BatchRunner::IsStopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void BatchRunner::Pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kTryAgain, [this] { return stopping_; });
}

// Checks the input, and makes the files of results. Its status is kFailed where the input is at
// fault.
Expected<jobs::Batch> BatchRunner::Begin(const jobs::Batch& batch, const CancelToken& cancel) {
  int64_t lines = 0;
  PENSTOCK_ASSIGN_OR_RETURN(
      std::vector<jobs::BatchError> errors,
      CheckBatchFile(files_->PathOf(batch.input_file_id), batch.endpoint, &lines, &cancel));
  std::vector<std::string> ids;
  Status begun;
  if (errors.empty()) begun = MakeOutputs(batch, &ids);
  if (begun.ok()) {
    auto updated = batches_->Update(batch.id, true, [&](jobs::Batch* each) {
      each->lines = lines;
      if (!errors.empty()) {
        each->status = jobs::BatchStatus::kFailed;
        each->failed = jobs::UnixSeconds();
        each->errors = std::move(errors);
        return;
      }
      each->output_file_id = ids[0];
      each->error_file_id = ids[1];
      each->in_progress = jobs::UnixSeconds();
      // It may have been cancelled meanwhile.
      if (each->status == jobs::BatchStatus::kValidating)
        each->status = jobs::BatchStatus::kInProgress;
    });
    if (updated.ok()) return updated;
    begun = updated.status();
  }
  RemoveEmpty(batch, ids);  // it begins again later, with files of its own
  files_->KeepPlacesAgain(batch.id, batch.owner, kOutputs);
  return begun;
}

// The ids of the output file and the error file. After an error, of those that were made.
Status BatchRunner::MakeOutputs(const jobs::Batch& batch, std::vector<std::string>* ids) {
  for (const char* end : {"_output.jsonl", "_error.jsonl"}) {
    jobs::StoredFile file;
    file.filename = batch.id + end;
    file.purpose = jobs::kBatchOutputPurpose;
    file.owner = batch.owner;
    PENSTOCK_ASSIGN_OR_RETURN(file, files_->Add(std::move(file), "", batch.id));
    ids->push_back(file.id);
  }
  return Status::Ok();
}

void BatchRunner::RemoveEmpty(const jobs::Batch& batch, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (const Status gone = files_->Remove(id, batch.owner); !gone.ok()) {
      LogWarn("batch {}: an empty file stays: {}", batch.id, gone.message());
    }
  }
}

// Files without a line are of no use. They go last: until it is saved, the batch names them.
Status BatchRunner::Finish(const jobs::Batch& batch, jobs::BatchStatus outcome) {
  std::string ids[2] = {batch.output_file_id, batch.error_file_id};
  std::vector<std::string> empty;
  for (std::string& id : ids) {
    const auto file = files_->Get(id, batch.owner);
    if (!file.ok() || file->bytes > 0) continue;
    empty.push_back(std::exchange(id, ""));
  }
  PENSTOCK_RETURN_IF_ERROR(batches_
                               ->Update(batch.id, true,
                                        [&](jobs::Batch* each) {
                                          each->output_file_id = ids[0];
                                          each->error_file_id = ids[1];
                                          each->status = outcome;
                                          const int64_t now = jobs::UnixSeconds();
                                          if (outcome == jobs::BatchStatus::kCompleted)
                                            each->completed = now;
                                          if (outcome == jobs::BatchStatus::kCancelled)
                                            each->cancelled = now;
                                          if (outcome == jobs::BatchStatus::kExpired)
                                            each->expired = now;
                                        })
                               .status());
  RemoveEmpty(batch, empty);
  (void)std::remove(batches_->StartsPathOf(batch.id).c_str());
  return Status::Ok();
}

Status BatchRunner::RunOne(Turn* turn) {
  jobs::Batch batch = turn->batch;
  if (batch.status == jobs::BatchStatus::kValidating) {
    auto begun = Begin(batch, turn->token());
    if (begun.code() == StatusCode::kCancelled) {
      return IsStopping() ? Status::Ok() : Finish(batch, jobs::BatchStatus::kCancelled);
    }
    PENSTOCK_ASSIGN_OR_RETURN(batch, std::move(begun));
    if (jobs::IsOver(batch.status)) return Status::Ok();
  }
  // Cancelled while its input was being checked, and the server ended before there were files.
  if (batch.output_file_id.empty()) return Finish(batch, jobs::BatchStatus::kCancelled);
  std::unique_ptr<Run> run = TakePaused(batch.id);
  if (run != nullptr) {
    run->Resume(turn);
  } else {
    run = std::make_unique<Run>(this, turn, batch);
    PENSTOCK_RETURN_IF_ERROR(run->Open());
  }
  PENSTOCK_ASSIGN_OR_RETURN(const jobs::BatchStatus outcome, run->Go());
  if (jobs::IsOver(outcome)) return Finish(batch, outcome);
  run->Pause();
  KeepPaused(std::move(run));  // others have turns, or the server ends
  return Status::Ok();
}

std::unique_ptr<BatchRunner::Run> BatchRunner::TakePaused(const std::string& id) {
  const std::lock_guard lock(mutex_);
  auto paused = paused_.extract(id);
  return paused.empty() ? nullptr : std::move(paused.mapped());
}

void BatchRunner::KeepPaused(std::unique_ptr<Run> run) {
  const std::lock_guard lock(mutex_);
  size_t bytes = run->held_bytes();
  for (const auto& [id, other] : paused_) bytes += other->held_bytes();
  if (bytes > kPausedBytesMax) return;
  const std::string id = run->id();
  paused_[id] = std::move(run);
}

jobs::Batch BatchRunner::NextBatch() const {
  const auto may_run = [this](const jobs::Batch& batch) {
    return !running_.contains(batch.owner) && !held_.contains(batch.id);
  };
  return batches_->NextToRun(may_run, [this](const jobs::Batch& batch) {
    const auto turn = last_turns_.find(batch.owner);
    return turn == last_turns_.end() ? 0 : turn->second;
  });
}

bool BatchRunner::OthersWait() {
  const std::lock_guard lock(mutex_);
  return running_.size() >= kAtOnce && !NextBatch().id.empty();
}

void BatchRunner::Loop() {
  while (!IsStopping()) {
    if (RunGuarded("batches", [this] { RunNext(); })) continue;
    // Without memory even for the failure: the batch is run again.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kBackOffMax, [this] { return stopping_; });
  }
  const std::lock_guard lock(mutex_);
  --loops_;
  changed_.notify_all();
}

// Waits for a batch and runs it.
void BatchRunner::RunNext() {
  std::optional<Turn> turn;
  {
    std::unique_lock lock(mutex_);
    jobs::Batch next;
    changed_.wait(lock, [&] {
      if (!stopping_) next = NextBatch();
      return stopping_ || !next.id.empty();
    });
    if (stopping_) return;
    turn.emplace(this, std::move(next));
    if (turn->batch.status == jobs::BatchStatus::kCancelling) turn->Cancel();
  }
  RunTurn(&*turn);
  const auto batch = batches_->Get(turn->batch.id, turn->batch.owner);
  if (!batch.ok() || jobs::IsOver(batch->status)) files_->ReleasePlaces(turn->batch.id);
}

void BatchRunner::RunTurn(Turn* turn) {
  const jobs::Batch& batch = turn->batch;
  Status status;
  try {
    status = RunOne(turn);
  } catch (...) {
    status = ExceptionStatus();
  }
  if (status.ok()) return;
  if (MayPass(status)) {
    LogWarn("batch {} waits: {}", batch.id, status.message());
    return Pause();
  }
  LogError("batch {} failed: {}", batch.id, status.message());
  const auto failed = batches_->Update(batch.id, true, [&](jobs::Batch* each) {
    each->status = jobs::BatchStatus::kFailed;
    each->failed = jobs::UnixSeconds();
    each->errors = {{"server_error", status.message(), "", 0}};
  });
  if (failed.ok()) return;
  // It has not failed until that is saved, and is tried again.
  LogError("batch {}: {}", batch.id, failed.status().message());
  Pause();
}

}  // namespace penstock::batch_api
