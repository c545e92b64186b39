// Flags of penstock bench http --chat.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "load/chat_sweep.h"

namespace penstock::cli {

struct ChatLoadFlags {
  bool chat = false;
  std::string route = "/v1/chat/completions";
  std::string prompt_tokens = "256";
  std::string output_tokens = "128";
  std::string goodput;
  load::ChatLoad load;

  // What the flags of text say; the rest of `load` is left as it is.
  Status Read();
};

// `others`: flags that make no sense with --chat.
void AddChatLoadFlags(FlagSet* app, const std::vector<std::string>& others, ChatLoadFlags* flags);

}  // namespace penstock::cli
