// FileStore and BatchStore: what they keep, over a restart too, and what they refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/regular_file.h"
#include "base/temp_folder_test_util.h"
#include "jobs/batch_store.h"
#include "jobs/file_store.h"
#include "jobs/owner_key.h"

namespace {

// Called in place of the system's calls while it is set; returns 0 or an errno.
std::function<int(bool folder)> on_sync;

int Sync(int fd, long call) {
  const int error = on_sync ? on_sync(call == SYS_fsync) : 0;
  if (error == 0) return static_cast<int>(syscall(call, fd));
  errno = error;
  return -1;
}

}  // namespace

// In place of the C library's: a file's content is written by the one, a folder by the other.
extern "C" int fdatasync(int fd) { return Sync(fd, SYS_fdatasync); }
extern "C" int fsync(int fd) { return Sync(fd, SYS_fsync); }

namespace penstock::jobs {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  void TearDown() override { on_sync = nullptr; }

  std::unique_ptr<FileStore> Files(uint64_t bytes_max = 100) {
    auto store = FileStore::Open(folder_, bytes_max);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return *std::move(store);
  }
  std::unique_ptr<BatchStore> Batches() {
    auto store = BatchStore::Open(folder_);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return *std::move(store);
  }

  const TempFolder temp_;
  const std::string folder_ = temp_ / "jobs";
};

TEST_F(StoreTest, FilesAreThereAfterARestart) {
  std::string id;
  {
    const auto files = Files();
    const auto file = files->Add({.filename = "a.jsonl", .purpose = "batch", .owner = "me"}, "abc");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    id = file->id;
    EXPECT_TRUE(IsStoredId(id, "file-"));
    ASSERT_TRUE(files->Append(id, "def\n").ok());
  }
  std::ofstream(folder_ + "/files/file-" + std::string(32, 'a')) << "no metadata";
  const auto files = Files();
  const auto file = files->Get(id, "me");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->filename, "a.jsonl");
  EXPECT_EQ(file->bytes, 7u);
  EXPECT_EQ(*ReadRegularFile(files->PathOf(id), 100), "abcdef\n");
  ASSERT_TRUE(files->Truncate(id, 2).ok());
  EXPECT_EQ(*ReadRegularFile(files->PathOf(id), 100), "ab");
  EXPECT_EQ(files->List("me", "").size(), 1u);
  EXPECT_EQ(files->List("me", "fine-tune").size(), 0u);
  ASSERT_TRUE(files->Remove(id, "me").ok());
  EXPECT_EQ(files->Get(id, "me").code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(folder_ + "/files/" + id));
}

TEST_F(StoreTest, FilesOfOthersAreNotThere) {
  const auto files = Files();
  const std::string id = files->Add({.owner = "me"}, "abc")->id;
  EXPECT_EQ(files->Get(id, "you").code(), StatusCode::kNotFound);
  EXPECT_EQ(files->Remove(id, "you").code(), StatusCode::kNotFound);
  EXPECT_TRUE(files->List("you", "").empty());
  EXPECT_EQ(files->Get("../../etc/passwd", "").code(), StatusCode::kNotFound);
}

TEST_F(StoreTest, TheFolderHasABound) {
  const auto files = Files(10);
  const std::string id = files->Add({}, "12345")->id;
  EXPECT_EQ(files->Add({}, "123456").code(), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(files->Append(id, "123456").code(), StatusCode::kPayloadTooLarge);
  EXPECT_TRUE(files->Append(id, "12345").ok());
  EXPECT_EQ(files->Add({}, "1").code(), StatusCode::kPayloadTooLarge);
  ASSERT_TRUE(files->Remove(id, "").ok());
  EXPECT_TRUE(files->Add({}, "1234567890").ok());
  EXPECT_EQ(Files(5)->Add({}, "1").code(), StatusCode::kPayloadTooLarge);
}

TEST_F(StoreTest, AnOwnerMayFillAHalf) {
  const auto files = Files(10);
  const std::string id = files->Add({.owner = "me"}, "1234")->id;
  EXPECT_TRUE(files->Add({.owner = "me"}, "").ok());
  const Status own = files->Append(id, "56");
  EXPECT_EQ(own.code(), StatusCode::kPayloadTooLarge);
  EXPECT_NE(own.message().find("a half of --batch-folder-bytes"), std::string::npos)
      << own.message();
  EXPECT_TRUE(files->Append(id, "5").ok());
  EXPECT_TRUE(files->Add({.owner = "you"}, "12345").ok());
  EXPECT_EQ(files->Add({.owner = "third"}, "1").code(), StatusCode::kPayloadTooLarge);
  ASSERT_TRUE(files->Truncate(id, 1).ok());
  EXPECT_EQ(Files(10)->Add({.owner = "me"}, "12345").code(), StatusCode::kPayloadTooLarge);
  EXPECT_TRUE(files->Add({.owner = "me"}, "1234").ok());
}

TEST_F(StoreTest, WhatACrashHasLeftIsDeleted) {
  (void)Files();
  (void)Batches();
  const std::string file = folder_ + "/files/file-" + std::string(32, 'a');
  const std::string batch = folder_ + "/batches/batch_" + std::string(32, 'b') + ".json.part";
  const std::string other = folder_ + "/files/notes.json";
  for (const std::string& path : {file + ".json", file + ".part", batch, other}) {
    std::ofstream(path) << "{}";
  }
  (void)Files();
  (void)Batches();
  EXPECT_FALSE(fs::exists(file + ".json"));
  EXPECT_FALSE(fs::exists(file + ".part"));
  EXPECT_FALSE(fs::exists(batch));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(StoreTest, WhereThereAreAllFilesThatMayBeTheyStillGrow) {
  const auto files = *FileStore::Open(folder_, 100, 2);
  const std::string id = files->Add({}, "")->id;
  ASSERT_TRUE(files->Add({}, "").ok());
  EXPECT_EQ(files->Add({}, "").code(), StatusCode::kPayloadTooLarge);
  const Status appended = files->Append(id, "abc");
  EXPECT_TRUE(appended.ok()) << appended.ToString();
}

TEST_F(StoreTest, AnOwnerMayHaveAHalfOfTheFiles) {
  const auto store = *FileStore::Open(folder_, 100, 6);
  const auto add = [&](const std::string& owner, const std::string& batch = "") {
    StoredFile file;
    file.owner = owner;
    return store->Add(file, "", batch).code();
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(add("a"), StatusCode::kOk);
  EXPECT_EQ(add("a"), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(add("b"), StatusCode::kOk);
  // A client that removes a file may store another.
  ASSERT_TRUE(store->Remove(store->List("a", "")[0].id, "a").ok());
  EXPECT_EQ(add("a"), StatusCode::kOk);
  EXPECT_EQ(add("a"), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(add(""), StatusCode::kOk);  // of no owner: as long as there is room
  EXPECT_EQ(add(""), StatusCode::kOk);
  const auto full = store->Add({}, "");
  EXPECT_NE(full.status().message().find("there are 6 files"), std::string::npos);
}

TEST_F(StoreTest, PlacesThatAreKeptForABatchAreItsOwn) {
  const auto store = *FileStore::Open(folder_, 100, 6);
  const auto add = [&](const std::string& owner, const std::string& batch = "") {
    StoredFile file;
    file.owner = owner;
    return store->Add(file, "", batch).code();
  };
  ASSERT_TRUE(store->KeepPlaces("batch", "a", 2).ok());
  EXPECT_EQ(store->KeepPlaces("more", "a", 2).code(), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(add("a"), StatusCode::kOk);
  EXPECT_EQ(add("a"), StatusCode::kPayloadTooLarge);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(add("b"), StatusCode::kOk);
  EXPECT_EQ(add(""), StatusCode::kPayloadTooLarge);  // the others are kept
  EXPECT_EQ(add("a", "batch"), StatusCode::kOk);
  EXPECT_EQ(add("a", "batch"), StatusCode::kOk);
  EXPECT_EQ(add("a", "batch"), StatusCode::kPayloadTooLarge);
  store->ReleasePlaces("batch");
  EXPECT_EQ(add(""), StatusCode::kPayloadTooLarge);
  // What was accepted has its places, whatever else is there.
  ASSERT_TRUE(store->Remove(store->List("b", "")[0].id, "b").ok());
  store->KeepPlacesAgain("late", "a", 2);
  EXPECT_EQ(add("b"), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(add("a", "late"), StatusCode::kOk);
  store->ReleasePlaces("late");
  store->ReleasePlaces("late");
  ASSERT_TRUE(store->Remove(store->List("a", "")[0].id, "a").ok());
  EXPECT_EQ(add("b"), StatusCode::kOk);
}

TEST_F(StoreTest, OwnersOfEarlierVersionsAreRenamed) {
  {
    const auto files = Files();
    const auto batches = Batches();
    StoredFile file;
    file.owner = "old";
    ASSERT_TRUE(files->Add(file, "text").ok());
    Batch batch;
    batch.owner = "old";
    ASSERT_TRUE(batches->Add(batch).ok());
    const auto owner_of = [](const std::string& owner) {
      return owner == "old" ? std::string("new") : owner;
    };
    ASSERT_TRUE(files->ChangeOwners(owner_of).ok());
    ASSERT_TRUE(batches->ChangeOwners(owner_of).ok());
    EXPECT_EQ(files->List("new", "").size(), 1u);
    EXPECT_TRUE(files->List("old", "").empty());
    // The room goes with them: 50 bytes are the half of an owner.
    file.owner = "new";
    EXPECT_EQ(files->Add(file, std::string(47, 'x')).code(), StatusCode::kPayloadTooLarge);
    file.owner = "old";
    EXPECT_TRUE(files->Add(file, std::string(47, 'x')).ok());
  }
  EXPECT_EQ(Files()->List("new", "").size(), 1u);
  EXPECT_EQ(Batches()->List("new").size(), 1u);
}

TEST_F(StoreTest, OthersMayNotEnterTheFolders) {
  fs::create_directories(folder_ + "/files");
  fs::permissions(folder_ + "/files", fs::perms::all);
  Files();
  Batches();
  for (const char* name : {"/files", "/batches"}) {
    EXPECT_EQ(fs::status(folder_ + name).permissions(), fs::perms::owner_all) << name;
  }
}

TEST_F(StoreTest, AKeyOfOwnersIsMadeOnce) {
  fs::create_directories(folder_);
  const auto key = OwnerKey::Open(folder_);
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  const std::string id = key->IdOf("name");
  EXPECT_EQ(id.size(), std::string("owner-").size() + 64);
  EXPECT_FALSE(OwnerKey::IsName(id));
  EXPECT_TRUE(OwnerKey::IsName("name"));
  EXPECT_FALSE(OwnerKey::IsName(""));
  EXPECT_EQ(key->IdOf(""), "");
  EXPECT_NE(key->IdOf("other"), id);
  EXPECT_EQ(OwnerKey::Open(folder_)->IdOf("name"), id);
  const std::string path = folder_ + "/owner-key";
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::remove(path);
  EXPECT_NE(OwnerKey::Open(folder_)->IdOf("name"), id);
  fs::resize_file(path, 5);
  EXPECT_EQ(OwnerKey::Open(folder_).code(), StatusCode::kUnavailable);
}

TEST_F(StoreTest, OwnersTakeTurns) {
  const auto batches = Batches();
  std::map<std::string, std::string> ids;
  for (const char* owner : {"a", "b", "c"}) {
    Batch batch;
    batch.owner = owner;
    ids[owner] = batches->Add(batch)->id;
  }
  std::map<std::string, uint64_t> turns = {{"a", 3}, {"b", 1}, {"c", 2}};
  const auto next = [&] {
    return batches
        ->NextToRun([](const Batch&) { return true; },
                    [&](const Batch& batch) { return turns[batch.owner]; })
        .owner;
  };
  EXPECT_EQ(next(), "b");
  turns["b"] = 4;
  EXPECT_EQ(next(), "c");
  turns["a"] = 0;
  EXPECT_EQ(next(), "a");
}

TEST_F(StoreTest, OfALineThatCannotBeWrittenNothingIsLeft) {
  const auto files = Files(10);
  const std::string id = files->Add({}, "12345")->id;
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit eight = {8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &eight), 0);
  const Status appended = files->Append(id, "67890");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old);
  EXPECT_EQ(appended.code(), StatusCode::kUnavailable);
  EXPECT_EQ(fs::file_size(folder_ + "/files/" + id), 5u);
  EXPECT_TRUE(files->Append(id, "abcde").ok());  // and its room is free
  EXPECT_EQ(*ReadRegularFile(files->PathOf(id), 10), "12345abcde");
}

Batch OfOwner(const char* owner) {
  Batch batch;
  batch.owner = owner;
  return batch;
}

TEST_F(StoreTest, AnOwnerHasABoundAndForgetsItsOwnBatchesFirst) {
  (void)Batches();
  size_t number = 0;
  const auto write = [&](const char* owner, size_t count, const char* status) {
    for (size_t i = 0; i < count; ++i) {
      const std::string id = fmt::format("batch_{:032x}", number++);
      std::ofstream(folder_ + "/batches/" + id + ".json")
          << R"({"owner":")" << owner << R"(","batch":{"id":")" << id << R"(","status":")" << status
          << R"(","endpoint":"/v1/embeddings","input_file_id":"file-1","created_at":)" << number
          << R"(,"request_counts":{"total":0,"completed":0,"failed":0}}})";
    }
  };
  write("waits", BatchStore::kWaitingMax, "in_progress");
  write("old", 100, "completed");
  write("new", BatchStore::kBatchesMax - 100 - BatchStore::kWaitingMax, "failed");
  const auto batches = Batches();
  const auto add = [&](const char* owner) { return batches->Add(OfOwner(owner)); };
  EXPECT_EQ(add("waits").code(), StatusCode::kResourceExhausted);
  const size_t count = batches->List("new").size();
  ASSERT_TRUE(add("new").ok());  // for the oldest of its own
  EXPECT_EQ(batches->List("new").size(), count);
  EXPECT_EQ(batches->List("old").size(), 100u);
  ASSERT_TRUE(add("other").ok());  // for the oldest of all
  EXPECT_EQ(batches->List("old").size(), 99u);
}

// The next batch of any owner.
Batch NextOf(const BatchStore& batches) {
  return batches.NextToRun([](const Batch&) { return true; });
}

TEST_F(StoreTest, BatchesAreThereAfterARestart) {
  std::string id;
  {
    const auto batches = Batches();
    Batch batch;
    batch.owner = "me";
    batch.endpoint = "/v1/embeddings";
    batch.input_file_id = "file-1";
    batch.metadata = R"({"a":"b"})";
    id = batches->Add(batch)->id;
    ASSERT_TRUE(batches
                    ->Update(id, true,
                             [](Batch* each) {
                               each->status = BatchStatus::kFailed;
                               each->failed = 7;
                               each->lines = 3;
                               each->errors = {{"code", "message", "param", 2}, {"c", "m", "", 0}};
                             })
                    .ok());
  }
  std::ofstream(folder_ + "/batches/batch_" + std::string(32, 'b') + ".json") << "{";
  const auto batches = Batches();
  const auto batch = batches->Get(id, "me");
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->status, BatchStatus::kFailed);
  EXPECT_EQ(batch->failed, 7);
  EXPECT_EQ(batch->lines, 3);
  EXPECT_EQ(batch->metadata, R"({"a":"b"})");
  ASSERT_EQ(batch->errors.size(), 2u);
  EXPECT_EQ(batch->errors[0].line, 2);
  EXPECT_EQ(batch->errors[1].param, "");
  EXPECT_EQ(batches->Get(id, "you").code(), StatusCode::kNotFound);
  EXPECT_EQ(batches->List("me").size(), 1u);
  EXPECT_EQ(NextOf(*batches).id, "");
}

TEST_F(StoreTest, TheOldestRunsNext) {
  const auto batches = Batches();
  const std::string first = batches->Add({})->id;
  const std::string second = batches->Add({})->id;
  (void)batches->Update(second, false, [](Batch* batch) { batch->created += 5; });
  EXPECT_EQ(NextOf(*batches).id, first);
  (void)batches->Update(first, false,
                        [](Batch* batch) { batch->status = BatchStatus::kCancelled; });
  EXPECT_EQ(NextOf(*batches).id, second);
}

TEST_F(StoreTest, ABatchOfAnOwnerWhoMayNotRunOneWaits) {
  const auto batches = Batches();
  const std::string first = batches->Add(OfOwner("me"))->id;
  const std::string second = batches->Add(OfOwner("you"))->id;
  (void)batches->Update(second, false, [](Batch* batch) { batch->created += 5; });
  const auto except = [&](const std::string& owner) {
    return batches->NextToRun([&](const Batch& each) { return each.owner != owner; }).id;
  };
  EXPECT_EQ(except("nobody"), first);
  EXPECT_EQ(except("me"), second);
}

// A folder stands where the new state is written: EISDIR.
TEST_F(StoreTest, AStateThatCannotBeSavedIsNotTaken) {
  const auto batches = Batches();
  const std::string id = batches->Add(OfOwner("me"))->id;
  const std::string part = folder_ + "/batches/" + id + ".json.part";
  const auto complete = [&] {
    return batches->Update(id, true, [](Batch* batch) { batch->status = BatchStatus::kCompleted; });
  };
  ASSERT_TRUE(fs::create_directory(part));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(complete().code(), StatusCode::kUnavailable);
    EXPECT_EQ(batches->Get(id, "me")->status, BatchStatus::kValidating);
    EXPECT_EQ(NextOf(*batches).id, id);  // so that it is tried again
  }
  fs::remove(part);
  EXPECT_TRUE(complete().ok());
  EXPECT_EQ(NextOf(*batches).id, "");
  EXPECT_EQ(Batches()->Get(id, "me")->status, BatchStatus::kCompleted);
}

TEST_F(StoreTest, ABatchThatCannotBeSavedTakesNoOnesPlace) {
  (void)Batches();
  for (size_t i = 0; i < BatchStore::kBatchesMax; ++i) {
    const std::string id = fmt::format("batch_{:032x}", i);
    std::ofstream(folder_ + "/batches/" + id + ".json")
        << R"({"owner":"me","batch":{"id":")" << id << R"(","status":"completed","created_at":1,)"
        << R"("endpoint":"/v1/embeddings","input_file_id":"file-1",)"
        << R"("request_counts":{"total":0,"completed":0,"failed":0}}})";
  }
  const auto batches = Batches();
  // The content cannot be written, then the folder.
  for (const bool fails_for_folder : {false, true}) {
    on_sync = [&](bool folder) { return folder == fails_for_folder ? ENOSPC : 0; };
    EXPECT_EQ(batches->Add(OfOwner("me")).code(), StatusCode::kUnavailable);
    on_sync = nullptr;
    EXPECT_EQ(batches->List("me").size(), BatchStore::kBatchesMax);
    EXPECT_EQ(Batches()->List("me").size(), BatchStore::kBatchesMax);
  }
  ASSERT_TRUE(batches->Add(OfOwner("me")).ok());
  EXPECT_EQ(Batches()->List("me").size(), BatchStore::kBatchesMax);
}

// The disk hangs in the middle of a change; readers do not.
TEST_F(StoreTest, ReadersDoNotWaitForTheDisk) {
  const auto batches = Batches();
  const std::string id = batches->Add(OfOwner("me"))->id;
  std::mutex mutex;
  std::condition_variable changed;
  bool hangs = false, read = false, timed_out = false;
  on_sync = [&](bool) {
    std::unique_lock lock(mutex);
    hangs = true;
    changed.notify_all();
    timed_out =
        timed_out || !changed.wait_for(lock, std::chrono::seconds(20), [&] { return read; });
    return 0;
  };
  std::thread writer([&] {
    EXPECT_TRUE(
        batches->Update(id, true, [](Batch* batch) { batch->status = BatchStatus::kInProgress; })
            .ok());
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return hangs; });
  }
  EXPECT_EQ(batches->List("me").size(), 1u);
  EXPECT_EQ(batches->Get(id, "me")->status, BatchStatus::kValidating);  // until it is saved
  EXPECT_EQ(NextOf(*batches).id, id);
  EXPECT_FALSE(batches->Uses("file-1"));
  {
    const std::lock_guard lock(mutex);
    read = true;
    changed.notify_all();
  }
  writer.join();
  EXPECT_FALSE(timed_out);
  EXPECT_EQ(batches->Get(id, "me")->status, BatchStatus::kInProgress);
}

TEST_F(StoreTest, ADeletedFileIsGoneAfterALossOfPowerToo) {
  const auto files = Files();
  const std::string id = files->Add({.owner = "me"}, "abc")->id;
  bool written_after = false;
  on_sync = [&](bool folder) {
    const std::string path = folder_ + "/files/" + id;
    if (folder) written_after = !fs::exists(path) && !fs::exists(path + ".json");
    return 0;
  };
  ASSERT_TRUE(files->Remove(id, "me").ok());
  EXPECT_TRUE(written_after);
  const std::string second = files->Add({.owner = "me"}, "abc")->id;
  on_sync = [](bool) { return EIO; };
  EXPECT_EQ(files->Remove(second, "me").code(), StatusCode::kUnavailable);
  on_sync = nullptr;
  EXPECT_TRUE(files->Add({}, std::string(100, 'x')).ok());  // its room is free
}

TEST_F(StoreTest, EmptyFilesThatNoBatchNamesAreRemoved) {
  const auto files = Files();
  const auto batches = Batches();
  const auto add = [&](const char* purpose, const char* content) {
    StoredFile file;
    file.purpose = purpose;
    file.owner = "me";
    return files->Add(std::move(file), content)->id;
  };
  const std::string orphan = add(kBatchOutputPurpose, ""), named = add(kBatchOutputPurpose, "");
  const std::string filled = add(kBatchOutputPurpose, "x"), upload = add("batch", "");
  Batch batch = OfOwner("me");
  batch.output_file_id = named;
  ASSERT_TRUE(batches->Add(std::move(batch)).ok());
  RemoveUnusedOutputs(files.get(), *batches);
  EXPECT_EQ(files->Get(orphan, "me").code(), StatusCode::kNotFound);
  for (const std::string& id : {named, filled, upload}) EXPECT_TRUE(files->Get(id, "me").ok());
}

}  // namespace
}  // namespace penstock::jobs
