// GrammarUse: the grammar that a text is held to, and where in the text it begins.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/constraint.h"

namespace penstock::generate {

// A grammar that is still being compiled. Set once, by any thread; read by any.
class PendingGrammar {
 public:
  // Null: any text.
  void Set(std::shared_ptr<const grammar::Grammar> grammar) {
    grammar_ = std::move(grammar);
    ready_.store(true, std::memory_order_release);
  }
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Once it is ready.
  const std::shared_ptr<const grammar::Grammar>& grammar() const { return grammar_; }

 private:
  std::shared_ptr<const grammar::Grammar> grammar_;
  std::atomic<bool> ready_{false};
};

// What begins a call in a text. Shared by all texts of a request.
struct CallTriggers {
  std::vector<std::string> anywhere;  // the grammar begins with it, or behind it
  std::vector<std::string>
      line_begin;  // at the begin of a line, or behind a call; the grammar's own
};

struct GrammarUse {
  std::shared_ptr<const grammar::Grammar> grammar;  // null: any text
  // Not null: the grammar comes later. The prompt is computed meanwhile.
  std::shared_ptr<const PendingGrammar> pending;
  // What the model thinks is free: the grammar begins after `think_end`. Both empty: it does not
  // think.
  std::string think_begin, think_end;
  bool begins_thinking = false;  // the prompt ends inside of a thinking block
  // Not null: the text is free, and the grammar is that of calls inside of it. It holds from where
  // one of these texts comes until it ends; from there on the text is free again.
  std::shared_ptr<const CallTriggers> calls;
};

}  // namespace penstock::generate
