// Prints the answers of OpenAI's chat completions and completions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/generate_types.h"
#include "dialects/openai/chat.h"
#include "dialects/shared/text_printer.h"

namespace penstock::dialects {

// `id` without its prefix; `created_unix_s`: of the answer.
std::unique_ptr<TextPrinter> NewChatPrinter(const TextCall& call, std::string_view id,
                                            int64_t created_unix_s);
std::unique_ptr<TextPrinter> NewCompletionPrinter(const TextCall& call, std::string_view id,
                                                  int64_t created_unix_s);

}  // namespace penstock::dialects
