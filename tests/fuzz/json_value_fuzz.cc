// A value of a request as the tree that chat templates read, under bounds on its objects, its
// memory and its time: two bytes for the bounds, then JSON. Whatever it is, the tree takes what was
// counted for it, a bound that is passed is named, and without bounds the tree prints to what it
// was read from.
#include <memory>
#include <string>

#include "chat/json_value.h"
#include "fuzz_util.h"
#include "json/json.h"
#include "threads/held_memory.h"
#include "threads/request_context.h"

namespace penstock {
namespace {

size_t BytesOf(const std::string& text) { return HeapTextBytes(text.size()); }

// What the heap has of the tree, at least.
size_t BytesOf(const chat::JsonValue& value, size_t members_max) {
  size_t bytes = 0;
  if (const std::string* text = value.string()) bytes += BytesOf(*text);
  if (const auto* items = value.array()) {
    bytes += items->size() * sizeof(chat::JsonValue);
    for (const chat::JsonValue& item : *items) bytes += BytesOf(item, members_max);
  }
  if (const auto* members = value.object()) {
    PENSTOCK_CHECK(members->size() <= members_max);
    bytes += members->size() * sizeof(chat::JsonValue::Member);
    for (const auto& [key, member] : *members) {
      bytes += BytesOf(key) + BytesOf(member, members_max);
    }
  }
  return bytes;
}

void CheckBounded(std::string_view text, size_t members_max, int64_t budget_bytes, bool cancelled) {
  // Its thread costs more than what is tested.
  static const auto budget = std::make_shared<ByteBudget>(int64_t{1} << 20);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  context.cancel = std::make_shared<CancelToken>();
  if (cancelled) context.cancel->Cancel();
  PENSTOCK_CHECK(context.memory->Take(budget->limit() - budget_bytes).ok());
  {
    HeldMemory held(context.memory);
    chat::JsonValue::Limits limits;
    limits.field = "messages";
    limits.members_max = members_max;
    limits.context = &context;
    limits.memory = &held;
    const auto bounded = chat::JsonValue::Parse(text, limits);
    if (bounded.ok()) {
      const auto taken =
          static_cast<size_t>(context.memory->held() - budget->limit() + budget_bytes);
      PENSTOCK_CHECK(BytesOf(*bounded, members_max) <= taken);
    } else if (bounded.code() == StatusCode::kUnprocessable) {
      PENSTOCK_CHECK(bounded.status().field() == "messages");
    } else if (bounded.code() == StatusCode::kCancelled) {
      PENSTOCK_CHECK(cancelled);
    } else {
      PENSTOCK_CHECK(bounded.code() == StatusCode::kInvalidArgument ||
                     bounded.code() == StatusCode::kPayloadTooLarge);
      PENSTOCK_CHECK(!bounded.status().message().empty());
    }
  }
  PENSTOCK_CHECK(context.memory->held() == budget->limit() - budget_bytes);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  const size_t members_max = input.Number(1, 300) % 64 + 1;
  const bool cancelled = (members_max & 1) != 0;
  const std::string_view text = input.Rest();
  CheckBounded(text, members_max, int64_t{1} << 20, cancelled);
  CheckBounded(text, members_max, static_cast<int64_t>(members_max) << 12, false);
  const auto free = chat::JsonValue::Parse(text);
  if (!free.ok()) {
    PENSTOCK_CHECK(free.code() == StatusCode::kInvalidArgument);
    return 0;
  }
  const std::string printed = free->Print();
  const auto again = chat::JsonValue::Parse(printed);
  PENSTOCK_CHECK(again.ok() && again->Print() == printed);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)
