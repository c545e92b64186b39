#include "runtime/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/eventually_test_util.h"
#include "base/temp_folder_test_util.h"
#include "engine/fake_engine.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Settings of a model: "alias=NAME", or an error.
Status ReadSettings(const std::string& path, ModelOptions* options) {
  std::string text;
  std::ifstream(path) >> text;
  if (text.starts_with("alias=")) {
    options->served_names.push_back(text.substr(6));
    return Status::Ok();
  }
  return Status::InvalidArgument(path + ": unknown key");
}

// A version is a folder with a file `config.json`: what its engine has as revision, or "broken", or
// "short" where there is no memory for it.
class RepositoryTest : public testing::Test {
 protected:
  RepositoryTest() {
    fs::create_directories(root_);
    options_.repositories = {root_.string()};
    options_.read_model_file = ReadSettings;
    options_.preload = true;
    options_.check_models = false;
  }
  ~RepositoryTest() override {
    repository_.reset();
    registry_.reset();
  }

  void Write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void Version(const std::string& model, int number, const std::string& text) const {
    Write(fs::path(model) / std::to_string(number) / "config.json", text);
  }
  Status Open() {
    registry::RegistryOptions registry;
    registry.on_demand = true;
    registry_ = std::make_unique<registry::Registry>(
        nullptr, &metrics_,
        [this](const registry::ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
          ++loads_;
          std::string text;
          std::ifstream(fs::path(spec.reference) / "config.json") >> text;
          if (text.empty() || text == "broken") return Status::InvalidArgument("it is torn");
          if (text == "short") return Status(StatusCode::kUnavailable, "memory is short");
          engine::EncoderEngineOptions options = spec.options.encoder;
          options.revision = text;
          options.scheduler.max_batch_tokens = 1024;
          options.scheduler.max_batch_rows = 512;
          return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
              engine::FakeParts(families::ModelTask::kEmbedding), options, &metrics_));
        },
        registry);
    for (const std::string& name : named_) {
      registry::ModelSpec spec;
      spec.name = name;
      spec.reference = "/elsewhere";
      EXPECT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    auto repository = Repository::Open(registry_.get(), options_);
    if (!repository.ok()) return repository.status();
    repository_ = *std::move(repository);
    registry_->StartLoading();
    return registry_->WaitLoaded();
  }
  void Poll(int times = 1) {
    for (int i = 0; i < times; ++i) repository_->Poll();
  }
  std::string Found(const std::string& name = "a") const {
    const auto found = registry_->Find<engine::EncoderEngine>(name);
    return found.ok() ? (*found)->revision() : "";
  }
  // "3: why", or "".
  std::string Refused() const {
    const auto refused = registry_->List().at(0).refused;
    return refused ? std::to_string(refused->number) + ": " + refused->error : "";
  }

  const TempFolder temp_;
  const fs::path base_ = temp_.path(), root_ = base_ / "models";
  metrics::Metrics metrics_;
  ModelOptions options_;
  std::vector<std::string> named_;
  int loads_ = 0;
  std::unique_ptr<registry::Registry> registry_;
  std::unique_ptr<Repository> repository_;
};

TEST_F(RepositoryTest, TheHighestVersionServesAndANewOneAfterTwoPolls) {
  Version("a", 1, "one");
  Version("a", 2, "two");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Found(), "two");
  Version("a", 10, "ten");
  Poll();
  EXPECT_EQ(Found(), "two");
  Poll();
  EXPECT_EQ(Found(), "ten");
  EXPECT_EQ(registry_->List().at(0).version, 10);
  Poll(3);
  EXPECT_EQ(loads_, 2);
}

TEST_F(RepositoryTest, AVersionThatGrowsIsLeftAlone) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 4; ++i) {
    Version("a", 2, "two" + std::string(static_cast<size_t>(i), 'o'));
    Poll();
  }
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(Found(), "one");
  Poll();
  EXPECT_EQ(Found(), "twoooo");
}

TEST_F(RepositoryTest, ABrokenVersionIsToldAndTriedAgainWhenItsFilesChange) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  Version("a", 2, "broken");
  Poll(4);
  EXPECT_EQ(Found(), "one");
  EXPECT_EQ(Refused(), "2: cannot load model 'a', version 2: it is torn");
  EXPECT_EQ(loads_, 2);
  Version("a", 2, "repaired");
  Poll(2);
  EXPECT_EQ(Found(), "repaired");
  EXPECT_EQ(Refused(), "");
  Version("a", 3, "broken");
  Poll(2);
  EXPECT_THAT(Refused(), HasSubstr("3: "));
  fs::remove_all(root_ / "a/3");
  Poll();
  EXPECT_EQ(Refused(), "");
}

TEST_F(RepositoryTest, OfTwoNewVersionsTheLowerIsTakenWhereTheHigherIsBroken) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  Version("a", 2, "two");
  Version("a", 3, "broken");
  Poll(2);
  EXPECT_EQ(Found(), "two");
  EXPECT_THAT(Refused(), HasSubstr("3: "));
}

TEST_F(RepositoryTest, AfterARestartTheLastGoodVersionServes) {
  Version("a", 1, "one");
  Version("a", 2, "two");
  Version("a", 3, "broken");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Found(), "two");
  EXPECT_THAT(Refused(), HasSubstr("3: "));
  const int loads = loads_;
  Poll(3);
  EXPECT_EQ(loads_, loads);
  EXPECT_THAT(Refused(), HasSubstr("3: "));
  Version("a", 3, "three");
  Poll(2);
  EXPECT_EQ(Found(), "three");
  EXPECT_EQ(Refused(), "");
}

TEST_F(RepositoryTest, AModelWithoutAGoodVersionKeepsNoOtherFromServing) {
  Version("a", 1, "broken");
  Version("b", 1, "one");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Found("b"), "one");
  EXPECT_EQ(Found(), "");
  Poll(3);
  EXPECT_EQ(loads_, 2);
  Version("a", 1, "repaired");
  Poll(2);
  EXPECT_EQ(Found(), "repaired");
}

TEST_F(RepositoryTest, WhereMemoryIsShortEachPollTriesAgain) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  Version("a", 2, "short");
  Poll(4);
  EXPECT_EQ(loads_, 4);
  EXPECT_THAT(Refused(), HasSubstr("2: cannot load model 'a', version 2: memory is short"));
  EXPECT_EQ(Found(), "one");
  Version("a", 2, "two");
  Poll(2);
  EXPECT_EQ(Found(), "two");
  EXPECT_EQ(Refused(), "");
}

TEST_F(RepositoryTest, AnOlderVersionServesAgainWhereTheNewerIsRemoved) {
  Version("a", 1, "one");
  Version("a", 2, "two");
  ASSERT_TRUE(Open().ok());
  fs::remove_all(root_ / "a/2");
  Poll();
  EXPECT_EQ(Found(), "two");
  Poll();
  EXPECT_EQ(Found(), "one");
  EXPECT_EQ(registry_->List().at(0).version, 1);
  Version("a", 2, "two again");
  Poll(2);
  EXPECT_EQ(Found(), "two");
}

TEST_F(RepositoryTest, FilesThatChangeInPlaceAreTakenIfTheyAreGood) {
  Version("a", 1, "one");
  Version("a", 2, "two");
  ASSERT_TRUE(Open().ok());
  Version("a", 2, "twice");
  Poll(2);
  EXPECT_EQ(Found(), "twice");
  Version("a", 2, "broken");
  Poll(4);
  EXPECT_EQ(Found(), "twice");  // not version 1
  EXPECT_THAT(Refused(), HasSubstr("2: "));
}

TEST_F(RepositoryTest, ModelsComeAndGo) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  Version("b", 7, "seven");
  Poll();
  EXPECT_FALSE(registry_->Has("b"));
  Poll();
  ASSERT_TRUE(registry_->Load("b").get().ok());
  EXPECT_EQ(Found("b"), "seven");
  const auto lease = registry_->Find<engine::EncoderEngine>("a");
  fs::rename(root_ / "a", base_ / "a");
  Poll();
  EXPECT_EQ(Found(), "one");
  Poll();
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("a").code(), StatusCode::kNotFound);
  EXPECT_EQ((*lease)->revision(), "one");
  fs::rename(base_ / "a", root_ / "a");
  Poll(2);
  ASSERT_TRUE(registry_->Load("a").get().ok());
  EXPECT_EQ(Found(), "one");
}

TEST_F(RepositoryTest, AFolderThatCannotBeReadChangesNothing) {
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  fs::rename(root_, base_ / "away");
  Poll(3);
  EXPECT_EQ(Found(), "one");
  fs::rename(base_ / "away", root_);
  Poll(3);
  EXPECT_EQ(loads_, 1);
}

TEST_F(RepositoryTest, SettingsOfAModelAreTakenWithItsVersions) {
  Version("a", 1, "one");
  Write("a/model.toml", "alias=b");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Found("b"), "one");
  Write("a/model.toml", "alias=other");
  Poll(2);
  EXPECT_EQ(Found("other"), "one");
  EXPECT_EQ(Found("b"), "");
  Write("a/model.toml", "nonsense");
  Poll(2);
  EXPECT_EQ(Found("other"), "one");
  EXPECT_THAT(Refused(), HasSubstr("unknown key"));
}

TEST_F(RepositoryTest, SettingsOfNamedModelsAreNotOfThese) {
  Version("a", 1, "one");
  options_.dtypes = {"f32", "other=int8"};
  options_.max_batch_sizes = {"other=8"};
  options_.keep_alives = {"other=5m", "90s"};
  options_.pin_models = {"other"};
  options_.preload_models = {"other"};
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(registry_->List().at(0).keep_alive, registry::KeepAlive(90000));
  EXPECT_FALSE(registry_->List().at(0).pinned);
}

TEST_F(RepositoryTest, NamesThatClashAreRefusedAtTheStartAndLeftOutLater) {
  named_ = {"x"};
  fs::create_directories(base_ / "second/a/1");
  Version("x", 1, "one");
  const Status taken = Open();
  EXPECT_EQ(taken.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(taken.message(), HasSubstr("two models are named 'x': /elsewhere and "));
  EXPECT_THAT(taken.message(), HasSubstr("models/x/1"));
  fs::rename(root_ / "x", root_ / "a");
  options_.repositories.push_back((base_ / "second").string());
  EXPECT_THAT(Open().message(), HasSubstr("two models are named 'a': in "));
  fs::remove_all(base_ / "second/a");
  ASSERT_TRUE(Open().ok());
  fs::create_directories(base_ / "second/a/2");
  Version("x", 1, "one");
  Poll(3);
  EXPECT_EQ(registry_->List().size(), 2u);
  EXPECT_EQ(Found(), "one");
}

TEST_F(RepositoryTest, AnEmptyFolderMayBeFilledLater) {
  ASSERT_TRUE(Open().ok());
  Version("a", 1, "one");
  Poll(2);
  ASSERT_TRUE(registry_->Load("a").get().ok());
  options_.repositories = {(base_ / "none").string()};
  EXPECT_THAT(Open().message(), HasSubstr("none is not a folder"));
}

TEST_F(RepositoryTest, ItsThreadPolls) {
  options_.repository_poll_s = 1;
  Version("a", 1, "one");
  ASSERT_TRUE(Open().ok());
  repository_->Start();
  Version("a", 2, "two");
  EXPECT_TRUE(Eventually([&] { return Found() == "two"; })) << Found();
}

}  // namespace
}  // namespace penstock::runtime
