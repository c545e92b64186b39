// Ids of tool calls, by which a client's result names the call it answers.
#pragma once

#include <cstdint>
#include <string>

#include "reply/reply_format.h"

namespace penstock::reply {

// "call_" and 24 letters and digits; of the two of Mistral 9 letters and digits, which its templates demand.
// The same for the same seed and index; equal ones of different seeds are as rare as chance has it.
std::string CallId(ToolForm form, uint64_t seed, int index);

}  // namespace penstock::reply
