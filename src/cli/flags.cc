#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

namespace penstock::cli {

// ---- FlagRule

FlagRule::FlagRule(Function check, const std::string& description)
    : validator_(std::make_shared<CLI::Validator>(std::move(check), description)) {}

template <typename T>
FlagRule InRange(T least, T most) {
  return FlagRule(std::make_shared<CLI::Validator>(CLI::Range(least, most)));
}

FlagRule OneOf(std::vector<std::string> words) {
  return FlagRule(std::make_shared<CLI::Validator>(CLI::IsMember(std::move(words))));
}

FlagRule OneOfAnyCase(std::vector<std::string> words) {
  return FlagRule(
      std::make_shared<CLI::Validator>(CLI::IsMember(std::move(words), CLI::ignore_case)));
}

FlagRule NameOfNumber(const std::map<std::string, int>& values, bool described) {
  auto rule = std::make_shared<CLI::Validator>(CLI::CheckedTransformer(values));
  if (!described) rule->description("");
  return FlagRule(std::move(rule));
}

FlagRule ExistingFile() { return FlagRule(std::make_shared<CLI::Validator>(CLI::ExistingFile)); }

// ---- Flag

Flag* Flag::TypeName(const std::string& name) {
  option_->type_name(name);
  return this;
}

Flag* Flag::Group(const std::string& name) {
  option_->group(name);
  return this;
}

Flag* Flag::Description(const std::string& text) {
  option_->description(text);
  return this;
}

Flag* Flag::DefaultText(const std::string& text) {
  option_->default_str(text);
  return this;
}

Flag* Flag::ShowDefault() {
  option_->capture_default_str();
  return this;
}

Flag* Flag::Check(FlagRule rule) {
  option_->check(*rule.validator_);
  return this;
}

Flag* Flag::Transform(FlagRule rule) {
  option_->transform(*rule.validator_);
  return this;
}

Flag* Flag::Required() {
  option_->required();
  return this;
}

Flag* Flag::Needs(Flag* other) {
  option_->needs(other->option_);
  return this;
}

Flag* Flag::Excludes(Flag* other) {
  option_->excludes(other->option_);
  return this;
}

Flag* Flag::Delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return this;
}

Flag* Flag::Expected(int values) {
  option_->expected(values);
  return this;
}

Flag* Flag::AllowExtraArgs(bool allowed) {
  option_->allow_extra_args(allowed);
  return this;
}

size_t Flag::count() const { return option_->count(); }

// ---- FlagSet

FlagSet::FlagSet(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->option_defaults()->always_capture_default();
  app_->set_help_flag();
}

FlagSet::~FlagSet() = default;

Flag* FlagSet::Keep(CLI::Option* option) {
  return flags_.emplace_back(std::make_unique<Flag>(option)).get();
}

template <typename T>
Flag* FlagSet::AddOption(const std::string& names, T& value, const std::string& text) {
  return Keep(app_->add_option(names, value, text));
}

Flag* FlagSet::AddNumber(const std::string& names, std::function<void(int)> take,
                         const std::string& text) {
  return Keep(app_->add_option_function<int>(names, std::move(take), text));
}

template <typename T>
Flag* FlagSet::AddOptionFunction(const std::string& names, std::function<void(const T&)> take,
                                 const std::string& text) {
  return Keep(app_->add_option_function<T>(names, take, text));
}

template <typename T>
Flag* FlagSet::AddSwitch(const std::string& names, T& value, const std::string& text) {
  return Keep(app_->add_flag(names, value, text));
}

Flag* FlagSet::Get(const std::string& name) { return Keep(app_->get_option(name)); }
void FlagSet::Remove(const std::string& name) { app_->remove_option(app_->get_option(name)); }
void FlagSet::Footer(const std::string& text) { app_->footer(text); }
std::string FlagSet::GroupOf(const std::string& name) const {
  const CLI::Option* const option = app_->get_option_no_throw(name);
  return option == nullptr ? "" : option->get_group();
}

size_t FlagSet::Count(const std::string& name) const { return app_->count(name); }

// ---- Values

void RefuseFlag(const std::string& flag, const std::string& error) {
  throw CLI::ValidationError(flag, error);
}

template <typename T>
bool ReadFlagNumber(const std::string& text, T& number) {
  return CLI::detail::lexical_cast(text, number);
}

// ---- The types that flags have

#define PENSTOCK_BIND_OPTION(...) \
  template Flag* FlagSet::AddOption(const std::string&, __VA_ARGS__&, const std::string&)
PENSTOCK_BIND_OPTION(std::string);
PENSTOCK_BIND_OPTION(bool);
PENSTOCK_BIND_OPTION(int);
PENSTOCK_BIND_OPTION(int64_t);
PENSTOCK_BIND_OPTION(uint16_t);
PENSTOCK_BIND_OPTION(uint32_t);
PENSTOCK_BIND_OPTION(uint64_t);
PENSTOCK_BIND_OPTION(float);
PENSTOCK_BIND_OPTION(double);
PENSTOCK_BIND_OPTION(std::optional<std::string>);
PENSTOCK_BIND_OPTION(std::optional<bool>);
PENSTOCK_BIND_OPTION(std::optional<uint16_t>);
PENSTOCK_BIND_OPTION(std::optional<int>);
PENSTOCK_BIND_OPTION(std::optional<int64_t>);
PENSTOCK_BIND_OPTION(std::optional<uint64_t>);
PENSTOCK_BIND_OPTION(std::optional<float>);
PENSTOCK_BIND_OPTION(std::optional<double>);
PENSTOCK_BIND_OPTION(std::vector<std::string>);
PENSTOCK_BIND_OPTION(std::vector<int>);
PENSTOCK_BIND_OPTION(std::vector<uint32_t>);
PENSTOCK_BIND_OPTION(std::vector<double>);
#undef PENSTOCK_BIND_OPTION

template Flag* FlagSet::AddOptionFunction(const std::string&,
                                          std::function<void(const std::string&)>,
                                          const std::string&);
template Flag* FlagSet::AddOptionFunction(const std::string&,
                                          std::function<void(const std::vector<std::string>&)>,
                                          const std::string&);
template Flag* FlagSet::AddSwitch(const std::string&, bool&, const std::string&);
template Flag* FlagSet::AddSwitch(const std::string&, std::optional<bool>&, const std::string&);

template FlagRule InRange(int, int);
template FlagRule InRange(unsigned, unsigned);
template FlagRule InRange(int64_t, int64_t);
template FlagRule InRange(uint64_t, uint64_t);
template FlagRule InRange(float, float);
template FlagRule InRange(double, double);

template bool ReadFlagNumber(const std::string&, int&);
template bool ReadFlagNumber(const std::string&, uint64_t&);
template bool ReadFlagNumber(const std::string&, double&);

}  // namespace penstock::cli
