// What a chat model generates: a byte for the form of calls and settings, one for limits, one for
// the size of the pieces, the rest is the text. However it is cut, the parts are the same, and all
// of the text is in them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fuzz_util.h"
#include "json/json.h"
#include "reply/reply_parser.h"
#include "unicode/utf8.h"

namespace penstock {
namespace {

using Kind = reply::ReplyDelta::Kind;

std::shared_ptr<const reply::ToolSet> Tools() {
  static const auto tools = std::make_shared<const reply::ToolSet>(std::vector<reply::ReplyTool>{
      {"f", ""},
      {"now", "{}"},
      {"write",
       R"({"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"object"},)"
       R"("d":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"e":{"type":"array"}}})"}});
  return tools;
}

// Numbers outside the range of doubles are JSON, though the parser refuses them.
bool HasWideNumber(std::string_view json) {
  size_t digits = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const bool digit = json[i] >= '0' && json[i] <= '9';
    if (digits > 0 && (json[i] == 'e' || json[i] == 'E')) return true;
    digits = digit ? digits + 1 : 0;
    if (digits > 300) return true;
  }
  return false;
}

bool Joins(const reply::ReplyDelta& a, const reply::ReplyDelta& b) {
  return a.kind == b.kind && a.call == b.call && a.kind != Kind::kCallBegin &&
         a.kind != Kind::kCallEnd;
}

// In pieces of `size` bytes, rounded up to whole characters; neighbours of a kind joined.
std::vector<reply::ReplyDelta> Parts(const reply::ReplyOptions& options, std::string_view text,
                                     size_t size) {
  reply::ReplyParser parser(options);
  std::vector<reply::ReplyDelta> joined, some;
  const auto take = [&] {
    for (reply::ReplyDelta& delta : some) {
      PENSTOCK_CHECK(IsValidUtf8(delta.text));
      if (!joined.empty() && Joins(joined.back(), delta)) {
        joined.back().text += delta.text;
      } else {
        joined.push_back(std::move(delta));
      }
    }
    some.clear();
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + size, text.size());
    while (end < text.size() && unicode::IsUtf8Continuation(static_cast<unsigned char>(text[end])))
      ++end;
    parser.Add(text.substr(at, end - at), &some);
    PENSTOCK_CHECK(parser.held_bytes() <= options.limits.call_bytes_max + 4 + 64 + 16);
    take();
    at = end;
  }
  parser.Finish(&some);
  take();
  PENSTOCK_CHECK(parser.held_bytes() == 0);
  PENSTOCK_CHECK(parser.calls() <= options.limits.calls_max);
  return joined;
}

void CheckCall(const std::string& arguments, const reply::ReplyDelta& end, bool streams) {
  PENSTOCK_CHECK(end.complete || streams);
  if (!end.complete || HasWideNumber(arguments)) return;
  const auto document = JsonDocument::Parse(arguments);
  PENSTOCK_CHECK(document.ok() && document->root().is_object());
}

void CheckParts(const std::vector<reply::ReplyDelta>& parts, std::string_view text, bool streams) {
  std::string all, arguments;
  int begun = 0;
  bool open = false;
  for (const reply::ReplyDelta& part : parts) {
    if (part.kind != Kind::kCallBegin && part.kind != Kind::kCallArguments) all += part.text;
    PENSTOCK_CHECK(open == (part.kind == Kind::kCallArguments || part.kind == Kind::kCallEnd));
    switch (part.kind) {
      case Kind::kCallBegin:
        PENSTOCK_CHECK(part.call == begun++ && Tools()->Find(part.name) != nullptr);
        PENSTOCK_CHECK(!part.id.empty());
        open = true;
        arguments.clear();
        break;
      case Kind::kCallArguments:
        arguments += part.text;
        break;
      case Kind::kCallEnd:
        CheckCall(arguments, part, streams);
        open = false;
        break;
      default:
        PENSTOCK_CHECK(!part.text.empty() && part.call == -1);
    }
  }
  PENSTOCK_CHECK(!open && all == text);
}

bool Same(const std::vector<reply::ReplyDelta>& a, const std::vector<reply::ReplyDelta>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const reply::ReplyDelta& x, const reply::ReplyDelta& y) {
                      return x.kind == y.kind && x.call == y.call && x.text == y.text &&
                             x.id == y.id && x.name == y.name && x.complete == y.complete;
                    });
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  const uint8_t how = input.Byte(), limits = input.Byte();
  reply::ReplyOptions options;
  options.format.tools = static_cast<reply::ToolForm>(how % 5);  // the last is read as kMistral
  if ((how & 8) == 0) {
    options.format.think_begin = (how & 16) == 0 ? "<think>" : "[THINK]";
    options.format.think_end = (how & 16) == 0 ? "</think>" : "[/THINK]";
    options.format.begins_thinking = (how & 32) != 0;
  }
  if ((how & 64) == 0) options.tools = Tools();
  options.streams_arguments = (how & 128) != 0;
  if ((limits & 1) != 0) options.limits.call_bytes_max = 16 + (limits >> 2);
  if ((limits & 2) != 0) {
    options.limits.calls_max = 2;
    options.limits.call.json_depth_max = 2;
    options.limits.call.name_bytes_max = 4;
  }
  const size_t piece = 1 + input.Byte() % 16;
  std::string text;
  unicode::AppendSanitizedUtf8(input.Rest(), &text);
  const auto whole = Parts(options, text, std::max<size_t>(text.size(), 1));
  CheckParts(whole, text, options.streams_arguments);
  PENSTOCK_CHECK(Same(whole, Parts(options, text, piece)));
  PENSTOCK_CHECK(Same(whole, Parts(options, text, 1)));
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
