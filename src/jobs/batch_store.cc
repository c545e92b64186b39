#include "jobs/batch_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <tuple>

#include "log/log.h"

namespace penstock::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kStateBytesMax = 1 << 20;
constexpr const char* kNames[] = {"validating", "in_progress", "cancelling", "completed",
                                  "failed",     "expired",     "cancelled"};

// The fields that are numbers, with their names in OpenAI's form.
constexpr std::pair<const char*, int64_t Batch::*> kTimes[] = {
    {"created_at", &Batch::created},       {"in_progress_at", &Batch::in_progress},
    {"expires_at", &Batch::expires},       {"completed_at", &Batch::completed},
    {"failed_at", &Batch::failed},         {"expired_at", &Batch::expired},
    {"cancelling_at", &Batch::cancelling}, {"cancelled_at", &Batch::cancelled},
};
constexpr std::pair<const char*, int64_t Batch::*> kCounts[] = {
    {"total", &Batch::lines},
    {"completed", &Batch::lines_completed},
    {"failed", &Batch::lines_failed},
};

void WriteText(const char* key, const std::string& text, JsonWriter* json) {
  json->Key(key);
  if (text.empty()) {
    json->Null();
  } else {
    json->String(text);
  }
}

void WriteErrors(const std::vector<BatchError>& errors, JsonWriter* json) {
  json->Key("errors");
  if (errors.empty()) {
    json->Null();
    return;
  }
  json->BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const BatchError& error : errors) {
    json->BeginObject().Field("code", error.code).Field("message", error.message);
    WriteText("param", error.param, json);
    json->Key("line");
    if (error.line > 0) {
      json->Int(error.line);
    } else {
      json->Null();
    }
    json->EndObject();
  }
  json->EndArray().EndObject();
}

Expected<Batch> Parse(const std::string& path) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, kStateBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject whole, document.Object());
  Batch batch;
  PENSTOCK_ASSIGN_OR_RETURN(batch.owner, whole.GetString("owner"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, whole.GetObject("batch"));
  PENSTOCK_ASSIGN_OR_RETURN(batch.id, object.GetString("id"));
  PENSTOCK_ASSIGN_OR_RETURN(batch.endpoint, object.GetString("endpoint"));
  PENSTOCK_ASSIGN_OR_RETURN(batch.input_file_id, object.GetString("input_file_id"));
  PENSTOCK_ASSIGN_OR_RETURN(batch.output_file_id, object.GetStringOr("output_file_id", ""));
  PENSTOCK_ASSIGN_OR_RETURN(batch.error_file_id, object.GetStringOr("error_file_id", ""));
  if (const auto metadata = object.Find("metadata")) batch.metadata = metadata->Text();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string status, object.GetString("status"));
  const auto* const name = std::find(std::begin(kNames), std::end(kNames), status);
  if (name == std::end(kNames)) return Status::InvalidArgument("unknown status " + status);
  batch.status = static_cast<BatchStatus>(name - std::begin(kNames));
  for (const auto& [key, field] : kTimes) {
    PENSTOCK_ASSIGN_OR_RETURN(batch.*field, object.GetIntOr(key, 0, 0, kMax));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject counts, object.GetObject("request_counts"));
  for (const auto& [key, field] : kCounts) {
    PENSTOCK_ASSIGN_OR_RETURN(batch.*field, counts.GetInt(key, 0, kMax));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject errors, object.GetObjectOrEmpty("errors"));
  if (!errors.Has("data")) return batch;
  PENSTOCK_ASSIGN_OR_RETURN(const auto list, errors.GetArray("data"));
  for (const JsonElement each : list) {
    JsonObject members;
    if (!each.Get(&members)) return Status::InvalidArgument("errors");
    const JsonObject one(members);
    BatchError error;
    PENSTOCK_ASSIGN_OR_RETURN(error.code, one.GetString("code"));
    PENSTOCK_ASSIGN_OR_RETURN(error.message, one.GetString("message"));
    PENSTOCK_ASSIGN_OR_RETURN(error.param, one.GetStringOr("param", ""));
    PENSTOCK_ASSIGN_OR_RETURN(error.line, one.GetIntOr("line", 0, 0, kMax));
    batch.errors.push_back(std::move(error));
  }
  return batch;
}

bool NamesFile(const Batch& batch, const std::string& file_id) {
  return batch.input_file_id == file_id || batch.output_file_id == file_id ||
         batch.error_file_id == file_id;
}

Status NoSuchBatch(const std::string& id) {
  return Status::NotFound(fmt::format("there is no batch '{:.100}'", id), "batch_id");
}

}  // namespace

const char* BatchStatusName(BatchStatus status) { return kNames[static_cast<size_t>(status)]; }

bool IsOver(BatchStatus status) { return status >= BatchStatus::kCompleted; }

void WriteBatch(const Batch& batch, JsonWriter* json) {
  json->BeginObject().Field("id", batch.id).Field("object", "batch");
  json->Field("endpoint", batch.endpoint);
  WriteErrors(batch.errors, json);
  json->Field("input_file_id", batch.input_file_id).Field("completion_window", "24h");
  json->Field("status", BatchStatusName(batch.status));
  WriteText("output_file_id", batch.output_file_id, json);
  WriteText("error_file_id", batch.error_file_id, json);
  for (const auto& [key, field] : kTimes) {
    json->Key(key);
    if (batch.*field > 0) {
      json->Int(batch.*field);
    } else {
      json->Null();
    }
  }
  json->Key("request_counts").BeginObject();
  for (const auto& [key, field] : kCounts) json->Field(key, batch.*field);
  json->EndObject().Key("metadata");
  if (batch.metadata.empty()) {
    json->Null();
  } else {
    json->Raw(batch.metadata);
  }
  json->EndObject();
}

Expected<std::unique_ptr<BatchStore>> BatchStore::Open(const std::string& folder) {
  const std::string batches = folder + "/batches";
  PENSTOCK_RETURN_IF_ERROR(MakePrivateFolder(batches));
  std::unique_ptr<BatchStore> store(new BatchStore(batches));
  PENSTOCK_RETURN_IF_ERROR(store->Load());
  return store;
}

Status BatchStore::Load() {
  std::error_code error;
  std::vector<fs::path> records;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const fs::path& path = entry.path();
    // What a crash has left.
    if (path.extension() == ".part") ::unlink(path.c_str());
    if (path.extension() == ".starts") records.push_back(path);
    if (path.extension() != ".json" || !IsStoredId(path.stem().string(), kBatchPrefix)) continue;
    auto batch = Parse(path.string());
    if (!batch.ok() || batch->id != path.stem().string()) {
      LogWarn("{} is left alone: {}", path.string(), batch.status().message());
      continue;
    }
    batches_.emplace(batch->id, *std::move(batch));
  }
  for (const fs::path& path : records) {
    const auto batch = batches_.find(path.stem().string());
    if (batch == batches_.end() || IsOver(batch->second.status)) ::unlink(path.c_str());
  }
  return error ? Status(StatusCode::kUnavailable, folder_ + ": " + error.message()) : Status::Ok();
}

Status BatchStore::Save(const Batch& batch) const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("owner", batch.owner).Key("batch");
  WriteBatch(batch, &json);
  json.EndObject();
  return WriteFileAtomically(PathOf(batch.id), text);
}

std::string BatchStore::OldestOver(const std::string* owner) const {
  const Batch* oldest = nullptr;
  for (const auto& [id, batch] : batches_) {
    if (!IsOver(batch.status) || (owner != nullptr && batch.owner != *owner)) continue;
    if (oldest == nullptr || batch.created < oldest->created) oldest = &batch;
  }
  return oldest == nullptr ? "" : oldest->id;
}

std::string BatchStore::OldestToForget(const std::string& owner) const {
  std::string oldest = OldestOver(&owner);
  return oldest.empty() ? OldestOver(nullptr) : oldest;
}

Expected<Batch> BatchStore::Add(Batch batch) {
  if (batch.id.empty()) batch.id = NewStoredId(kBatchPrefix);
  batch.created = UnixSeconds();
  const std::lock_guard writer(writer_);
  PENSTOCK_RETURN_IF_ERROR(CheckRoom(batch.owner));
  if (Status saved = Save(batch); !saved.ok()) {
    ::unlink(PathOf(batch.id).c_str());  // it may be there: its folder alone was not written
    return saved;
  }
  std::vector<std::string> forgotten;
  {
    const std::lock_guard lock(mutex_);
    batches_.emplace(batch.id, batch);
    while (batches_.size() > kBatchesMax) {
      const std::string oldest = OldestToForget(batch.owner);
      if (oldest.empty()) break;
      batches_.erase(oldest);
      forgotten.push_back(PathOf(oldest));
    }
  }
  for (const std::string& path : forgotten) ::unlink(path.c_str());
  return batch;
}

Status BatchStore::CheckRoom(const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  const auto waiting = std::count_if(batches_.begin(), batches_.end(), [&](const auto& entry) {
    return entry.second.owner == owner && !IsOver(entry.second.status);
  });
  if (static_cast<size_t>(waiting) >= kWaitingMax) {
    return {StatusCode::kResourceExhausted,
            fmt::format("{} batches wait or run, the limit", waiting)};
  }
  if (batches_.size() >= kBatchesMax && OldestToForget(owner).empty()) {
    return {StatusCode::kResourceExhausted,
            fmt::format("{} batches wait, the limit", batches_.size())};
  }
  return Status::Ok();
}

Expected<Batch> BatchStore::Get(const std::string& id, const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second.owner != owner) return NoSuchBatch(id);
  return found->second;
}

std::vector<Batch> BatchStore::List(const std::string& owner) const {
  std::vector<Batch> list;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, batch] : batches_) {
      if (batch.owner == owner) list.push_back(batch);
    }
  }
  std::sort(list.begin(), list.end(), [](const Batch& a, const Batch& b) {
    return std::tie(b.created, a.id) < std::tie(a.created, b.id);
  });
  return list;
}

Batch BatchStore::NextToRun(const std::function<bool(const Batch&)>& may_run,
                            const std::function<uint64_t(const Batch&)>& turn) const {
  const std::lock_guard lock(mutex_);
  const Batch* next = nullptr;
  const auto place = [&turn](const Batch& batch) {
    return std::pair(turn ? turn(batch) : 0, batch.created);
  };
  for (const auto& [id, batch] : batches_) {
    if (IsOver(batch.status) || !may_run(batch)) continue;
    if (next == nullptr || place(batch) < place(*next)) next = &batch;
  }
  return next == nullptr ? Batch() : *next;
}

std::vector<Batch> BatchStore::ListUnfinished() const {
  std::vector<Batch> list;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, batch] : batches_) {
    if (!IsOver(batch.status)) list.push_back(batch);
  }
  return list;
}

Status BatchStore::ChangeOwners(
    const std::function<std::string(const std::string& owner)>& owner_of) {
  std::vector<std::pair<std::string, std::string>> changes;  // ids and owners
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, batch] : batches_) {
      std::string owner = owner_of(batch.owner);
      if (owner != batch.owner) changes.emplace_back(id, std::move(owner));
    }
  }
  for (const auto& [id, owner] : changes) {
    const auto change = [&owner = owner](Batch* batch) { batch->owner = owner; };
    PENSTOCK_RETURN_IF_ERROR(Update(id, true, change).status());
  }
  return Status::Ok();
}

bool BatchStore::Uses(const std::string& file_id) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(batches_.begin(), batches_.end(), [&](const auto& entry) {
    return !IsOver(entry.second.status) && NamesFile(entry.second, file_id);
  });
}

bool BatchStore::Names(const std::string& file_id) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(batches_.begin(), batches_.end(),
                     [&](const auto& entry) { return NamesFile(entry.second, file_id); });
}

Expected<Batch> BatchStore::Update(const std::string& id, bool saves,
                                   const std::function<void(Batch*)>& change) {
  const std::lock_guard writer(writer_);
  Batch changed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end()) return NoSuchBatch(id);
    changed = found->second;
  }
  change(&changed);
  if (saves) PENSTOCK_RETURN_IF_ERROR(Save(changed));
  const std::lock_guard lock(mutex_);
  return batches_[id] = std::move(changed);
}

void RemoveUnusedOutputs(FileStore* files, const BatchStore& batches) {
  const auto is_empty_output = [](const StoredFile& file) {
    return file.bytes == 0 && file.purpose == kBatchOutputPurpose;
  };
  for (const StoredFile& file : files->ListIf(is_empty_output)) {
    if (batches.Names(file.id)) continue;
    if (const Status gone = files->Remove(file.id, file.owner); !gone.ok()) {
      LogWarn("the empty file {} stays: {}", file.id, gone.message());
    }
  }
}

}  // namespace penstock::jobs
