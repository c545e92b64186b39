// FileStore and BatchStore: what they keep, over a restart too, and what they refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "jobs/batch_store.h"
#include "jobs/file_store.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("penstock_jobs_" + std::to_string(getpid()))).string();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

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

  std::string folder_;
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
  EXPECT_EQ(*files->Read(id, "me", 100), "abcdef\n");
  EXPECT_EQ(files->Read(id, "me", 6).code(), StatusCode::kPayloadTooLarge);
  ASSERT_TRUE(files->Truncate(id, 2).ok());
  EXPECT_EQ(*files->Read(id, "me", 100), "ab");
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
  EXPECT_EQ(files->Read(id, "you", 100).code(), StatusCode::kNotFound);
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
  EXPECT_EQ(*files->Read(id, "", 10), "12345abcde");
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
  return batches.NextToRun([](const std::string&) { return true; });
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
    return batches->NextToRun([&](const std::string& each) { return each != owner; }).id;
  };
  EXPECT_EQ(except("nobody"), first);
  EXPECT_EQ(except("me"), second);
}

}  // namespace
}  // namespace penstock
