#include "chat_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace penstock::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr std::string_view kSpace = " \t\r\n\v\f";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string_view TrimmedRight(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

template <typename T>
bool ReadNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// One of the members is set.
struct Setting {
  const char* name;
  float sample::SamplingOptions::*number = nullptr;
  int32_t sample::SamplingOptions::*whole = nullptr;
  std::optional<int32_t> sample::SamplingOptions::*maybe = nullptr;
  std::optional<uint64_t> sample::SamplingOptions::*seed = nullptr;
};

constexpr Setting kSettings[] = {
    {.name = "temperature", .number = &sample::SamplingOptions::temperature},
    {.name = "top-k", .whole = &sample::SamplingOptions::top_k},
    {.name = "top-p", .number = &sample::SamplingOptions::top_p},
    {.name = "min-p", .number = &sample::SamplingOptions::min_p},
    {.name = "repetition-penalty", .number = &sample::SamplingOptions::repetition_penalty},
    {.name = "presence-penalty", .number = &sample::SamplingOptions::presence_penalty},
    {.name = "frequency-penalty", .number = &sample::SamplingOptions::frequency_penalty},
    {.name = "max-tokens", .maybe = &sample::SamplingOptions::max_tokens},
    {.name = "seed", .seed = &sample::SamplingOptions::seed},
};

template <typename T>
bool ReadOptional(std::string_view text, std::optional<T>* out) {
  if (text == "none") {
    out->reset();
    return true;
  }
  return ReadNumber(text, &out->emplace());
}

bool SetValue(const Setting& setting, std::string_view text, sample::SamplingOptions* options) {
  if (setting.number != nullptr) return ReadNumber(text, &(options->*setting.number));
  if (setting.whole != nullptr) return ReadNumber(text, &(options->*setting.whole));
  if (setting.maybe != nullptr) return ReadOptional(text, &(options->*setting.maybe));
  return ReadOptional(text, &(options->*setting.seed));
}

template <typename T>
std::string ShowOptional(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "none";
}

std::string ShowValue(const Setting& setting, const sample::SamplingOptions& options) {
  if (setting.number != nullptr) return fmt::format("{}", options.*setting.number);
  if (setting.whole != nullptr) return fmt::format("{}", options.*setting.whole);
  if (setting.maybe != nullptr) return ShowOptional(options.*setting.maybe);
  return ShowOptional(options.*setting.seed);
}

}  // namespace

bool MessageLines::Add(std::string_view line, bool goes_on) {
  const bool first = !open_;
  if (!first) text_ += '\n';
  open_ = true;
  if (first && Trimmed(line).starts_with(kQuotes)) {
    quoted_ = several_ = true;
    line = line.substr(line.find(kQuotes) + kQuotes.size());
  }
  if (quoted_) {
    const std::string_view end = TrimmedRight(line);
    const bool closed = end.ends_with(kQuotes);
    text_ += closed ? end.substr(0, end.size() - kQuotes.size()) : line;
    return closed;
  }
  if (!goes_on && line.ends_with('\\') && !line.ends_with("\\\\")) {
    line.remove_suffix(1);
    goes_on = true;
  }
  text_ += line;
  several_ = several_ || goes_on;
  return !goes_on;
}

ChatInputText MessageLines::Take() {
  std::string text = std::move(text_);
  const bool quoted = quoted_;
  const bool several = several_;
  Clear();
  ChatInputText input;
  if (quoted) {  // the line breaks beside the quotes are none of the message's
    if (text.starts_with('\n')) text.erase(0, 1);
    if (text.ends_with('\n')) text.pop_back();
  }
  const std::string_view trimmed = Trimmed(text);
  if (trimmed.empty()) return input;
  input.kind = ChatInputText::Kind::kMessage;
  if (several || !trimmed.starts_with('/')) {
    input.text = std::move(text);
  } else if (trimmed.starts_with("//")) {
    input.text = trimmed.substr(1);
  } else {
    input.kind = ChatInputText::Kind::kCommand;
    const size_t end = std::min(trimmed.find_first_of(kSpace), trimmed.size());
    input.name = trimmed.substr(1, end - 1);
    input.text = Trimmed(trimmed.substr(end));
  }
  return input;
}

Status SetChatOption(std::string_view given, int32_t vocabulary, sample::SamplingOptions* options) {
  const size_t end = std::min(given.find_first_of(kSpace), given.size());
  std::string name(given.substr(0, end));
  for (char& c : name) c = c == '_' ? '-' : c;
  const std::string_view value = Trimmed(given.substr(end));
  for (const Setting& setting : kSettings) {
    if (name != setting.name) continue;
    sample::SamplingOptions changed = *options;
    if (!SetValue(setting, value, &changed)) {
      return Status::InvalidArgument(fmt::format("'{}' is not a value for {}", value, name));
    }
    if (changed.max_tokens && *changed.max_tokens < 1) {
      return Status::InvalidArgument("max-tokens must be at least 1");
    }
    PENSTOCK_RETURN_IF_ERROR(changed.Check(vocabulary));
    *options = changed;
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format("there is no setting '{}' (see /set)", name));
}

std::string ListChatOptions(const sample::SamplingOptions& options) {
  std::string text;
  for (const Setting& setting : kSettings) {
    text += fmt::format("  {:<20} {}\n", setting.name, ShowValue(setting, options));
  }
  return text;
}

}  // namespace penstock::cli
