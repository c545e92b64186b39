// Shared by the tests: a reply put together from its deltas, and the cuttings of a text that must
// all give the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"
#include "reply/reply_parser.h"

namespace penstock::reply {

struct TestCall {
  std::string name, arguments, id, raw;
  bool ended = false, complete = false;
};

struct TestReply {
  std::string content, reasoning;
  std::string text;  // all that was told, in order: must be what was added
  std::vector<TestCall> calls;
};

inline std::vector<ReplyDelta> Joined(const std::vector<ReplyDelta>& deltas) {
  std::vector<ReplyDelta> joined;
  for (const ReplyDelta& delta : deltas) {
    const bool opens = delta.kind == ReplyDelta::Kind::kCallBegin;
    const bool closes = delta.kind == ReplyDelta::Kind::kCallEnd;
    if (!opens && !closes && !joined.empty() && joined.back().kind == delta.kind &&
        joined.back().call == delta.call) {
      joined.back().text += delta.text;
    } else {
      joined.push_back(delta);
    }
  }
  return joined;
}

inline std::string Printed(const std::vector<ReplyDelta>& deltas) {
  std::string out;
  for (const ReplyDelta& d : deltas) {
    out += std::to_string(static_cast<int>(d.kind)) + " " + std::to_string(d.call) + " [" + d.text +
           "] " + d.id + " " + d.name + (d.complete ? "\n" : " not complete\n");
  }
  return out;
}

inline TestReply Collected(const std::vector<ReplyDelta>& deltas) {
  using Kind = ReplyDelta::Kind;
  TestReply reply;
  for (const ReplyDelta& d : deltas) {
    if (d.kind != Kind::kCallBegin && d.kind != Kind::kCallArguments) reply.text += d.text;
    switch (d.kind) {
      case Kind::kContent:
        reply.content += d.text;
        break;
      case Kind::kReasoning:
        reply.reasoning += d.text;
        break;
      case Kind::kMarkup:
        break;
      case Kind::kCallBegin:
        EXPECT_EQ(static_cast<size_t>(d.call), reply.calls.size());
        reply.calls.push_back({d.name, "", d.id, "", false, false});
        break;
      case Kind::kCallArguments:
        EXPECT_EQ(static_cast<size_t>(d.call) + 1, reply.calls.size());
        reply.calls.back().arguments += d.text;
        break;
      case Kind::kCallEnd:
        EXPECT_EQ(static_cast<size_t>(d.call) + 1, reply.calls.size());
        reply.calls.back().raw = d.text;
        reply.calls.back().ended = true;
        reply.calls.back().complete = d.complete;
        break;
    }
  }
  return reply;
}

// The deltas of `text` in pieces of `sizes`, the last one for the rest.
inline std::vector<ReplyDelta> Deltas(const ReplyOptions& options, std::string_view text,
                                      const std::vector<size_t>& sizes) {
  ReplyParser parser(options);
  std::vector<ReplyDelta> all;
  size_t at = 0, piece = 0;
  while (at < text.size()) {
    const size_t size = std::min(sizes[std::min(piece++, sizes.size() - 1)], text.size() - at);
    std::vector<ReplyDelta> some;
    parser.Add(text.substr(at, size), &some);
    all.insert(all.end(), some.begin(), some.end());
    at += size;
  }
  std::vector<ReplyDelta> last;
  parser.Finish(&last);
  all.insert(all.end(), last.begin(), last.end());
  EXPECT_EQ(parser.held_bytes(), 0u);
  return all;
}

// Reads `text` in many cuttings, which must agree and lose nothing.
inline TestReply Read(const ReplyOptions& options, std::string_view text) {
  const auto whole = Deltas(options, text, {std::max<size_t>(1, text.size())});
  const std::string expected = Printed(Joined(whole));
  for (size_t size : {1, 2, 3, 7}) {
    EXPECT_EQ(Printed(Joined(Deltas(options, text, {size}))), expected) << "cut by " << size;
  }
  for (size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(Printed(Joined(Deltas(options, text, {cut, text.size()}))), expected)
        << "cut at " << cut;
  }
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<size_t> sizes(text.size() + 1);
    for (size_t& size : sizes) size = 1 + random() % 9;
    EXPECT_EQ(Printed(Joined(Deltas(options, text, sizes))), expected);
  }
  TestReply reply = Collected(whole);
  EXPECT_EQ(reply.text, text);
  for (const TestCall& call : reply.calls) {
    EXPECT_TRUE(call.ended);
    const auto arguments = JsonDocument::Parse(call.arguments);
    EXPECT_EQ(arguments.ok() && arguments->root().is_object(), call.complete) << call.arguments;
  }
  return reply;
}

inline std::shared_ptr<const ToolSet> TestTools() {
  return std::make_shared<const ToolSet>(std::vector<ReplyTool>{
      {"get_weather",
       R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}})"},
      {"write",
       R"({"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},
           "mode":{"type":"integer"},"force":{"type":"boolean"},"tags":{"type":"array"},
           "note":{"type":["string","null"]}}})"},
      {"now", ""}});
}

inline ReplyOptions WithTools(ToolForm form, bool streams = false) {
  ReplyOptions options;
  options.format = {"<think>", "</think>", false, form};
  options.tools = TestTools();
  options.id_seed = 42;
  options.streams_arguments = streams;
  return options;
}

// Both ways of telling arguments, which agree on what stands.
inline TestReply ReadCalls(ToolForm form, std::string_view text) {
  TestReply reply = Read(WithTools(form), text);
  const TestReply streamed = Read(WithTools(form, true), text);
  EXPECT_EQ(streamed.content, reply.content);
  EXPECT_EQ(streamed.reasoning, reply.reasoning);
  EXPECT_EQ(streamed.calls.size(), reply.calls.size());
  for (size_t i = 0; i < std::min(reply.calls.size(), streamed.calls.size()); ++i) {
    EXPECT_EQ(streamed.calls[i].name, reply.calls[i].name);
    EXPECT_EQ(streamed.calls[i].arguments, reply.calls[i].arguments);
    EXPECT_EQ(streamed.calls[i].raw, reply.calls[i].raw);
    EXPECT_EQ(streamed.calls[i].id, reply.calls[i].id);
    EXPECT_TRUE(reply.calls[i].complete);
  }
  return reply;
}

// "name(arguments)", one a call, with ' ' between.
inline std::string CallsOf(const TestReply& reply) {
  std::string out;
  for (const TestCall& call : reply.calls) {
    out += (out.empty() ? "" : " ") + call.name + "(" + call.arguments + ")";
  }
  return out;
}

}  // namespace penstock::reply
