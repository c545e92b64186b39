// Sources of settings, and their values as text.
#include "cli/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/split_list.h"
#include "base/temp_folder_test_util.h"
#include "cli/command_line.h"
#include "cli/flag_values.h"
#include "cli/help.h"
#include "commands.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string In(const std::string& text, Unit unit) {
  const auto number = InUnit(text, unit);
  return number.ok() ? *number : "refused: " + number.status().message();
}

TEST(FlagValuesTest, SuffixesOfSizesAndTimes) {
  EXPECT_EQ(In("32MB", Unit::kBytes), "32000000");
  EXPECT_EQ(In("32MiB", Unit::kBytes), "33554432");
  EXPECT_EQ(In("1.5 gb", Unit::kBytes), "1500000000");
  EXPECT_EQ(In("1TiB", Unit::kBytes), "1099511627776");
  EXPECT_EQ(In("7B", Unit::kBytes), "7");
  EXPECT_EQ(In("1h", Unit::kMilliseconds), "3600000");
  EXPECT_EQ(In("0.1s", Unit::kMilliseconds), "100");
  EXPECT_EQ(In("500ms", Unit::kSeconds), "0.5");
  EXPECT_EQ(In("2min", Unit::kSeconds), "120");
  EXPECT_EQ(In("1ms", Unit::kMicroseconds), "1000");
  EXPECT_EQ(In("365d", Unit::kSeconds), "31536000");
  for (const char* as_it_is : {"5", "1e6", "-3", "0x10", "auto", "", "0.25"}) {
    EXPECT_EQ(In(as_it_is, Unit::kSeconds), as_it_is);
  }
  EXPECT_EQ(In("5MB", Unit::kNone), "5MB");
  EXPECT_THAT(In("32M", Unit::kBytes), AllOf(HasSubstr("'32M'"), HasSubstr("MiB")));
  EXPECT_THAT(In("1.2.3MB", Unit::kBytes), HasSubstr("refused"));
  EXPECT_THAT(In("3MB", Unit::kSeconds), HasSubstr("us, ms, s, min, h or d"));
}

TEST(FlagValuesTest, BooleansAndLists) {
  for (const char* yes : {"true", "TRUE", "1", "yes", "on"}) EXPECT_EQ(ParseBoolean(yes), true);
  for (const char* no : {"false", "0", "No", "off"}) EXPECT_EQ(ParseBoolean(no), false);
  for (const char* other : {"", "2", "y", "maybe"}) EXPECT_FALSE(ParseBoolean(other)) << other;
  EXPECT_THAT(SplitList("a, b"), ElementsAre("a", "b"));
  EXPECT_THAT(SplitList("a,b\n\n c \r\n"), ElementsAre("a,b", "c"));
  EXPECT_THAT(SplitList("a,,b"), ElementsAre("a", "", "b"));
  EXPECT_THAT(SplitList("a"), ElementsAre("a"));
}

TEST(FlagValuesTest, TheNearestName) {
  const std::vector<std::string> known = {"model", "port", "api-key", "api-key-file",
                                          "max-batch-tokens"};
  EXPECT_EQ(Nearest("modle", known), "model");
  EXPECT_EQ(Nearest("prot", known), "port");
  EXPECT_EQ(Nearest("API_KEY", known), "api-key");
  EXPECT_EQ(Nearest("max-batch", known), "max-batch-tokens");
  EXPECT_EQ(Nearest("frobnicate", known), "");
  EXPECT_EQ(Nearest("x", known), "");
}

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() { SetKnownCommands(&ProgramGroup()); }
  ~SettingsTest() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    variables_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::string File(const std::string& text) {
    const std::string path = folder_ + "/c.toml";
    std::ofstream(path) << text;
    return path;
  }
  // The exit code, or -1 to go on.
  int Parse(std::vector<std::string> args, bool several = true,
            const std::string& command = "serve") {
    flags_ = {};
    files_.clear();
    CommandLine line(command, "A test.", "");
    AddModelFlags(&line, &flags_, several, "info");
    line.flags().AddOption("--port", port_)->Check(InRange(0, 65535))->TypeName("PORT");
    line.flags()
        .AddOption("--task", flags_.tasks)
        ->Check(FlagRule(
            [](std::string& given) {
              return CheckPerModel("task", given, engine::ParseModelPurpose);
            },
            ""));
    line.flags()
        .AddOption("--context", flags_.contexts)
        ->Check(FlagRule(
            [](std::string& given) {
              return CheckPerModel("context", given, runtime::ParseContext);
            },
            ""));
    line.flags().AddOption("--pin-model", flags_.pin_models);
    line.flags().AddOption("--secret", secret_)->TypeName("KEY");
    line.flags().AddOption("--prompt", prompt_)->TypeName("TEXT");
    if (!several) line.flags().AddOption("FILES", files_);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    const auto exit_code = line.Parse(args);
    out_ = testing::internal::GetCapturedStdout();
    error_ = testing::internal::GetCapturedStderr();
    return exit_code.value_or(-1);
  }
  // The message about a file at fault.
  std::string Refused(const std::string& toml) {
    EXPECT_EQ(Parse({"--config", File(toml)}), kExitUsage) << toml;
    return error_;
  }

  const TempFolder temp_;
  const std::string folder_ = temp_.text();
  std::vector<std::string> variables_;
  runtime::ModelOptions flags_;
  int port_ = 0;
  std::string secret_;
  std::string prompt_;
  std::vector<std::string> files_;
  std::string out_;
  std::string error_;
};

TEST_F(SettingsTest, FlagsStandAnywhere) {
  const std::vector<std::vector<std::string>> lines = {{"-t", "3", "a", "b"},
                                                       {"a", "b", "--threads=3"},
                                                       {"a", "-t3", "b"},
                                                       {"--threads", "3", "--", "a", "b"},
                                                       {"a", "--no-pin", "-t=3", "b"}};
  for (const auto& args : lines) {
    ASSERT_EQ(Parse(args, false), -1) << error_;
    EXPECT_EQ(flags_.threads, 3);
    EXPECT_THAT(files_, ElementsAre("a", "b"));
  }
  EXPECT_FALSE(flags_.pin);
  ASSERT_EQ(Parse({"--pin=no", "--", "--threads", "-"}, false), -1) << error_;
  EXPECT_FALSE(flags_.pin);
  EXPECT_THAT(files_, ElementsAre("--threads", "-"));
  ASSERT_EQ(Parse({"[a,b]"}, false), -1);
  EXPECT_THAT(files_, ElementsAre("[a,b]"));
}

TEST_F(SettingsTest, MistakesOnTheLine) {
  const auto refused = [&](std::vector<std::string> args) {
    EXPECT_EQ(Parse(std::move(args)), kExitUsage);
    return error_;
  };
  EXPECT_THAT(refused({"--modle", "m"}), HasSubstr("unknown flag --modle; did you mean --model?"));
  EXPECT_THAT(refused({"--max_batch_tokens=3"}), HasSubstr("did you mean --max-batch-tokens?"));
  EXPECT_THAT(refused({"--frobnicate"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refused({"-x"}), HasSubstr("unknown flag -x"));
  EXPECT_THAT(refused({"--threads"}), HasSubstr("--threads needs a value"));
  EXPECT_THAT(refused({"--threads", "--no-pin"}), HasSubstr("--threads needs a value"));
  EXPECT_THAT(refused({"--threads", "1", "-t", "2"}), HasSubstr("-t is given twice"));
  EXPECT_THAT(refused({"stray"}), HasSubstr("'stray' was not expected"));
  EXPECT_THAT(refused({"--pin=perhaps"}), HasSubstr("'perhaps' is not true or false"));
  EXPECT_THAT(refused({"--threads", "1000"}),
              HasSubstr("--threads: '1000' is not a whole number from 0 to 256"));
  EXPECT_THAT(refused({"--log-format=xml"}), HasSubstr("'xml' is not text or json"));
  EXPECT_EQ(Parse({"--modle", "--help"}), kExitOk);
}

TEST_F(SettingsTest, AWrongValueNamesItsSource) {
  Set("PENSTOCK_THREADS", "many");
  EXPECT_EQ(Parse({}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("PENSTOCK_THREADS: 'many' is not a whole number from 0 to 256"));
  EXPECT_EQ(Parse({"--threads", "2"}), -1) << error_;
  unsetenv("PENSTOCK_THREADS");
  EXPECT_THAT(Refused("\n\nthreads = 999\n"), HasSubstr("c.toml:3: threads: '999' is not a whole"));
  EXPECT_THAT(Refused("max-input-bytes = '5XB'\n"), HasSubstr("c.toml:1: max-input-bytes: '5XB'"));
}

TEST_F(SettingsTest, SwitchesAndListsAreVariables) {
  Set("PENSTOCK_NO_PIN", "yes");
  Set("PENSTOCK_MODEL", "a=x/a,b=x/b");
  Set("PENSTOCK_SERVED_MODEL_NAME", "n,1\nn,2\n");
  Set("PENSTOCK_INT8_KEEP", "0,ff-out");
  ASSERT_EQ(Parse({}), -1) << error_;
  EXPECT_FALSE(flags_.pin);
  EXPECT_THAT(flags_.models, ElementsAre("a=x/a", "b=x/b"));
  EXPECT_THAT(flags_.served_names, ElementsAre("n,1", "n,2"));
  EXPECT_THAT(flags_.int8_keep, ElementsAre("0,ff-out"));
  Set("PENSTOCK_NO_PIN", "0");
  ASSERT_EQ(Parse({}), -1) << error_;
  EXPECT_TRUE(flags_.pin);
  Set("PENSTOCK_PIN", "0");
  EXPECT_EQ(Parse({}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("PENSTOCK_NO_PIN"));
  EXPECT_EQ(Parse({"--pin"}), kExitUsage);
  Set("PENSTOCK_PIN", "");
  Set("PENSTOCK_MODEL", "a,,b");
  EXPECT_EQ(Parse({}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("PENSTOCK_MODEL is set but empty"));
}

TEST_F(SettingsTest, UnknownVariablesAreNamed) {
  Set("PENSTOCK_THREDS", "1");
  Set("PENSTOCK_DIMENSIONS", "1");  // of embed
  Set("PENSTOCK_CPU_ISA", "avx2");
  Set("PENSTOCK_SERVICE_HOST", "10.0.0.1");
  EXPECT_EQ(Parse({}), -1);
  EXPECT_THAT(error_, AllOf(HasSubstr("warning: "),
                            HasSubstr("PENSTOCK_THREDS is of no flag and is ignored; "
                                      "did you mean PENSTOCK_THREADS?")));
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1) << error_;
  unsetenv("PENSTOCK_THREDS");
  Set("PENSTOCK_QUUX", "1");
  EXPECT_EQ(Parse({}), -1);
  EXPECT_THAT(error_, AllOf(HasSubstr("PENSTOCK_QUUX"), Not(HasSubstr("did you mean"))));
}

TEST_F(SettingsTest, TablesAreForCommands) {
  const std::string config = File(
      "threads = 1_0\ndimensions = 3\nport = 1\nprompt = ''\n"
      "[serve]\nport = 2\n[embed]\nport = 3\nno-such = 4\n");
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_EQ(flags_.threads, 10);
  EXPECT_EQ(port_, 2);
  Set("PENSTOCK_PORT", "4");
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_EQ(port_, 4);
  ASSERT_EQ(Parse({"--config", config, "--port=5"}), -1) << error_;
  EXPECT_EQ(port_, 5);
  unsetenv("PENSTOCK_PORT");
  const std::string bench =
      File("port = 1\n[bench]\nport = 2\nduration = 1\n[bench.http]\nport=3\n");
  ASSERT_EQ(Parse({"--config", bench}, true, "bench http"), -1) << error_;
  EXPECT_EQ(port_, 3);
  ASSERT_EQ(Parse({"--config", bench}, true, "bench reindex"), -1) << error_;
  EXPECT_EQ(port_, 2);
}

TEST_F(SettingsTest, MistakesInTheFileHaveALine) {
  EXPECT_THAT(Refused("threads = 1\nport = \n"), HasSubstr("c.toml:2: "));
  EXPECT_THAT(Refused("port = 1\nport = 2\n"), HasSubstr("c.toml:2: "));
  EXPECT_THAT(Refused("log_level = 'info'\n"),
              HasSubstr("c.toml:1: unknown key 'log_level'; did you mean log-level?"));
  EXPECT_THAT(Refused("[serve]\ndimensions = 3\n"),
              HasSubstr("c.toml:2: unknown key 'dimensions' in [serve]"));
  EXPECT_THAT(Refused("[sevre]\nport = 3\n"), HasSubstr("did you mean [serve]?"));
  EXPECT_THAT(Refused("port = ''\n"), HasSubstr("c.toml:1: port is set but empty"));
  EXPECT_THAT(Refused("model = []\n"), HasSubstr("c.toml:1: model is set but empty"));
  EXPECT_THAT(Refused("model = ['a', '']\n"), HasSubstr("c.toml:1: model is set but empty"));
  EXPECT_THAT(Refused("port = [1, 2]\n"), HasSubstr("c.toml:1: port takes one value"));
  EXPECT_THAT(Refused("pin = 'maybe'\n"), HasSubstr("c.toml:1: pin is to be true or false"));
  EXPECT_THAT(Refused("pin = true\nno-pin = true\n"), HasSubstr("c.toml:2: no-pin is set at"));
  EXPECT_THAT(Refused("port = 1979-05-27\n"), HasSubstr("c.toml:1: 'port' is to be"));
  EXPECT_THAT(Refused("config = 'x'\n"), HasSubstr("unknown key 'config'"));
  EXPECT_EQ(Parse({"--config", folder_ + "/none"}), kExitUsage);
  EXPECT_THAT(error_, HasSubstr("No such file"));
  EXPECT_EQ(Parse({"--config", folder_}), kExitUsage);
}

TEST_F(SettingsTest, TablesOfModels) {
  const std::string config = File(
      "model = 'x/first'\ndtype = 'f32'\n"
      "[models.b]\nmodel = 'x/b'\ndtype = 'int8'\nint8-keep = ['0', 'ff-out']\n"
      "[models.a]\npath = '/a'\npooling = 'cls'\n");
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("x/first", "b=x/b", "a=/a"));
  const auto specs = runtime::ModelSpecs(flags_);
  ASSERT_TRUE(specs.ok()) << specs.status().ToString();
  EXPECT_EQ((*specs)[0].options.encoder.dtype, numbers::DType::kF32);
  EXPECT_EQ((*specs)[1].options.encoder.dtype, numbers::DType::kI8);
  EXPECT_EQ(models::TypeOverridesText((*specs)[1].options.encoder.int8_keep), "0,ff-out");
  EXPECT_EQ((*specs)[2].options.encoder.pooling, families::PoolingMode::kCls);
  EXPECT_FALSE((*specs)[1].options.encoder.pooling);
  // A name on the line takes the model of that name, and leaves out the others.
  ASSERT_EQ(Parse({"--config", config, "--model", "b"}), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("b=x/b"));
  EXPECT_THAT(flags_.dtypes, ElementsAre("f32", "b=int8"));
  EXPECT_TRUE(flags_.poolings.empty());
  ASSERT_EQ(Parse({"--config", config, "--model", "a"}, false, "embed"), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("a=/a"));
  ASSERT_EQ(Parse({"--config", config}, false, "embed"), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("x/first"));
  EXPECT_THAT(flags_.dtypes, ElementsAre("f32"));
  EXPECT_THAT(Refused("[models.a]\ndtpye = 'f32'\n"), HasSubstr("c.toml:2: unknown key 'dtpye'"));
  EXPECT_THAT(Refused("[models.a]\ndtype = 'f32'\n"), HasSubstr("has no 'model'"));
  for (const char* name : {"x,y", "x=y", "/x", "./x", "~x"}) {
    EXPECT_THAT(Refused(std::string("[models.'") + name + "']\nmodel = 'f'\n"),
                HasSubstr("c.toml:1: a model's name"));
  }
  EXPECT_THAT(Refused("[models.a]\nmodel = 'x'\npath = 'y'\n"), HasSubstr("c.toml:3"));
  EXPECT_THAT(Refused("[models.a]\nmodel = 'x'\ndtype = 'int4'\n"), HasSubstr("c.toml:3: dtype: "));
}

TEST_F(SettingsTest, TensorModels) {
  runtime::ModelOptions options;
  options.models = {"a=builtin:identity?type=BYTES&shape=3", "builtin:add?shape=4", "c=x/m"};
  options.max_batch_sizes = {"16", "a=auto", "add=0"};
  options.tensors.max_queued_rows = 7;
  options.scheduler.linger_us = 11;
  options.replicas = 2;
  const auto specs = runtime::ModelSpecs(options);
  ASSERT_TRUE(specs.ok()) << specs.status().ToString();
  EXPECT_EQ((*specs)[0].name, "a");
  EXPECT_EQ((*specs)[0].reference, "builtin:identity?type=BYTES&shape=3");
  EXPECT_EQ((*specs)[1].name, "add");
  EXPECT_EQ((*specs)[1].reference, "builtin:add?shape=4");
  EXPECT_EQ((*specs)[0].options.tensors.max_batch_size, -1);
  EXPECT_EQ((*specs)[1].options.tensors.max_batch_size, 0);
  EXPECT_EQ((*specs)[2].options.tensors.max_batch_size, 16);
  EXPECT_EQ((*specs)[0].options.tensors.scheduler.max_queued_rows, 7);
  EXPECT_EQ((*specs)[0].options.tensors.scheduler.linger_us, 11);
  EXPECT_EQ((*specs)[0].replicas, 2);
  for (const char* wrong : {"-1", "65537", "many", "1.5", ""}) {
    EXPECT_FALSE(runtime::ParseMaxBatchSize(wrong).ok()) << wrong;
  }
}

// The same model with the same settings is one, under all its names.
TEST_F(SettingsTest, EqualModelsAreOne) {
  const std::string config = File(
      "[models.a]\nmodel = 'x/m'\n[models.b]\nmodel = 'x/m'\naliases = 'c'\npin = true\n"
      "[models.d]\nmodel = 'x/m'\ncontext = 512\n[models.e]\nmodel = 'x/m'\ntask = 'embed'\n"
      "[models.f]\nmodel = 'x/m@v1'\n[models.g]\nmodel = 'x/m'\ndtype = 'f32'\n");
  flags_ = {};
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  const auto specs = runtime::ModelSpecs(flags_);
  ASSERT_TRUE(specs.ok()) << specs.status().ToString();
  std::vector<std::string> names;
  for (const registry::ModelSpec& spec : *specs) names.push_back(spec.name);
  EXPECT_THAT(names, ElementsAre("a", "d", "e", "f", "g"));
  EXPECT_THAT((*specs)[0].aliases, ElementsAre("b", "c"));
  EXPECT_TRUE((*specs)[0].pinned);  // by the name b
  EXPECT_EQ((*specs)[1].options.decoder.model.context, 512);
  EXPECT_EQ((*specs)[0].options.decoder.model.context, 0);
  EXPECT_EQ((*specs)[2].purpose, engine::ParseModelPurpose("embedding").value());
  EXPECT_FALSE((*specs)[0].purpose);
  // Links and other spellings of a path are the same place.
  std::filesystem::create_directory(folder_ + "/m");
  std::filesystem::create_symlink("m", folder_ + "/link");
  runtime::ModelOptions twice;
  twice.models = {"a=" + folder_ + "/m", "b=" + folder_ + "/link/"};
  EXPECT_EQ(runtime::ModelSpecs(twice)->size(), 1u);
  twice.keep_alives = {"a=1", "b=2"};
  EXPECT_THAT(runtime::ModelSpecs(twice).status().message(), HasSubstr("which are one model"));
  twice = {};
  twice.models = {"a=x/m", "a=x/m"};  // for the registry to refuse
  EXPECT_EQ(runtime::ModelSpecs(twice)->size(), 2u);
  EXPECT_THAT(Refused("[models.a]\nmodel = 'x'\ntask = 'sing'\n"),
              HasSubstr("c.toml:3: task: 'sing' is not a task"));
  EXPECT_THAT(Refused("[models.a]\nmodel = 'x'\ncontext = -1\n"), HasSubstr("c.toml:3: context"));
}

TEST_F(SettingsTest, AliasesOfModels) {
  const std::string config = File(
      "[models.'x/y']\nmodel = '/a'\naliases = ['b', 'c']\ndtype = 'int8'\n"
      "[models.d]\naliases = 'e'\npath = '/d'\n");
  ASSERT_EQ(Parse({"--config", config}), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("x/y,b,c=/a", "d,e=/d"));
  const auto specs = runtime::ModelSpecs(flags_);
  ASSERT_TRUE(specs.ok()) << specs.status().ToString();
  EXPECT_THAT((*specs)[0].aliases, ElementsAre("b", "c"));
  EXPECT_EQ((*specs)[0].options.encoder.dtype, numbers::DType::kI8);
  EXPECT_FALSE((*specs)[1].options.encoder.dtype == numbers::DType::kI8);
  ASSERT_EQ(Parse({"--config", config, "--model", "d"}), -1) << error_;
  EXPECT_THAT(flags_.models, ElementsAre("d,e=/d"));
  EXPECT_THAT(Refused("[models.a]\nmodel = 'x'\naliases = ['b', 'c,d']\n"),
              HasSubstr("c.toml:3: aliases: 'c,d' cannot be a name"));
}

TEST_F(SettingsTest, PrintedSettingsAreAFileAndSayTheirSource) {
  const std::string config = File("threads = 3\nprompt = \"a\\\"\\n\"\nmax-input-bytes = '1kB'\n");
  Set("PENSTOCK_MODEL", "a,b");
  Set("PENSTOCK_SECRET", "hush");
  Set("PENSTOCK_REDIS_URL", "redis://:hush@host");
  ASSERT_EQ(Parse({"--config", config, "--no-pin", "--print-config"}), kExitOk) << error_;
  const std::string printed = out_;
  EXPECT_THAT(printed, HasSubstr("\nthreads = 3  # " + config + ":1\n"));
  EXPECT_THAT(printed, HasSubstr("\nmodel = [\"a\", \"b\"]  # variable PENSTOCK_MODEL\n"));
  EXPECT_THAT(printed, HasSubstr("\npin = false  # flag\n"));
  EXPECT_THAT(printed, HasSubstr("\nreplicas = 1  # default\n"));
  EXPECT_THAT(printed, HasSubstr("\nmax-input-bytes = \"1kB\"  # "));
  EXPECT_THAT(printed, HasSubstr("\n# secret is set, and secret  # variable PENSTOCK_SECRET\n"));
  EXPECT_THAT(printed, Not(HasSubstr("hush")));
  for (const char* name : {"PENSTOCK_MODEL", "PENSTOCK_SECRET", "PENSTOCK_REDIS_URL"}) {
    unsetenv(name);
  }
  ASSERT_EQ(Parse({"--config", File(printed)}), -1) << error_;
  EXPECT_EQ(flags_.threads, 3);
  EXPECT_EQ(flags_.limits.input_bytes, 1000);
  EXPECT_EQ(prompt_, "a\"\n");
  EXPECT_THAT(flags_.models, ElementsAre("a", "b"));
  EXPECT_FALSE(flags_.pin);
}

TEST(HelpTest, ShowsWhatACommandUses) {
  CommandLine line("tokenize", "A test.", "");
  runtime::ModelOptions flags;
  std::vector<int> numbers = {16, 256};
  AddModelFlags(&line, &flags, false, "warn");
  line.flags().AddOption("--number", numbers)->TypeName("N");
  const auto help = [&](const char* flag) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(line.Parse({flag}), kExitOk);
    return testing::internal::GetCapturedStdout();
  };
  const std::string some = help("--help");
  const std::string all = help("--help-all");
  EXPECT_THAT(some, AllOf(HasSubstr("--model"), HasSubstr("--help-all"), HasSubstr("[16,256]")));
  for (const char* rare : {"--redis-url", "--replicas", "--linger-us", "Caches"}) {
    EXPECT_THAT(some, Not(HasSubstr(rare)));
    EXPECT_THAT(all, HasSubstr(rare));
  }
  for (const std::string& text : {some, all}) {
    for (const char* ugly : {" [[", " \n", "\n\n\n"}) EXPECT_THAT(text, Not(HasSubstr(ugly)));
  }
}

}  // namespace
}  // namespace penstock::cli
