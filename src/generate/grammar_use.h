// GrammarUse: the grammar that a text is held to, and where in the text it begins.
#pragma once

#include <memory>
#include <string>

#include "grammar/constraint.h"

namespace penstock::generate {

struct GrammarUse {
  std::shared_ptr<const grammar::Grammar> grammar;  // null: any text
  // What the model thinks is free: the grammar begins after `think_end`. Both empty: it does not
  // think.
  std::string think_begin, think_end;
  bool begins_thinking = false;  // the prompt ends inside of a thinking block
};

}  // namespace penstock::generate
