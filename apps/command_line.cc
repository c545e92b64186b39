#include "command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/printable.h"

namespace penstock {
namespace {

std::string EnvironmentName(const std::string& flag) {
  std::string name = "PENSTOCK_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

bool IsSet(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

bool IsBlank(const std::string& value) {
  return value.find_first_not_of(" \t\r\n") == std::string::npos;
}

// The file gives way to the environment: CLI11 by itself would have it the other way round, as it
// reads the file first and the environment only for what is still unset.
class FileBelowEnvironment : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const std::vector<std::string>* not_empty)
      : not_empty_(not_empty) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(input);
    for (const CLI::ConfigItem& item : read) {
      // CLI11 takes an empty list for nothing at all.
      const bool guards =
          std::find(not_empty_->begin(), not_empty_->end(), item.name) != not_empty_->end();
      if (guards && std::all_of(item.inputs.begin(), item.inputs.end(), IsBlank)) {
        throw CLI::ValidationError(item.name + " in the config file is set but empty");
      }
    }
    std::erase_if(read, [](const CLI::ConfigItem& item) {
      return item.parents.empty() && IsSet(EnvironmentName(item.name));
    });
    return read;
  }

 private:
  const std::vector<std::string>* const not_empty_;
};

// One flag: its names and type on a line, below it what it does, wrapped, with unit and default.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string names;
    if (is_positional) names = option->get_name(true);
    for (const std::string& name : option->get_snames()) {
      if (!is_positional) names += (names.empty() ? "-" : ", -") + name;
    }
    for (const std::string& name : option->get_lnames()) {
      if (!is_positional) names += (names.empty() ? "--" : ", --") + name;
    }
    const bool takes_value = option->get_type_size() != 0;
    if (takes_value && !is_positional) names += " " + BareType(option);
    std::string text = option->get_description();
    const std::string by_default = option->get_default_str();
    if (option->get_required()) {
      text += " Required.";
    } else if (takes_value && !by_default.empty() && by_default != "[]" && by_default != "{}" &&
               by_default != "\"\"") {
      text += " [" + by_default + "]";
    }
    return "  " + names + "\n" + Wrapped(text) + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string out = "\n" + group + "\n";
    for (const CLI::Option* option : options) out += make_option(option, is_positional);
    return out;
  }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n";
  }

 private:
  // Without the checks CLI11 puts behind it: messages of refusal say those.
  static std::string BareType(const CLI::Option* option) {
    const std::string type = option->get_type_name();
    return type.substr(0, type.find(':'));
  }
  static std::string Wrapped(const std::string& text) {
    constexpr size_t kIndent = 10;
    constexpr size_t kWidth = 90;
    std::istringstream words(text);
    std::string out(kIndent, ' ');
    size_t column = kIndent;
    for (std::string word; words >> word;) {
      if (column > kIndent && column + 1 + word.size() > kWidth) {
        out += "\n" + std::string(kIndent, ' ');
        column = kIndent;
      } else if (column > kIndent) {
        out += ' ';
        ++column;
      }
      out += word;
      column += word.size();
    }
    return out;
  }
};

std::string OneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Printable(text);  // it may quote a file or another server
}

}  // namespace

CommandLine::CommandLine(const std::string& name, const std::string& summary,
                         const std::string& examples)
    : name_("penstock " + name), app_(summary, name_) {
  app_.formatter(std::make_shared<Help>());
  app_.option_defaults()->always_capture_default();
  app_.set_help_flag("-h,--help", "Print this help and leave.");
  app_.set_config("--config", "", "TOML file with settings; keys are flag names.")
      ->type_name("FILE");
  app_.config_formatter(std::make_shared<FileBelowEnvironment>(&not_empty_));
  app_.allow_config_extras(CLI::config_extras_mode::error);
  app_.footer(
      "Any flag may be set by a variable PENSTOCK_<FLAG> (PENSTOCK_PORT=80) or in the --config "
      "file\n(port = 80). A flag beats the variable, the variable beats the file.\n\n"
      "Examples:\n" +
      examples);
}

std::optional<int> CommandLine::Parse(std::vector<std::string> args) {
  for (CLI::Option* option : app_.get_options()) {
    const std::string flag = option->get_single_name();
    if (flag != "help" && flag != "config" && !option->get_positional()) {
      option->envname(EnvironmentName(flag));
    }
  }
  // What may be given again takes one value each time: others are positionals.
  for (CLI::Option* option : app_.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() <= 1) continue;
    option->expected(CLI::detail::expected_max_vector_size)->allow_extra_args(false);
  }
  const bool has_config = std::any_of(args.begin(), args.end(), [](const std::string& arg) {
    return arg == "--config" || arg.starts_with("--config=");
  });
  if (!has_config && IsSet("PENSTOCK_CONFIG")) {
    args.insert(args.begin(), std::string("--config=") + std::getenv("PENSTOCK_CONFIG"));
  }
  std::reverse(args.begin(), args.end());  // CLI11 takes a vector back to front
  try {
    app_.parse(args);
  } catch (const CLI::CallForHelp& help) {
    std::fputs(app_.help().c_str(), stdout);
    return kExitOk;
  } catch (const CLI::ConfigError& error) {
    // CLI11 says "INI was not able to parse KEY" of a key that is no flag.
    const std::string text = error.what();
    const size_t space = text.rfind(' ');
    return FailUsage("the config file has an unknown key '" +
                     text.substr(space == std::string::npos ? 0 : space + 1) + "'");
  } catch (const CLI::Error& error) {
    return FailUsage(OneLine(error.what()));
  } catch (const std::exception& error) {
    return FailUsage(OneLine(error.what()));
  }
  if (const std::string empty = SetButEmpty(); !empty.empty()) {
    return FailUsage(empty + " is set but empty; give it a value, or leave it out");
  }
  return std::nullopt;
}

std::string CommandLine::SetButEmpty() const {
  // CLI11 takes "--api-key= --port" and "--api-key --port" for the key "--port".
  const auto is_flag = [this](const std::string& value) {
    return value.starts_with("--") &&
           app_.get_option_no_throw(value.substr(0, value.find('='))) != nullptr;
  };
  for (const std::string& flag : not_empty_) {
    const std::string variable = EnvironmentName(flag);
    const char* const value = std::getenv(variable.c_str());
    if (value != nullptr && IsBlank(value)) return variable;
    for (const std::string& given : app_.get_option("--" + flag)->results()) {
      if (IsBlank(given) || is_flag(given)) return "--" + flag;
    }
  }
  return "";
}

int CommandLine::Fail(const Status& status) const {
  std::fprintf(stderr, "%s: %s\n", name_.c_str(), OneLine(status.message()).c_str());
  return kExitFailure;
}

int CommandLine::FailUsage(const std::string& message) const {
  std::fprintf(stderr, "%s: %s (see %s --help)\n", name_.c_str(), OneLine(message).c_str(),
               name_.c_str());
  return kExitUsage;
}

}  // namespace penstock
