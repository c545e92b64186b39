// Flags of a command: names, the values they set, what they admit, where the help shows them. The
// parser behind it is CLI11; it stays in flags.cc and in the files that print or read its tables
// (help, settings, manual, completion), because its header costs every file that includes it
// seconds of compiling.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace penstock::cli {

// What a flag admits: a check, which may also rewrite the text, and how the help describes it.
class FlagRule {
 public:
  using Function = std::function<std::string(std::string&)>;

  // `check` returns the error, or "". `description` as CLI11 writes it: "{a,b}", or "".
  FlagRule(Function check, const std::string& description);
  explicit FlagRule(std::shared_ptr<const CLI::Validator> validator)
      : validator_(std::move(validator)) {}

 private:
  friend class Flag;
  std::shared_ptr<const CLI::Validator> validator_;
};

// Both ends belong to it. T: int, int64_t, uint64_t, double, float, size_t.
template <typename T>
FlagRule InRange(T least, T most);
FlagRule OneOf(std::vector<std::string> words);
// The word as it is written in the list, however it was given.
FlagRule OneOfAnyCase(std::vector<std::string> words);
FlagRule NameOfNumber(const std::map<std::string, int>& values, bool described);
// One of the names, replaced by the number of its value. E: an enum, or bool.
template <typename E>
FlagRule NameOf(const std::map<std::string, E>& values, bool described = true) {
  std::map<std::string, int> numbers;
  for (const auto& [name, value] : values) numbers.emplace(name, static_cast<int>(value));
  return NameOfNumber(numbers, described);
}
FlagRule ExistingFile();

// A flag or a positional argument of a FlagSet, which owns it. Each setter returns the flag.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag* TypeName(const std::string& name);  // "FILE", "MS"
  Flag* Group(const std::string& name);     // the heading in the help
  Flag* Description(const std::string& text);
  Flag* DefaultText(const std::string& text);
  Flag* ShowDefault();  // the value that the variable holds now
  Flag* Check(FlagRule rule);
  Flag* Transform(FlagRule rule);
  Flag* Required();
  Flag* Needs(Flag* other);
  Flag* Excludes(Flag* other);
  Flag* Delimiter(char delimiter);
  Flag* Expected(int values);
  // Whether values after the first may follow without the flag.
  Flag* AllowExtraArgs(bool allowed);

  // After CommandLine::Parse: values given.
  size_t count() const;

 private:
  CLI::Option* const option_;
};

class FlagSet {
 public:
  FlagSet(const std::string& description, const std::string& name);
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;
  ~FlagSet();

  // `names`: "-o,--output", or "files" of positional arguments. The value goes to *value, which
  // outlives this and holds the default. T: one of the types bound in flags.cc.
  template <typename T>
  Flag* AddOption(const std::string& names, T& value, const std::string& text = {});
  // The same of an enum, whose numbers NameOf makes of names. The help shows no default unless
  // DefaultText says it.
  template <typename T>
  requires std::is_enum_v<T> Flag* AddOption(const std::string& names, T& value,
                                             const std::string& text = {}) {
    return AddNumber(
        names, [&value](int number) { value = static_cast<T>(number); }, text);
  }
  // `take` gets the value. T: std::string or std::vector<std::string>.
  template <typename T>
  Flag* AddOptionFunction(const std::string& names, std::function<void(const T&)> take,
                          const std::string& text);
  // A switch, "--pin,!--no-pin". T: bool, std::optional<bool>.
  template <typename T>
  Flag* AddSwitch(const std::string& names, T& value, const std::string& text);

  // The flag must be there. `name`: "--port".
  Flag* Get(const std::string& name);
  void Remove(const std::string& name);
  // "" if there is no such flag.
  std::string GroupOf(const std::string& name) const;
  void Footer(const std::string& text);
  // After CommandLine::Parse: values given to "--port".
  size_t Count(const std::string& name) const;

  CLI::App& app() { return *app_; }
  const CLI::App& app() const { return *app_; }

 private:
  Flag* Keep(CLI::Option* option);
  Flag* AddNumber(const std::string& names, std::function<void(int)> take, const std::string& text);

  const std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Flag>> flags_;
};

// The flags under one heading of the help; without a name under that of flags without one. `type`
// stands for the value there: "FILE", "MS".
class FlagGroup {
 public:
  explicit FlagGroup(FlagSet* flags, std::string name = "")
      : flags_(flags), name_(std::move(name)) {}

  template <typename T>
  Flag* Add(const std::string& names, T& value, const std::string& type,
            const std::string& text) const {
    return Place(flags_->AddOption(names, value, text)->TypeName(type));
  }
  template <typename T>
  Flag* Add(const std::string& names, T& value, const std::string& type, const FlagRule& rule,
            const std::string& text) const {
    return Add(names, value, type, text)->Check(rule);
  }
  // May be given again, with one value each time. `values`: a vector; then as for Add.
  template <typename T, typename... More>
  Flag* AddRepeated(const std::string& names, T& values, const More&... more) const {
    return Add(names, values, more...)->AllowExtraArgs(false);
  }
  template <typename T>
  Flag* AddFunction(const std::string& names, std::function<void(const T&)> take,
                    const std::string& type, const std::string& text) const {
    return Place(flags_->AddOptionFunction<T>(names, std::move(take), text)->TypeName(type));
  }
  template <typename T>
  Flag* AddFunction(const std::string& names, std::function<void(const T&)> take,
                    const std::string& type, const FlagRule& rule, const std::string& text) const {
    return AddFunction<T>(names, std::move(take), type, text)->Check(rule);
  }
  template <typename T>
  Flag* Switch(const std::string& names, T& value, const std::string& text) const {
    return Place(flags_->AddSwitch(names, value, text));
  }

 private:
  Flag* Place(Flag* flag) const { return name_.empty() ? flag : flag->Group(name_); }

  FlagSet* const flags_;
  const std::string name_;
};

// For functions of AddOptionFunction: the value of `flag` cannot be taken.
[[noreturn]] void RefuseFlag(const std::string& flag, const std::string& error);
// The whole text as a number of that type; false if it is not one. T: int, uint64_t, double.
template <typename T>
bool ReadFlagNumber(const std::string& text, T& number);

}  // namespace penstock::cli
