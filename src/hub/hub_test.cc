#include "hub/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/hub_test_util.h"
#include "hub/inventory.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(ModelReference, Forms) {
  const auto main = *ModelReference::Parse("sentence-transformers/all-MiniLM-L6-v2");
  EXPECT_EQ(main.repository(), "sentence-transformers/all-MiniLM-L6-v2");
  EXPECT_EQ(main.revision, "main");
  EXPECT_EQ(main.quantisation + main.file, "");
  EXPECT_FALSE(main.local());
  EXPECT_EQ(ModelReference::Parse("a/b@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_TRUE(ModelReference::Parse("/tmp")->local());
  for (const char* text : {"/no/such/folder", "./none", "../none", "~/none-at-all"}) {
    EXPECT_EQ(ModelReference::Parse(text).status().code(), StatusCode::kNotFound) << text;
  }
  for (const std::string text :
       {"", "name", "a/b/c", "a/", "a/..", "a/b@", "a/b@..", "a/b@/x", "a/b@x/", "a b/c", "-a/b",
        "a/b.", "a--b/c", "a/b@x y", "a/b\n", "https://x/y"}) {
    EXPECT_FALSE(ModelReference::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(ModelReference::Parse(std::string(5000, 'a')).ok());
  EXPECT_FALSE(ModelReference::Parse(std::string("a/b\0c", 5)).ok());
}

TEST(ModelReference, QuantisationsAndFiles) {
  for (const char* text : {"a/b:q8_0@v1", "a/b@v1:Q8_0"}) {
    const auto both = *ModelReference::Parse(text);
    EXPECT_EQ(both.repository(), "a/b");
    EXPECT_EQ(both.quantisation, "Q8_0");
    EXPECT_EQ(both.revision, "v1");
    EXPECT_EQ(both.Short(), "a/b:Q8_0");
    EXPECT_EQ(both.Text(), "a/b:Q8_0@v1");
  }
  EXPECT_EQ(ModelReference::Parse("a/b:UD-Q4_K_XL")->Text(), "a/b:UD-Q4_K_XL");
  EXPECT_EQ(ModelReference::Parse("a/b@refs/pr/1:Q4_0")->revision, "refs/pr/1");
  const auto file = *ModelReference::Parse("a/b/Q8_0/x y.GGUF@v1");
  EXPECT_EQ(file.repository(), "a/b");
  EXPECT_EQ(file.file, "Q8_0/x y.GGUF");
  EXPECT_EQ(file.Short(), "a/b/Q8_0/x y.GGUF");
  const std::pair<const char*, const char*> kRefused[] = {
      {"a/b:", "'' after ':' is not a quantisation"},
      {"a/b:Q4:Q8", "two quantisations"},
      {"a/b@x@y", "two revisions"},
      {"a/b:Q 4", "is not a quantisation"},
      {"a/b:../x", "is not a quantisation"},
      {"a:b/c", "a repository is written owner/name"},
      {"a/b/c.bin", "'c.bin' after the repository is not a .gguf file"},
      {"a/b/../c.gguf", "is not a .gguf file"},
      {"a/b//c.gguf", "is not a .gguf file"},
      {"a/b/c\\d.gguf", "is not a .gguf file"},
      {"a/b/c.gguf:Q4_0", "a file and a quantisation"},
      {"https://example.com/a/b", "it is a URL"},
      {"https://huggingface.co/a", "a repository is written owner/name"},
      {"https://huggingface.co/a/b/blob/main/c.bin", "'c.bin' after the repository"},
      {"hf.co/", "a repository is written owner/name"},
      {"www.huggingface.co/hf.co/a@main", "an owner cannot have the name of the hub's host"},
      {"llama3.2", "owner/name, such as bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
      {"all-minilm:latest", "such as sentence-transformers/all-MiniLM-L6-v2"},
      {"x.gguf", "a repository is written owner/name"},
  };
  for (const auto& [text, said] : kRefused) {
    const Status status = ModelReference::Parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(said)) << text;
    EXPECT_THAT(status.message(), HasSubstr("owner/name:QUANT")) << text;
  }
  EXPECT_THAT(ModelReference::Parse("/tmp:Q4_0").status().message(), HasSubstr("is for the hub"));
  EXPECT_THAT(ModelReference::Parse("/tmp/none-such.gguf").status().message(),
              HasSubstr("no model file"));
}

TEST(ModelReference, AnAddressOfTheHubIsTakenAsItIsCopied) {
  const std::pair<const char*, const char*> kTaken[] = {
      {"hf.co/a/b", "a/b"},
      {"huggingface.co/a/b:q8_0", "a/b:Q8_0"},
      {"https://huggingface.co/a/b", "a/b"},
      {"https://hf.co/a/b/", "a/b"},
      {"https://huggingface.co/a/b/tree/main", "a/b"},
      {"https://huggingface.co/a/b/tree/refs/pr/1", "a/b@refs/pr/1"},
      {"https://huggingface.co/a/b/blob/v1/Q8_0/c.gguf", "a/b/Q8_0/c.gguf@v1"},
      {"https://huggingface.co/a/b/resolve/main/c.gguf?download=true", "a/b/c.gguf"},
  };
  for (const auto& [text, meant] : kTaken) {
    const auto reference = ModelReference::Parse(text);
    ASSERT_TRUE(reference.ok()) << text << ": " << reference.status().ToString();
    EXPECT_EQ(reference->Text(), meant) << text;
  }
}

TEST(ModelReference, AFileIsAModelIfItsFirstBytesSayGguf) {
  const TempFolder folder;
  const std::string path = folder.Write("x.gguf", "GGUF and more");
  ASSERT_TRUE(ModelReference::Parse(path).ok());
  EXPECT_EQ(ModelReference::Parse(path)->path, path);
  std::ofstream(path) << "GGU";
  const Status status = ModelReference::Parse(path).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("x.gguf' is a file and no GGUF file; a model is"));
}

TEST(WantedFiles, OnlyWhatIsRead) {
  for (const char* file :
       {"config.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "10_Dense/config.json",
        "chat_template.jinja", "1_LogitScore/config.json"}) {
    EXPECT_TRUE(IsWantedFile(file)) << file;
  }
  for (const char* file :
       {"README.md", "pytorch_model.bin", "onnx/model.onnx", "x/config.json", "1_Pooling/x",
        "1_a/b/config.json", "../config.json", "1_Pooling/../../config.json", "1_", "1", ""}) {
    EXPECT_FALSE(IsWantedFile(file)) << file;
  }
}

TEST_F(HubTest, LocalFoldersNeedNoHub) {
  EXPECT_EQ(*ResolveModel(folder_.string(), options_), folder_.string());
  EXPECT_TRUE(server_->log().empty());
}

TEST_F(HubTest, DownloadsIntoTheCacheLayout) {
  uint64_t bytes_last = 0, bytes_total = 0;
  options_.progress = [&](const HubProgress& progress) {
    EXPECT_LE(progress.file_bytes_done, progress.file_bytes_total);
    EXPECT_GE(progress.bytes_done, bytes_last);
    bytes_last = progress.bytes_done;
    bytes_total = progress.bytes_total;
    return true;
  };
  const auto folder = ResolveModel("acme/tiny", options_);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(*folder, Snapshot().string());
  EXPECT_EQ(bytes_last, bytes_total);
  EXPECT_GT(bytes_total, 300'000u);
  EXPECT_EQ(Text(Repository() / "refs" / "main"), kCommit);
  EXPECT_EQ(Text(Snapshot() / "1_Pooling" / "config.json"), "{\"pooling_mode\": \"mean\"}");
  EXPECT_TRUE(fs::is_symlink(Snapshot() / "model.safetensors"));
  EXPECT_EQ(fs::read_symlink(Snapshot() / "model.safetensors"),
            fs::path("../../blobs") / Sha256Hex(Weights()));
  EXPECT_EQ(Text(Snapshot() / "model.safetensors"), Weights());
  EXPECT_FALSE(fs::exists(Snapshot() / "README.md"));
  EXPECT_FALSE(fs::exists(Snapshot() / "pytorch_model.bin"));
  EXPECT_TRUE(fs::exists(Repository() / ".no_exist" / kCommit / "tokenizer_config.json"));

  options_.progress = nullptr;

  // From here on the cache is enough.
  const size_t requests = server_->log().size();
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Snapshot().string());
  EXPECT_EQ(*ResolveModel(std::string("acme/tiny@") + kCommit, options_), Snapshot().string());
  EXPECT_EQ(server_->log().size(), requests);
  options_.refresh = true;
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_EQ(server_->log().size(), requests + 1);

  const auto models = ListCachedModels(options_.cache_root);
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].repository, "acme/tiny");
  EXPECT_TRUE(models[0].complete);
  EXPECT_GT(models[0].bytes, 300'000u);
}

TEST_F(HubTest, ACutDownloadGoesOnWhereItStopped) {
  hub_.cut_once_after = 100'000;
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_THAT(hub_.ranges, testing::ElementsAre("bytes=100000-"));
  EXPECT_EQ(Text(Snapshot() / "model.safetensors"), Weights());
}

TEST_F(HubTest, AnEarlierProcessMayHaveBegun) {
  Write(WeightsBlob().string() + ".incomplete", Weights().substr(0, 299'999));
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_THAT(hub_.ranges, testing::ElementsAre("bytes=299999-"));
  EXPECT_EQ(Text(Snapshot() / "model.safetensors"), Weights());
}

TEST_F(HubTest, ServersThatIgnoreRangesStartOver) {
  hub_.ignore_ranges = true;
  hub_.cut_once_after = 100'000;
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_EQ(Text(Snapshot() / "model.safetensors"), Weights());
}

TEST_F(HubTest, WrongContentsAreNotedAndFetchedAgain) {
  Write(WeightsBlob().string() + ".incomplete", std::string(1000, 'x'));
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_EQ(Text(Snapshot() / "model.safetensors"), Weights());
}

TEST_F(HubTest, ContentsThatStayWrongAreAnError) {
  hub_.wrong_weights = std::string(Weights().size(), 'v');
  hub_.wrong_times = 100;
  EXPECT_THAT(Failure("acme/tiny").message(), HasSubstr("SHA-256"));
  EXPECT_FALSE(fs::exists(WeightsBlob()));
  EXPECT_FALSE(fs::exists(Snapshot() / "model.safetensors"));
  EXPECT_FALSE(fs::exists(Repository() / "refs" / "main"));
}

TEST_F(HubTest, TemporaryFailuresAreRetried) {
  hub_.failures = 3;
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
  fs::remove_all(options_.cache_root);
  hub_.failures = 100;
  const Status status = Failure("acme/tiny");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("503"));
}

TEST_F(HubTest, TokensGoToTheHubOnly) {
  hub_.token = "hf_secret";
  const Status status = Failure("acme/tiny");
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(status.message(), HasSubstr("HF_TOKEN"));
  ::setenv("HF_TOKEN", "hf_secret", 1);
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
  ::unsetenv("HF_TOKEN");
}

TEST_F(HubTest, TokensDoNotFollowARedirectToAnotherHost) {
  // Another port is another host; the token goes by host, port and scheme.
  FakeHub cdn;
  TinyServer other([&](const Request& request) { return cdn(request); });
  TinyServer front([&](const Request& request) {
    Response response = hub_(request);
    for (std::string& header : response.headers) {
      if (header.starts_with("Location:")) {
        header = "Location: " + other.url() + "/cdn/model.safetensors";
      }
    }
    return response;
  });
  options_.endpoint = front.url();
  options_.token = hub_.token = "hf_secret";
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_EQ(other.log().size(), 1u);
  EXPECT_EQ(cdn.cdn_authorization, "");
}

TEST_F(HubTest, WhatIsNotThereIsNamed) {
  EXPECT_EQ(Failure("acme/none").code(), StatusCode::kNotFound);
  EXPECT_THAT(Failure("acme/tiny@v9").message(), HasSubstr("acme/tiny@v9"));
  EXPECT_TRUE(ResolveModel("acme/tiny@refs/pr/1", options_).ok());
  fs::remove_all(options_.cache_root);
  hub_.files.erase("model.safetensors");
  EXPECT_EQ(Failure("acme/tiny").code(), StatusCode::kUnsupported);
}

TEST_F(HubTest, NoNetworkSaysWhichHost) {
  options_.endpoint = "http://127.0.0.1:1";
  const Status status = Failure("acme/tiny");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("no answer from 127.0.0.1:1"));
  EXPECT_THAT(status.message(), HasSubstr("local model folder"));
}

TEST_F(HubTest, OfflineUsesTheCacheOnly) {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  const Status status = Failure("acme/tiny");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_TRUE(server_->log().empty());
  Write(Repository() / "refs" / "main", kCommit);
  for (const auto& [name, text] : hub_.files) Write(Snapshot() / name, text);
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Snapshot().string());
  fs::remove(Snapshot() / "1_Pooling" / "config.json");
  EXPECT_THAT(Failure("acme/tiny").message(), HasSubstr("lacks 1_Pooling/config.json"));
  ::unsetenv("HF_HUB_OFFLINE");
}

TEST_F(HubTest, PartsThatAnotherProgramLeftOutAreFetched) {
  Write(Repository() / "refs" / "main", kCommit);
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    Write(Snapshot() / name, hub_.files.at(name));
  }
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_TRUE(fs::exists(Snapshot() / "modules.json"));
  EXPECT_TRUE(fs::exists(Snapshot() / "1_Pooling" / "config.json"));
  EXPECT_FALSE(fs::is_symlink(Snapshot() / "model.safetensors"));
  for (const std::string& line : server_->log()) EXPECT_THAT(line, Not(HasSubstr("/cdn/")));
}

TEST_F(HubTest, WithoutAnAnswerAUsableCacheWillDo) {
  Write(Repository() / "refs" / "main", kCommit);
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    Write(Snapshot() / name, hub_.files.at(name));
  }
  options_.endpoint = "http://127.0.0.1:1";
  EXPECT_EQ(*ResolveModel("acme/tiny", options_), Snapshot().string());
}

TEST_F(HubTest, ShardsComeWithTheirIndex) {
  hub_.files.erase("model.safetensors");
  hub_.files["model-1.safetensors"] = "one";
  hub_.files["model-2.safetensors"] = "two";
  hub_.files["model.safetensors.index.json"] =
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})";
  ASSERT_TRUE(ResolveModel("acme/tiny", options_).ok());
  EXPECT_EQ(Text(Snapshot() / "model-2.safetensors"), "two");
  hub_.files["model.safetensors.index.json"] = R"({"weight_map": {"a": "../../x"}})";
  fs::remove_all(options_.cache_root);
  EXPECT_THAT(Failure("acme/tiny").message(), HasSubstr("not a plain file name"));
}

TEST_F(HubTest, ProgressMayStopTheDownload) {
  options_.progress = [](const HubProgress& progress) {
    return progress.file != "model.safetensors";
  };
  EXPECT_EQ(Failure("acme/tiny").code(), StatusCode::kCancelled);
  options_.progress = nullptr;
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
}

TEST_F(HubTest, NonsenseFromTheHubIsAnError) {
  for (const char* body : {"", "[]", "{}", R"({"sha": "../..", "siblings": []})",
                           R"({"sha": "ab", "siblings": [3]})"}) {
    TinyServer server([&](const Request&) { return Response{200, {}, body, {}}; });
    options_.endpoint = server.url();
    EXPECT_FALSE(ResolveModel("acme/tiny", options_).ok()) << body;
  }
  // An etag that would be a path.
  TinyServer server([&](const Request& request) {
    Response response = hub_(request);
    if (!request.path.starts_with("/api/")) response.headers = {"ETag: \"../../x\""};
    return response;
  });
  options_.endpoint = server.url();
  EXPECT_THAT(Failure("acme/tiny").message(), HasSubstr("no usable ETag"));
}

std::string Sha1Hex(const std::string& text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

TEST_F(HubTest, SmallFilesAreCheckedAgainstGitsName) {
  for (const char* given : {"git", "plain", "wrong"}) {
    fs::remove_all(options_.cache_root);
    TinyServer server([&](const Request& request) {
      Response response = hub_(request);
      for (std::string& header : response.headers) {
        if (!header.starts_with("ETag")) continue;
        const std::string& body = response.body;
        std::string name =
            Sha1Hex("blob " + std::to_string(body.size()) + std::string(1, '\0') + body);
        if (given == std::string("plain")) name = Sha1Hex(body);
        if (given == std::string("wrong")) name = Sha1Hex(body + "x");
        header = "ETag: \"" + name + "\"";
      }
      return response;
    });
    options_.endpoint = server.url();
    const auto folder = ResolveModel("acme/tiny", options_);
    EXPECT_EQ(folder.ok(), given != std::string("wrong")) << given;
    if (!folder.ok()) {
      EXPECT_THAT(folder.status().message(), HasSubstr("git's SHA-1"));
    }
  }
}

class HttpFetchTest : public HubTest {
 protected:
  static uint64_t SizeOf(const std::string& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  std::string path() const { return (folder_ / "file").string(); }
};

// A server that says no length must not fill the disk.
TEST_F(HttpFetchTest, FilesOfUnknownLengthAreBounded) {
  TinyServer server([](const Request&) {
    return Response{200, {}, std::string(2'000'000, 'x'), {}, true};
  });
  HttpFetch fetch(options_.http);
  EXPECT_TRUE(fetch.Download(server.url() + "/f", path(), 0, {}, 2'000'000).ok());
  EXPECT_EQ(SizeOf(path()), 2'000'000u);
  fs::remove(path());
  uint64_t most = 0;
  const auto watch = [&](uint64_t bytes) {
    most = std::max(most, bytes);
    return true;
  };
  const Status status = fetch.Download(server.url() + "/f", path(), 0, watch, 1'000'000);
  EXPECT_EQ(status.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(status.message(), HasSubstr("more than 1000000 bytes"));
  EXPECT_LE(most, 1'000'000u);
  EXPECT_EQ(SizeOf(path()), 0u);
  // Nor one that sends more than it said.
  EXPECT_EQ(fetch.Download(server.url() + "/f", path(), 999, {}).code(),
            StatusCode::kPayloadTooLarge);
  EXPECT_EQ(server.log().size(), 3u);  // none was tried again
}

TEST_F(HttpFetchTest, TriesAgainOnlyWhatMayPass) {
  options_.http.backoff_ms = 60'000;  // it would be noticed
  int status = 200;
  TinyServer server([&](const Request& request) {
    return Response{status, {"Location: " + request.headers.at("Host")}, "", {}};
  });
  TinyServer circle([&](const Request& request) {
    return Response{302, {"Location: http://" + request.headers.at("Host") + "/again"}, "", {}};
  });
  HttpFetch fetch(options_.http);
  const auto start = std::chrono::steady_clock::now();
  for (status = 400; status < 600; ++status) {
    if (status == 408 || status == 429 || (status >= 500 && status <= 504 && status != 501))
      continue;
    EXPECT_EQ(fetch.Get(server.url() + "/f", 100)->status, status);
    EXPECT_FALSE(fetch.Download(server.url() + "/f", path(), 10, {}).ok());
  }
  for (const std::string& url : {std::string("file:///etc/hostname"), std::string("gopher://x/"),
                                 circle.url() + "/f", std::string("http://[bad")}) {
    EXPECT_FALSE(fetch.Get(url, 100).ok()) << url;
    EXPECT_FALSE(fetch.Download(url, path(), 10, {}).ok()) << url;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_F(HttpFetchTest, TokensGoOverHttpsOrNowhere) {
  for (const char* url : {"https://hub.example/x", "http://127.0.0.1:80/", "http://localhost",
                          "http://[::1]:8080/x"}) {
    EXPECT_TRUE(MayCarryToken(url)) << url;
  }
  for (const char* url : {"http://hub.example/x", "http://127.0.0.1.example/",
                          "http://localhost@hub.example/", "http://127.0.0.1:1@hub.example/",
                          "http://[::1]@hub.example", "http://[::2]/", "ftp://x"}) {
    EXPECT_FALSE(MayCarryToken(url)) << url;
  }
  // A name of this machine that is not taken for it.
  hub_.token = "hf_secret";
  options_.http.token = "hf_secret";
  HttpFetch fetch(options_.http);
  const std::string path = "/api/models/acme/tiny/revision/main";
  EXPECT_EQ(fetch.Get(server_->url() + path, 1 << 20)->status, 200);
  const std::string port = server_->url().substr(server_->url().rfind(':'));
  ::setenv("no_proxy", "*", 1);
  EXPECT_EQ(fetch.Get("http://127.1" + port + path, 1 << 20)->status, 401);
}

TEST_F(HttpFetchTest, RetryAfterIsReadAsItIsMeant) {
  EXPECT_EQ(RetryAfterMs("3"), 3000);
  EXPECT_EQ(RetryAfterMs("0"), 0);
  for (const char* much : {"3600", "3601", "2147484", "99999999999999999999999"}) {
    EXPECT_EQ(RetryAfterMs(much), 3'600'000) << much;
  }
  for (const char* none : {"", "-1", "1.5", "5 s", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(RetryAfterMs(none), 0) << none;
  }
}

TEST_F(HubTest, CacheRootFollowsTheEnvironment) {
  ::setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(DefaultCacheRoot(), "/h/hub");
  ::setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(DefaultCacheRoot(), "/c");
  ::unsetenv("HF_HUB_CACHE");
  ::unsetenv("HF_HOME");
}

TEST_F(HubTest, ADownloadIsBoundedByWhatTheHubSaysAndByWhatComes) {
  // The small files count, too.
  options_.bytes_max = 300'010;
  EXPECT_EQ(Failure("acme/tiny").code(), StatusCode::kPayloadTooLarge);
  EXPECT_FALSE(fs::exists(Repository() / "blobs"));  // it is refused before anything comes
  options_.bytes_max = 299'000;
  for (const bool says_sizes : {true, false}) {
    hub_.says_sizes = says_sizes;
    const Status status = Failure("acme/tiny");
    EXPECT_EQ(status.code(), StatusCode::kPayloadTooLarge) << status.ToString();
    EXPECT_FALSE(fs::exists(WeightsBlob())) << says_sizes;
    // Nothing of it is kept to go on with.
    EXPECT_EQ(Text(WeightsBlob().string() + ".incomplete"), "") << says_sizes;
  }
  options_.bytes_max = 301'000;
  EXPECT_TRUE(ResolveModel("acme/tiny", options_).ok());
}

}  // namespace
}  // namespace penstock::hub
