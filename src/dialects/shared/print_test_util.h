// For tests of the APIs for text: requests parsed, deltas made, events listed.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "dialects/shared/fields.h"
#include "reply/reply_parser.h"

namespace penstock::dialects {

template <typename Parse>
auto Parsed(Parse parse, const std::string& text) {
  const auto body = RequestBody::Parse(text);
  EXPECT_TRUE(body.ok()) << text;
  if constexpr (std::is_invocable_v<Parse, const JsonObject&>) {
    return parse(body->object());
  } else {
    return parse(body->object(), nullptr);  // the request's context
  }
}

inline reply::ReplyDelta Delta(reply::ReplyDelta::Kind kind, const std::string& text) {
  reply::ReplyDelta delta;
  delta.kind = kind;
  delta.text = text;
  return delta;
}

inline reply::ReplyDelta CallBegin(const std::string& id, const std::string& name) {
  reply::ReplyDelta delta;
  delta.kind = reply::ReplyDelta::Kind::kCallBegin;
  delta.id = id;
  delta.name = name;
  return delta;
}

// The types of the events of a stream, in their order.
inline std::vector<std::string> EventTypes(const std::string& stream) {
  std::vector<std::string> types;
  for (size_t at = stream.find("event: "); at != std::string::npos;
       at = stream.find("event: ", at + 1)) {
    types.push_back(stream.substr(at + 7, stream.find('\n', at) - at - 7));
  }
  return types;
}

}  // namespace penstock::dialects
