// GGUF repositories, parallel ranges, and what the cache says of both.
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <thread>

#include "base/temp_folder_test_util.h"
#include "hub/cache.h"
#include "hub/environment.h"
#include "hub/hub_test_util.h"
#include "hub/inventory.h"
#include "hub/partial_file.h"
#include "os/file_lock.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Noise(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  for (char& c : text) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return text;
}

class HubGgufTest : public HubTest {
 protected:
  void SetUp() override {
    HubTest::SetUp();
    hub_.files = {{"x-Q8_0.gguf", Noise(100'000, 1)},
                  {"x-Q4_K_M.gguf", Noise(50'000, 2)},
                  {"big/x-F16-00001-of-00002.gguf", Noise(70'000, 3)},
                  {"big/x-F16-00002-of-00002.gguf", Noise(60'000, 4)},
                  {"mmproj-x-F16.gguf", "no"},
                  {"README.md", "no"}};
    options_.ranges.file_bytes_min = 100'000;
    options_.ranges.segment_bytes = 10'000;
  }
  std::string Path(const std::string& file) const { return (Snapshot() / file).string(); }
  fs::path Blob(const std::string& file) const {
    return Repository() / "blobs" / Sha256Hex(hub_.files.at(file));
  }
  std::vector<std::string> References() const {
    std::vector<std::string> names;
    for (const CachedModel& model : ListCachedModels(options_.cache_root)) {
      names.push_back(model.reference + " " + model.format + (model.complete ? "" : "!"));
    }
    return names;
  }
  Status RemoveModel(const std::string& text) const {
    const auto removal = PlanRemoval(options_.cache_root, *ModelReference::ParseHub(text),
                                     text.find('@') != std::string::npos);
    return removal.ok() ? Remove(*removal) : removal.status();
  }
};

TEST_F(HubGgufTest, OneQuantisationIsFetched) {
  const auto path = ResolveModel("acme/tiny", options_);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_EQ(*path, Path("x-Q4_K_M.gguf"));
  EXPECT_EQ(Text(*path), hub_.files["x-Q4_K_M.gguf"]);
  EXPECT_FALSE(fs::exists(Path("x-Q8_0.gguf")));
  EXPECT_FALSE(fs::exists(Path("README.md")));
  size_t requests = server_->log().size();
  // The kept list of files says that this is the one; nothing is asked.
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Path("x-Q4_K_M.gguf"));
  EXPECT_EQ(*ResolveModel("acme/tiny:q4_k_m", options_), Path("x-Q4_K_M.gguf"));
  EXPECT_EQ(server_->log().size(), requests);
  EXPECT_EQ(*ResolveModel("acme/tiny:Q8_0", options_), Path("x-Q8_0.gguf"));
  EXPECT_EQ(*ResolveModel("acme/tiny/x-Q8_0.gguf@main", options_), Path("x-Q8_0.gguf"));
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Path("x-Q4_K_M.gguf"));
  EXPECT_EQ(Failure("acme/tiny:Q9").message(),
            "cannot get acme/tiny:Q9: quantisation 'Q9' is not there; acme/tiny has: Q4_K_M, Q8_0, "
            "F16");
  EXPECT_THAT(References(), ElementsAre("acme/tiny:Q4_K_M gguf", "acme/tiny:Q8_0 gguf"));
  EXPECT_EQ(CommitOfPath(*path), kCommit);
}

TEST_F(HubGgufTest, SplitFilesComeWhole) {
  const std::string first = "big/x-F16-00001-of-00002.gguf";
  EXPECT_EQ(*ResolveModel("acme/tiny:F16", options_), Path(first));
  EXPECT_EQ(Text(Path("big/x-F16-00002-of-00002.gguf")),
            hub_.files["big/x-F16-00002-of-00002.gguf"]);
  fs::remove(Path("big/x-F16-00002-of-00002.gguf"));
  EXPECT_THAT(References(), ElementsAre("acme/tiny:F16 gguf!"));
  options_.offline = true;
  EXPECT_THAT(Failure("acme/tiny:F16").message(), HasSubstr("lacks big/x-F16-00002-of-00002.gguf"));
  options_.offline = false;
  EXPECT_EQ(*ResolveModel("acme/tiny:F16", options_), Path(first));
}

TEST_F(HubGgufTest, OtherProgramsSnapshots) {
  Write(Repository() / "refs" / "main", kCommit);
  Write(Snapshot() / "x-Q8_0.gguf", "GGUF");
  options_.offline = true;
  EXPECT_EQ(*ResolveModel("acme/tiny:Q8_0", options_), Path("x-Q8_0.gguf"));
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Path("x-Q8_0.gguf"));
  EXPECT_THAT(Failure("acme/tiny:Q4_K_M").message(),
              HasSubstr("acme/tiny@main has no acme/tiny:Q4_K_M (but Q8_0) in the cache"));
  options_.offline = false;
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Path("x-Q4_K_M.gguf"));
}

TEST_F(HubGgufTest, NoAutoPullSaysWhatToType) {
  options_.auto_pull = false;
  EXPECT_THAT(Failure("acme/tiny:Q8_0@v2").message(),
              HasSubstr("switched off (--no-auto-pull); get it with: penstock pull "
                        "acme/tiny:Q8_0@v2; or"));
  EXPECT_THAT(server_->log(), IsEmpty());
  SetAutoPull(false);
  options_.auto_pull.reset();
  EXPECT_EQ(Failure("acme/tiny").code(), StatusCode::kNotFound);
  SetAutoPull(true);
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
}

TEST_F(HubGgufTest, TokenizersTakeAnyGgufThatIsHere) {
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  options_.tokenizer_only = true;
  const size_t requests = server_->log().size();
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Path("x-Q8_0.gguf"));
  EXPECT_EQ(server_->log().size(), requests);
}

TEST_F(HubGgufTest, LargeFilesComeInRanges) {
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  EXPECT_EQ(hub_.ranges.size(), 10u);
  std::sort(hub_.ranges.begin(), hub_.ranges.end());
  EXPECT_EQ(hub_.ranges[0], "bytes=0-9999");
  EXPECT_EQ(hub_.ranges[9], "bytes=90000-99999");
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf").string() + ".ranges"));
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf").string() + ".ranges.state"));
}

TEST_F(HubGgufTest, ACutRangeGoesOnWhereItStopped) {
  hub_.cut_once_after = 4'000;
  hub_.too_many = 2;
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  EXPECT_EQ(hub_.ranges.size(), 11u);
  EXPECT_EQ(std::count_if(
                hub_.ranges.begin(), hub_.ranges.end(),
                [](const std::string& range) { return range.find("4000-") != std::string::npos; }),
            1);
}

TEST_F(HubGgufTest, AStallIsGivenUpAndTriedAgain) {
  options_.http.stall_timeout_s = 1;
  for (const char* reference : {"acme/tiny:Q8_0", "acme/tiny:Q4_K_M"}) {
    hub_.cut_once_after = 4'000;
    hub_.pause_once_ms = 2'500;  // of all connections: the server answers one after the other
    const auto got = ResolveModel(reference, options_);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
  }
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  EXPECT_EQ(Text(Path("x-Q4_K_M.gguf")), hub_.files["x-Q4_K_M.gguf"]);
  // While nothing comes a download can still be given up.
  hub_.cut_once_after = 4'000;
  hub_.pause_once_ms = 4'000;
  options_.http.stall_timeout_s = 60;
  const auto start = std::chrono::steady_clock::now();
  options_.progress = [&](const HubProgress&) {
    return std::chrono::steady_clock::now() - start < std::chrono::seconds(1);
  };
  EXPECT_EQ(Failure("acme/tiny:F16").code(), StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

TEST_F(HubGgufTest, APrefixOfAnotherProgramCounts) {
  const std::string& whole = hub_.files["x-Q8_0.gguf"];
  Write(Blob("x-Q8_0.gguf").string() + ".incomplete", whole.substr(0, 34'567));
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), whole);
  std::sort(hub_.ranges.begin(), hub_.ranges.end());
  EXPECT_EQ(hub_.ranges.front(), "bytes=34567-39999");
  EXPECT_EQ(hub_.ranges.size(), 7u);
}

TEST_F(HubGgufTest, ADownloadThatWasGivenUpAsksForTheRestOnly) {
  options_.progress = [](const HubProgress& progress) { return progress.bytes_done < 30'000; };
  EXPECT_EQ(Failure("acme/tiny:Q8_0").code(), StatusCode::kCancelled);
  EXPECT_TRUE(fs::exists(Blob("x-Q8_0.gguf").string() + ".ranges.state"));
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf").string() + ".incomplete"));
  EXPECT_THAT(References(), ElementsAre("acme/tiny partial!"));
  auto partial = *PartialFile::Open(Blob("x-Q8_0.gguf").string() + ".ranges", 100'000, 10'000);
  const uint64_t done = partial.bytes_done();
  EXPECT_GE(done, 30'000u);
  // The server may still have requests of the first call.
  server_.reset();
  server_.emplace([this](const Request& request) { return hub_(request); });
  options_.endpoint = server_->url();
  hub_.ranges.clear();
  options_.progress = nullptr;
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  uint64_t asked = 0;
  for (const std::string& range : hub_.ranges) {
    const size_t dash = range.find('-');
    asked += std::stoul(range.substr(dash + 1)) - std::stoul(range.substr(6)) + 1;
  }
  EXPECT_EQ(asked, 100'000 - done);
}

TEST_F(HubGgufTest, WithoutRangesOneStream) {
  hub_.ignore_ranges = true;
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf").string() + ".ranges"));
}

TEST_F(HubGgufTest, CorruptBytesAreFetchedOnceMore) {
  hub_.wrong_weights = Noise(100'000, 9);
  hub_.wrong_times = 10;  // every range of the first attempt
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
  fs::remove_all(options_.cache_root);
  hub_.wrong_times = 1000;
  EXPECT_THAT(Failure("acme/tiny:Q8_0").message(), HasSubstr("SHA-256"));
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf")));
}

TEST_F(HubGgufTest, AnotherLengthThanAnnounced) {
  for (const size_t bytes : {99'999, 100'001}) {
    hub_.wrong_times = 1000;
    hub_.wrong_weights = Noise(bytes, 1);
    EXPECT_THAT(Failure("acme/tiny:Q8_0").message(),
                HasSubstr("says the file has " + std::to_string(bytes) + " bytes, before it said"));
    options_.ranges.connections = 1;
    fs::remove_all(options_.cache_root);
    EXPECT_FALSE(ResolveModel("acme/tiny:Q8_0", options_).ok());
    EXPECT_GT(hub_.wrong_times, 900);  // given up soon
    options_.ranges.connections = 4;
    fs::remove_all(options_.cache_root);
  }
}

TEST_F(HubGgufTest, AFullDiskIsNamed) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little = {40'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  const Status ranges = Failure("acme/tiny:Q8_0");
  const Status stream = Failure("acme/tiny:Q4_K_M");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(ranges.message(), HasSubstr(".ranges: File too large"));
  EXPECT_THAT(stream.message(), HasSubstr(".incomplete: File too large"));
  ASSERT_TRUE(ResolveModel("acme/tiny:Q8_0", options_).ok());
  ASSERT_TRUE(ResolveModel("acme/tiny:Q4_K_M", options_).ok());
  EXPECT_EQ(Text(Path("x-Q8_0.gguf")), hub_.files["x-Q8_0.gguf"]);
}

TEST_F(HubGgufTest, RoomIsCheckedBefore) {
  TinyServer server([&](const Request& request) {
    Response response = hub_(request);
    for (std::string& header : response.headers) {
      if (header.starts_with("X-Linked-Size")) header = "X-Linked-Size: 900000000000000";
    }
    return response;
  });
  options_.endpoint = server.url();
  const Status status = Failure("acme/tiny:Q8_0");
  EXPECT_THAT(status.message(), HasSubstr("acme/tiny needs 900000.00 GB more in " +
                                          options_.cache_root + ", where "));
  for (const std::string& line : server.log()) EXPECT_THAT(line, Not(HasSubstr("/cdn/")));
}

TEST_F(HubGgufTest, GatedRepositoriesSayWhatToDo) {
  TinyServer server([](const Request&) {
    return Response{403, {"X-Error-Code: GatedRepo"}, "", {}};
  });
  options_.endpoint = server.url();
  EXPECT_THAT(Failure("acme/tiny").message(),
              HasSubstr("it is gated: accept its licence at " + server.url() +
                        "/acme/tiny, then set HF_TOKEN to a token of that account"));
}

TEST_F(HubGgufTest, ListsWithPathsThatLeadOutAreRefused) {
  hub_.files["../../x.gguf"] = "evil";
  EXPECT_THAT(Failure("acme/tiny").message(),
              HasSubstr("'../../x.gguf' is not a path inside a repository; nothing is downloaded"));
  EXPECT_FALSE(fs::exists(Repository()));
}

TEST_F(HubGgufTest, AnotherProcessIsWaitedFor) {
  const std::string lock_path = (fs::path(options_.cache_root) / ".locks" / "models--acme--tiny" /
                                 (Sha256Hex(hub_.files["x-Q4_K_M.gguf"]) + ".lock"))
                                    .string();
  std::optional<FileLock> lock(*std::move(*FileLock::Try(lock_path)));
  int asked = 0;
  options_.progress = [&](const HubProgress&) { return ++asked < 20; };
  EXPECT_EQ(Failure("acme/tiny").code(), StatusCode::kCancelled);
  options_.progress = nullptr;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the lock is waited for
    lock.reset();
  });
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
  other.join();
}

TEST_F(HubGgufTest, RemovingLeavesWhatOthersHave) {
  for (const char* text : {"acme/tiny:Q8_0", "acme/tiny:Q4_K_M"}) {
    ASSERT_TRUE(ResolveModel(text, options_).ok());
  }
  // A second snapshot with one of the files.
  const std::string other(40, 'a');
  const RepositoryCache cache(options_.cache_root, *ModelReference::ParseHub("acme/tiny"));
  ASSERT_TRUE(cache.Link(other, "x-Q8_0.gguf", Sha256Hex(hub_.files["x-Q8_0.gguf"])).ok());
  EXPECT_EQ(RemoveModel("acme/tiny:F16").message(),
            "acme/tiny:F16 is not in the cache " + options_.cache_root +
                "; there is acme/tiny:Q4_K_M, acme/tiny:Q8_0, acme/tiny:Q8_0");
  ASSERT_TRUE(RemoveModel("acme/tiny@main").ok());
  EXPECT_FALSE(fs::exists(Snapshot()));
  EXPECT_FALSE(fs::exists(Repository() / "refs" / "main"));
  EXPECT_FALSE(fs::exists(Blob("x-Q4_K_M.gguf")));
  EXPECT_TRUE(fs::exists(Blob("x-Q8_0.gguf")));
  ASSERT_TRUE(ResolveModel("acme/tiny:Q4_K_M", options_).ok());
  ASSERT_TRUE(RemoveModel("acme/tiny:q8_0").ok());
  EXPECT_FALSE(fs::exists(Blob("x-Q8_0.gguf")));
  EXPECT_THAT(References(), ElementsAre("acme/tiny:Q4_K_M gguf"));
  ASSERT_TRUE(RemoveModel("acme/tiny").ok());
  EXPECT_FALSE(fs::exists(Repository()));
  EXPECT_EQ(RemoveModel("acme/tiny").code(), StatusCode::kNotFound);
}

TEST_F(HubGgufTest, NothingIsRemovedUnderALock) {
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  const std::string lock_path = (fs::path(options_.cache_root) / ".locks" / "models--acme--tiny" /
                                 (Sha256Hex(hub_.files["x-Q4_K_M.gguf"]) + ".lock"))
                                    .string();
  const auto lock = FileLock::Try(lock_path);
  for (const char* text : {"acme/tiny", "acme/tiny:Q4_K_M"}) {
    EXPECT_THAT(RemoveModel(text).message(), HasSubstr("another process is downloading"));
  }
  EXPECT_TRUE(fs::exists(Path("x-Q4_K_M.gguf")));
}

// A link that leads out of the repository: what it leads to stays.
TEST_F(HubGgufTest, RemovingFollowsNoLinkOut) {
  const fs::path outside = folder_ / "precious.gguf";
  Write(outside, "GGUF");
  fs::create_directories(Snapshot());
  fs::create_symlink(outside, Snapshot() / "x-Q8_0.gguf");
  ASSERT_TRUE(RemoveModel("acme/tiny:Q8_0").ok());
  EXPECT_FALSE(fs::is_symlink(Snapshot() / "x-Q8_0.gguf"));
  EXPECT_TRUE(fs::exists(outside));
}

TEST_F(HubGgufTest, DescribedBeforeAnythingIsFetched) {
  const auto reference = *ModelReference::ParseHub("acme/tiny:F16");
  auto facts = DescribeReference(reference, options_);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->format, "gguf");
  EXPECT_EQ(facts->files.size(), 2u);
  EXPECT_FALSE(facts->files[0].cached);
  EXPECT_EQ(facts->quantisations.size(), 3u);
  ASSERT_TRUE(ResolveModel("acme/tiny:F16", options_).ok());
  options_.offline = true;
  facts = DescribeReference(reference, options_);
  EXPECT_TRUE(facts->from_cache);
  EXPECT_TRUE(facts->files[1].cached);
  EXPECT_EQ(facts->files[1].bytes, 60'000u);
}

TEST_F(HubGgufTest, TheTokenOfTheTokenFile) {
  EXPECT_EQ(HubToken(), "");
  Write(folder_ / ".cache" / "huggingface" / "token", "hf_file\n");
  EXPECT_EQ(HubToken(), "hf_file");
  ::setenv("HF_TOKEN", " hf_variable ", 1);
  EXPECT_EQ(HubToken(), "hf_variable");
  ::setenv("HF_TOKEN", "hf\r\nX: y", 1);
  EXPECT_EQ(HubToken(), "");
  ::unsetenv("HF_TOKEN");
  ::setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
  EXPECT_EQ(HubToken(), "");
  ::unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
}

TEST(PartialFile, NotesThatDoNotFitAreNotTaken) {
  const TempFolder folder;
  const std::string path = folder / "partial_file";
  {
    auto file = *PartialFile::Open(path, 1000, 300);
    EXPECT_EQ(file.segments(), 4u);
    EXPECT_EQ(file.Rest(3), std::make_pair(uint64_t{900}, uint64_t{1000}));
    ASSERT_TRUE(file.Write(0, std::string(300, 'a').data(), 300).ok());
    ASSERT_TRUE(file.Write(1, "bb", 2).ok());
    ASSERT_TRUE(file.Write(3, "c", 1).ok());
    EXPECT_EQ(file.Prefix(), 302u);
  }
  EXPECT_EQ(PartialFile::Open(path, 1000, 400)->bytes_done(), 303u);
  std::string note;
  {
    std::ifstream in(path + ".state", std::ios::binary);
    note.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto with_note = [&](const std::string& text) {
    std::ofstream(path + ".state", std::ios::binary | std::ios::trunc) << text;
    return PartialFile::Open(path, 1000, 400)->bytes_done();
  };
  EXPECT_EQ(with_note(note), 303u);
  EXPECT_EQ(PartialFile::Open(path, 999, 400)->bytes_done(), 0u);  // another file
  for (size_t i = 0; i < note.size(); ++i) {
    std::string changed = note;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << std::string(303, 'x');
    EXPECT_LE(with_note(changed), 303u) << i;
    EXPECT_EQ(with_note(note.substr(0, i)), 0u);
  }
  PartialFile::Remove(path);
}

}  // namespace
}  // namespace penstock::hub
