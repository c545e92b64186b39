// A chat template and what it is rendered with: the template, NUL, an object in JSON whose members
// are messages, tools, documents and further variables, NUL, and a byte of flags. Whatever they
// are, the rendering ends in bounded time and memory, and gives the same text again.
#include <string>

#include "chat/chat_template.h"
#include "fuzz_util.h"
#include "unicode/utf8.h"

namespace penstock {
namespace {

chat::jinja::Limits SmallLimits() {
  chat::jinja::Limits limits;
  limits.steps = 100'000;
  limits.memory_bytes = 32 << 20;
  limits.output_bytes = 1 << 20;
  return limits;
}

chat::ChatInput ReadInput(std::string_view json, uint8_t flags) {
  chat::ChatInput input;
  input.now = std::chrono::system_clock::from_time_t(1'700'000'000);
  input.add_generation_prompt = (flags & 1) != 0;
  input.continue_final_message = (flags & 2) != 0;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const auto value = chat::JsonValue::Parse(json);
  if (!value.ok() || value->object() == nullptr) return input;
  for (const auto& [name, member] : *value->object()) {
    if (name == "messages") {
      input.messages = member;
    } else if (name == "tools") {
      input.tools = member;
    } else if (name == "documents") {
      input.documents = member;
    } else {
      input.variables.Set(name, member);
    }
  }
  return input;
}

void CheckError(const Status& status) {
  PENSTOCK_CHECK(!status.message().empty() || status.field() == "messages");  // raise_exception('')
  PENSTOCK_CHECK(!status.field().empty());
  PENSTOCK_CHECK(IsValidUtf8(status.message()));
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  const std::string_view source = input.Part();
  const std::string_view json = input.Part();
  const chat::ChatInput chat = ReadInput(json, input.Byte());
  const auto parsed = chat::ChatTemplate::Parse(std::string(source), SmallLimits());
  if (!parsed.ok()) {
    CheckError(parsed.status());
    return 0;
  }
  const auto text = parsed->Render(chat);
  if (!text.ok()) {
    CheckError(text.status());
    return 0;
  }
  PENSTOCK_CHECK(text->size() <= SmallLimits().output_bytes);
  PENSTOCK_CHECK(IsValidUtf8(*text));
  const auto again = parsed->Render(chat);
  PENSTOCK_CHECK(again.ok() && *again == *text);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
