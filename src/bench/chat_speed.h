// What many texts at once cost each other, with nothing around them: through one model's decode
// scheduler, without HTTP.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "devices/devices.h"
#include "load/records.h"
#include "numbers/dtype.h"

namespace penstock::bench {

struct ChatSpeedOptions {
  std::string model;               // a folder or .gguf file; "": random weights of
  std::string shape = "llama-1b";  // DecoderShapes()
  std::string mix = "q8_0";        // DecoderMixes()
  std::string name;                // part of the records' names; "": the mix
  std::optional<numbers::DType> dtype;
  numbers::DType cache_type = numbers::DType::kBf16;
  std::string device = devices::Devices::kAuto;
  int threads = 0;    // 0: one a processor
  int streams = 8;    // texts at once
  int tokens = 64;    // of each
  int prompt = 2000;  // tokens of the long prompts, cut to what the context holds
  int rounds = 3;     // the best of each counts
};

// Prints a table; adds
//   chat.scheduler_ratio_vs_generate.<name>  one text, tokens a second, over those of Generator
//   chat.streams8.ratio_vs_one.<name>        all texts together over one
//   chat.second_turn_ttft_percent, row <name>  time to first token of a second turn, of the first's
//   chat.intertoken_in_prefill_steps.<name>  the 99th percentile of the time between two tokens of
//                                            running texts while a long prompt runs, in steps
//                                            without it
//   chat.short_prompt_ttft_ratio.<name>      of 200 tokens beside the longest prompt the context
//                                            holds, over alone
Status MeasureChatSpeed(const ChatSpeedOptions& options, load::BenchRecords* records);

}  // namespace penstock::bench
