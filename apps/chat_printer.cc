#include "chat_printer.h"

#include <algorithm>
#include <limits>

#include "base/printable.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

std::string TerminalText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += Printable(text.substr(0, end), std::numeric_limits<size_t>::max());
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string ChatPrinter::Dim(std::string_view text) const {
  if (!options_.colour) return std::string(text);
  return std::string(kDim) + std::string(text) + std::string(kPlain);
}

void ChatPrinter::Write(std::string_view text) {
  if (text.empty()) return;
  line_begins_ = text.ends_with('\n');
  write_(options_.terminal ? wrap_.Add(TerminalText(text)) : std::string(text));
}

void ChatPrinter::BeginThinking() {
  thinks_ = true;
  if (!options_.thinking) {
    if (options_.terminal && !told_) write_(Dim("(thinking)") + "\n");
    told_ = true;
  } else if (options_.colour) {
    write_(kDim);
  } else {
    Write("<think>\n");
  }
}

void ChatPrinter::EndThinking() {
  thinks_ = false;
  if (!options_.thinking) return;
  if (!line_begins_) Write("\n");
  if (options_.colour) {
    write_(kPlain);
    write_("\n");
    wrap_.Restart();
  } else {
    Write("</think>\n");
  }
}

void ChatPrinter::Add(const reply::ReplyDelta& delta) {
  if (delta.text.empty()) return;
  if (delta.kind == reply::ReplyDelta::Kind::kReasoning) {
    if (!thinks_) BeginThinking();
    if (options_.thinking) Write(delta.text);
  } else if (delta.kind == reply::ReplyDelta::Kind::kContent) {
    if (thinks_) EndThinking();
    Write(delta.text);
  }
}

void ChatPrinter::End() {
  if (thinks_) EndThinking();
  // Elsewhere each reply has one line break more than its text, as with `penstock generate`.
  if (!line_begins_ || !options_.terminal) Write("\n");
  told_ = false;
  line_begins_ = true;
  wrap_.Restart();
}

}  // namespace penstock::cli
