// What answers held to JSON schemas look like: schemas of a file are compiled for a tokenizer's
// vocabulary, and texts are drawn token by token from what their grammar allows, without a model,
// so that every corner of a grammar is met. The texts are written, for a validator to judge.
#pragma once

#include <string>

#include "base/status.h"
#include "load/records.h"
#include "reply/reply_format.h"

namespace penstock::lab {

struct SchemaWalksOptions {
  std::string tokenizer;  // tokenizer.json, or a .gguf file
  std::string schemas;    // JSON lines with a member "schema"
  // The schemas are those of arguments, and the texts calls in this form, of which the arguments are
  // written as they are read back; kNone: the texts are JSON.
  reply::ToolForm calls = reply::ToolForm::kNone;
  std::string texts;     // JSON lines {"line", "text"}; "": not written
  std::string refusals;  // JSON lines {"line", "message"}; "": not written
  int walks = 4;         // texts of a schema
  int tokens = 400;      // of a text at most; a longer one is not written
  int seed = 1;
};

// Prints a summary; adds agents.mask_us_mean, agents.mask_us_p99, agents.compile_ms_p50,
// agents.compile_ms_p95, agents.schema.accepted, agents.schema.refused. Errors: those of the files;
// kInternal: a grammar allowed a token and did not take it, or a call is read as none.
Status RunSchemaWalks(const SchemaWalksOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
