#include "openvino/runtime.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "openvino/openvino_test_util.h"

namespace penstock::openvino {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets a variable until it goes out of scope; null: unset.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    Set(value);
  }
  ~Variable() { Set(before_ ? before_->c_str() : nullptr); }

 private:
  void Set(const char* value) { value != nullptr ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(RuntimeTest, TheVariableIsTheOnlyPlace) {
  const Variable given("PENSTOCK_OPENVINO", "/nowhere/openvino");
  EXPECT_THAT(RuntimeFolders(), ElementsAre("/nowhere/openvino"));
}

TEST(RuntimeTest, FoldersOfTheUserGoBeforeThoseOfTheSystem) {
  const Variable none("PENSTOCK_OPENVINO", nullptr);
  const Variable home("HOME", "/somewhere");
  {
    const Variable data("XDG_DATA_HOME", nullptr);
    EXPECT_THAT(RuntimeFolders(),
                ElementsAre("/somewhere/.local/share/penstock/openvino",
                            "/usr/local/lib/penstock/openvino", "/usr/lib/penstock/openvino"));
  }
  const Variable data("XDG_DATA_HOME", "/data");
  EXPECT_EQ(RuntimeFolders().front(), "/data/penstock/openvino");
}

TEST(RuntimeTest, WhereItIsMissingTheMessageSaysHowToInstallIt) {
  const Variable given("PENSTOCK_OPENVINO", "/nowhere/openvino");
  const auto folder = FindRuntimeFolder();
  ASSERT_EQ(folder.code(), StatusCode::kUnavailable);
  EXPECT_THAT(folder.status().message(), HasSubstr("/nowhere/openvino"));
  EXPECT_THAT(folder.status().message(), HasSubstr("install_openvino.py (in tools/"));
  EXPECT_THAT(folder.status().message(), HasSubstr("share/penstock/"));
  EXPECT_THAT(folder.status().message(), HasSubstr("PENSTOCK_OPENVINO"));
}

// In a process of its own, which never may again.
TEST(RuntimeTest, WhereCodeMayNotBeMadeTheMessageNamesTheSetting) {
  EXPECT_TRUE(CheckMayMakeCode().ok());
  constexpr int kSetMdwe = 65, kRefuseExecGain = 1;  // PR_SET_MDWE, of Linux 6.3
  constexpr int kOld = 77;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) != 0) _exit(kOld);
    const Status status = CheckMayMakeCode();
    const bool said = status.code() == StatusCode::kUnavailable &&
                      status.message().find("MemoryDenyWriteExecute=no") != std::string::npos;
    _exit(said ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFEXITED(ended));
  if (WEXITSTATUS(ended) == kOld) GTEST_SKIP() << "KERNEL WITHOUT PR_SET_MDWE";
  EXPECT_EQ(WEXITSTATUS(ended), 0);
}

TEST(RuntimeTest, WhatIsNoLibraryIsRefused) {
  const TempFolder folder;
  EXPECT_EQ(Runtime::Open(folder.path().string()).code(), StatusCode::kUnavailable);
  WriteFile(folder / "libopenvino_c.so", "not a library");
  const auto opened = Runtime::Open(folder.path().string());
  ASSERT_EQ(opened.code(), StatusCode::kUnavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr("cannot open OpenVINO"));
}

TEST(RuntimeTest, AnotherLibraryOfThatNameIsRefusedWithWhatItLacks) {
  Dl_info libm;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(std::lgamma)), &libm),
            0);
  const TempFolder folder;
  std::filesystem::create_symlink(std::filesystem::canonical(libm.dli_fname),
                                  folder / "libopenvino_c.so.2641");
  const auto opened = Runtime::Open(folder.path().string());
  ASSERT_EQ(opened.code(), StatusCode::kUnavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr("ov_core_create"));
}

TEST(RuntimeTest, IsOpenedOnce) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  EXPECT_THAT(runtime->version(), ::testing::StartsWith(std::to_string(kReleaseYear) + "."));
  const auto again = Runtime::Shared();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, runtime);
}

TEST(RuntimeTest, ReasonsAreOneLineWithoutPlacesInSources) {
  EXPECT_EQ(ShortReason("Exception from src/inference/src/cpp/core.cpp:84:\n"
                        "Check 'false' failed at src/frontends/common/src/frontend.cpp:47:\n"
                        "Loading input model\nPath 'a' is wrong\n\n"),
            "Loading input model; Path 'a' is wrong");
  EXPECT_EQ(ShortReason(""), "");
  EXPECT_LT(ShortReason(std::string(100000, 'x')).size(), 1000u);
  EXPECT_EQ(ShortReason("a\x1b[1m"), "a\\x1b[1m");
}

}  // namespace
}  // namespace penstock::openvino
