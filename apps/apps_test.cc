#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "access_flags.h"
#include "base/temp_folder_test_util.h"
#include "cli/command_line.h"
#include "commands.h"
#include "corpus/row_reader.h"
#include "model_flags.h"
#include "text_flags.h"

namespace penstock::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AppsTest : public testing::Test {
 protected:
  AppsTest() {
    SetKnownCommands(&ProgramGroup());
    std::filesystem::create_directories(folder_);
  }
  ~AppsTest() override {
    unsetenv("PENSTOCK_THREADS");
    unsetenv("PENSTOCK_CONFIG");
  }
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  // The exit code, or -1 to go on; flags_ and error_ get the flags read and the text printed.
  int Parse(std::vector<std::string> args) {
    flags_ = {};
    CommandLine line("test", "A test.", "");
    AddModelFlags(&line, &flags_, true, "info");
    testing::internal::CaptureStderr();
    const auto exit_code = line.Parse(std::move(args));
    error_ = testing::internal::GetCapturedStderr();
    return exit_code.value_or(-1);
  }
  const TempFolder temp_;
  const std::string folder_ = temp_ / "penstock_apps_test";
  runtime::ModelOptions flags_;
  std::string error_;
};

TEST_F(AppsTest, FlagBeatsVariableBeatsFile) {
  const std::string config = File("c.toml", "threads = 3\nmax-batch-tokens = 100\nmodel = 'm'\n");
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_EQ(flags_.threads, 3);
  EXPECT_EQ(flags_.scheduler.max_batch_tokens, 100);
  EXPECT_THAT(flags_.models, ElementsAre("m"));
  setenv("PENSTOCK_THREADS", "4", 1);
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_EQ(flags_.threads, 4);
  EXPECT_EQ(flags_.scheduler.max_batch_tokens, 100);
  ASSERT_EQ(Parse({"--config", config, "--threads", "5", "-m", "x", "-m", "y"}), -1) << error_;
  EXPECT_EQ(flags_.threads, 5);
  EXPECT_THAT(flags_.models, ElementsAre("x", "y"));
  setenv("PENSTOCK_CONFIG", config.c_str(), 1);
  ASSERT_EQ(Parse({}), -1) << error_;
  EXPECT_EQ(flags_.scheduler.max_batch_tokens, 100);
}

TEST_F(AppsTest, MistakesAreOneLineThatNamesTheFlag) {
  const std::string config = File("c.toml", "prot = 3\n");
  EXPECT_EQ(Parse({"--model", "m", "--config", config}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("unknown key 'prot'"));
  EXPECT_EQ(Parse({"--model"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("--model"));
  EXPECT_EQ(Parse({"--model", "m", "--threads", "many"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("--threads"));
  EXPECT_EQ(Parse({"--model", "m", "--threads", "-1"}), kExitUsage);
  EXPECT_EQ(Parse({"--model", "m", "--frobnicate"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("--frobnicate"));
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1);
  EXPECT_EQ(Parse({"--model", "m", "--config", folder_ + "/none.toml"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("none.toml"));
}

TEST_F(AppsTest, AKeyThatIsSetButEmptyIsRefused) {
  http::ServerOptions server;
  const auto parse = [&](std::vector<std::string> args) {
    server = {};
    CommandLine line("test", "A test.", "");
    AddAccessFlags(&line, &server);
    bool other = false;
    line.flags().AddSwitch("--other", other, "");
    testing::internal::CaptureStderr();
    const auto exit_code = line.Parse(std::move(args));
    error_ = testing::internal::GetCapturedStderr();
    return exit_code.value_or(-1);
  };
  for (const std::string flag : {"api-key", "api-key-file", "bulk-api-key", "bulk-api-key-file",
                                 "admin-api-key", "admin-api-key-file", "allowed-host"}) {
    std::string variable = "PENSTOCK_" + flag;
    for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    for (const char* empty : {"", "  ", "\n"}) {
      setenv(variable.c_str(), empty, 1);
      EXPECT_EQ(parse({}), kExitUsage) << variable;
      EXPECT_THAT(error_, HasSubstr(variable + " is set but empty"));
    }
    setenv(variable.c_str(), "value", 1);
    EXPECT_EQ(parse({}), -1) << error_;
    unsetenv(variable.c_str());
    for (const std::vector<std::string>& args : {std::vector<std::string>{"--" + flag, ""},
                                                 {"--" + flag + "="},
                                                 {"--" + flag},
                                                 {"--" + flag + "=", "--other"},
                                                 {"--" + flag, "--other"},
                                                 {"--" + flag, "a", "--" + flag, " "}}) {
      EXPECT_EQ(parse(args), kExitUsage) << args.back();
      EXPECT_THAT(error_, HasSubstr("--" + flag));
    }
    for (const char* value : {"''", "[]", "['a', '']", "'  '"}) {
      const std::string config = File("keys.toml", flag + " = " + value + "\n");
      EXPECT_EQ(parse({"--config", config}), kExitUsage) << value;
      EXPECT_THAT(error_, HasSubstr(flag));
    }
    const std::string config = File("keys.toml", flag + " = ['a', 'b']\n");
    EXPECT_EQ(parse({"--config", config}), -1) << error_;
    EXPECT_EQ(parse({"--" + flag, "a", "--" + flag + "=b"}), -1) << error_;
  }
  EXPECT_EQ(parse({"--api-key", "a,,b", "--api-key=-"}), -1) << error_;
  EXPECT_THAT(server.api_keys, ElementsAre("a,,b", "-"));
}

TEST_F(AppsTest, NamesOfModels) {
  const std::string cached = folder_ + "/models--owner--name/snapshots/abc123";
  std::filesystem::create_directories(cached);
  EXPECT_EQ(runtime::NameOfReference(cached), "owner/name");
  EXPECT_EQ(runtime::NameOfReference(cached + "/"), "owner/name");
  EXPECT_EQ(runtime::NameOfReference(folder_), "penstock_apps_test");
  EXPECT_EQ(runtime::NameOfReference("owner/name@v2"), "owner/name");
  EXPECT_EQ(runtime::NameOfReference("builtin:add?type=INT32"), "add");
  std::filesystem::create_directory(folder_ + "/vision");
  for (const char* name : {"/magika.onnx", "/vision/model.onnx"}) std::ofstream(folder_ + name);
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/magika.onnx"), "magika");
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/vision/model.onnx"), "vision");
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/vision"), "vision");
  // A link has the name it was given, wherever it leads.
  std::filesystem::create_directory_symlink(cached, folder_ + "/embedder");
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/embedder"), "embedder");
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/vision/../embedder/"), "embedder");
  std::filesystem::create_symlink(folder_ + "/magika.onnx", folder_ + "/types.onnx");
  EXPECT_EQ(runtime::NameOfReference(folder_ + "/types.onnx"), "types");
  std::filesystem::create_symlink(folder_ + "/magika.onnx", cached + "/model.onnx");
  EXPECT_EQ(runtime::NameOfReference(cached + "/model.onnx"), "owner/name");

  runtime::ModelOptions flags;
  flags.models = {"short=owner/name", folder_};
  auto specs = runtime::ModelSpecs(flags);
  ASSERT_TRUE(specs.ok());
  EXPECT_EQ((*specs)[0].name, "short");
  EXPECT_EQ((*specs)[0].reference, "owner/name");
  EXPECT_EQ((*specs)[1].name, "penstock_apps_test");
  flags.models = {"BAAI/x, y=" + folder_, "/no=such", "./a=b", "z=c=d"};
  specs = runtime::ModelSpecs(flags);
  ASSERT_TRUE(specs.ok());
  EXPECT_EQ((*specs)[0].name, "BAAI/x");
  EXPECT_THAT((*specs)[0].aliases, ElementsAre("y"));
  EXPECT_EQ((*specs)[0].reference, folder_);
  EXPECT_EQ((*specs)[1].reference, "/no=such");
  EXPECT_EQ((*specs)[2].reference, "./a=b");
  EXPECT_EQ((*specs)[3].name, "z");
  EXPECT_EQ((*specs)[3].reference, "c=d");
  flags.models = {"a", "b=" + folder_};  // of a variable
  EXPECT_THAT(runtime::ModelSpecs(flags).status().message(), HasSubstr("write a,b="));
  flags.models = {"short=owner/name", folder_};
  flags.served_names = {"a"};
  EXPECT_EQ(runtime::ModelSpecs(flags).status().field(), "served-model-name");
  flags.models.pop_back();
  flags.served_names = {"a", "b", "c"};
  specs = runtime::ModelSpecs(flags);
  EXPECT_EQ((*specs)[0].name, "a");
  EXPECT_THAT((*specs)[0].aliases, ElementsAre("b", "c"));
  flags.models = {"short,other=owner/name"};
  EXPECT_THAT((*runtime::ModelSpecs(flags))[0].aliases, ElementsAre("b", "c", "other"));
  flags.poolings = {"median"};
  EXPECT_EQ(runtime::ModelSpecs(flags).status().field(), "pooling");
}

TEST_F(AppsTest, TypesAreOfOneModelOrOfAll) {
  runtime::ModelOptions flags;
  flags.models = {"a=owner/a", "b=owner/b", "c=owner/c"};
  flags.dtypes = {"int8", "b=f32,c=auto"};
  flags.int8_keep = {"0,ff-out,b=-1,2.qkv"};
  auto specs = runtime::ModelSpecs(flags);
  ASSERT_TRUE(specs.ok()) << specs.status().ToString();
  EXPECT_EQ((*specs)[0].options.encoder.dtype, numbers::DType::kI8);
  EXPECT_EQ((*specs)[1].options.encoder.dtype, numbers::DType::kF32);
  EXPECT_FALSE((*specs)[2].options.encoder.dtype);
  EXPECT_EQ(models::TypeOverridesText((*specs)[0].options.encoder.int8_keep), "0,ff-out");
  EXPECT_EQ(models::TypeOverridesText((*specs)[1].options.encoder.int8_keep), "-1,2.qkv");
  EXPECT_EQ(models::TypeOverridesText((*specs)[2].options.encoder.int8_keep), "0,ff-out");

  const auto refused = [&](std::vector<std::string> dtypes) {
    flags.dtypes = std::move(dtypes);
    const Status status = runtime::ModelSpecs(flags).status();
    EXPECT_EQ(status.field(), "dtype");
    return status.message();
  };
  EXPECT_THAT(refused({"d=f32"}), HasSubstr("names 'd', which is not served; served: a, b, c"));
  EXPECT_THAT(refused({"f32", "bf16"}), HasSubstr("twice for all models"));
  EXPECT_THAT(refused({"a=f32", "a=bf16"}), HasSubstr("twice for 'a'"));
  EXPECT_THAT(refused({"=f32"}), HasSubstr("no name"));
  EXPECT_THAT(refused({"a=int4"}), HasSubstr("known: auto, f32, bf16, f16, int8"));
  EXPECT_THAT(refused({"a=float16"}), HasSubstr("f16 is for a GPU"));
  flags.models = {"a=owner/a"};
  flags.served_names = {"x", "y"};
  flags.int8_keep.clear();
  flags.dtypes = {"y=f32"};
  EXPECT_EQ((*runtime::ModelSpecs(flags))[0].options.encoder.dtype, numbers::DType::kF32);
  EXPECT_THAT(refused({"x=f32", "y=int8"}), HasSubstr("one model"));
}

TEST_F(AppsTest, TypesComeByFlagVariableAndFile) {
  const auto dtype_of_b = [&] {
    const auto specs = runtime::ModelSpecs(flags_);
    return specs.ok() ? (*specs)[1].options.encoder.dtype : std::optional<numbers::DType>();
  };
  const std::string config = File("types.toml", "dtype = [\"int8\", \"b=f32\"]\n");
  const std::vector<std::string> models = {"--model", "a=x/a", "--model", "b=x/b"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), models.begin(), models.end());
    return Parse(more);
  };
  EXPECT_EQ(with({"--config", config}), -1) << error_;
  EXPECT_EQ(dtype_of_b(), numbers::DType::kF32);
  setenv("PENSTOCK_DTYPE", "f32,b=bf16", 1);
  EXPECT_EQ(with({"--config", config}), -1) << error_;
  EXPECT_EQ(dtype_of_b(), numbers::DType::kBf16);
  EXPECT_EQ(with({"--dtype", "f32", "--dtype", "b=int8"}), -1) << error_;
  EXPECT_EQ(dtype_of_b(), numbers::DType::kI8);
  unsetenv("PENSTOCK_DTYPE");
  EXPECT_EQ(with({"--dtype", "b=bfloat16"}), -1) << error_;
  EXPECT_EQ(dtype_of_b(), numbers::DType::kBf16);
  EXPECT_EQ(with({"--dtype", "b=fp8"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("known: auto, f32, bf16, f16, int8"));
  EXPECT_EQ(with({"--int8-keep", "0,ff_out"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("'ff_out' is not a layer"));
}

TEST_F(AppsTest, InputFlags) {
  TextFlags flags;
  const auto parse = [&](std::vector<std::string> args) {
    flags = {};
    CommandLine line("test", "A test.", "");
    AddTextFlags(&line, &flags, "Texts");
    testing::internal::CaptureStderr();
    const auto exit_code = line.Parse(std::move(args));
    error_ = testing::internal::GetCapturedStderr();
    return exit_code.value_or(-1);
  };
  ASSERT_EQ(parse({"a.csv", "b.csv"}), -1) << error_;
  EXPECT_EQ(flags.input.format, corpus::InputFormat::kAuto);
  EXPECT_EQ(flags.input.join, " ");
  EXPECT_THAT(flags.input.text_fields, ElementsAre());
  // A field takes one name, so that files may follow.
  ASSERT_EQ(
      parse({"--text-field", "title", "--text-field", "body", "--join", "\\n\\n", "--id-field",
             "key", "--encoding", "latin1", "--format", "tsv", "a.csv", "b.csv"}),
      -1)
      << error_;
  EXPECT_THAT(flags.files, ElementsAre("a.csv", "b.csv"));
  EXPECT_THAT(flags.input.text_fields, ElementsAre("title", "body"));
  EXPECT_EQ(flags.input.join, "\n\n");
  EXPECT_EQ(flags.input.id_field, "key");
  EXPECT_EQ(flags.input.encoding, corpus::TextEncoding::kLatin1);
  EXPECT_EQ(flags.input.format, corpus::InputFormat::kTsv);
  EXPECT_EQ(parse({"--format", "xml"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("--format: 'xml' is not auto, text, jsonl, json, csv or tsv"));
  EXPECT_EQ(parse({"--encoding", "klingon"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("--encoding"));
}

}  // namespace
}  // namespace penstock::cli
