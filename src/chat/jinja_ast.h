// A parsed template: statements and expressions, with every variable bound to its place. Made once
// (jinja_parser.h, then jinja_scope.h), read by any number of renderings at a time.
//
// Variables live in activations: one for the template, one for each macro that runs and each pass
// of a recursive loop. A Slot says how many activations up and which place in it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja_value.h"

namespace penstock::chat::jinja {

struct Filter;
struct Test;

struct Slot {
  uint32_t up = 0;
  uint32_t index = 0;
};

// What a block does to its own variables when it is entered.
struct Load {
  enum class Action { kContext, kCopy, kClear };
  Action action = Action::kClear;
  uint32_t to = 0;   // in the present activation
  Slot from;         // kCopy
  std::string name;  // kContext
};
using Loads = std::vector<Load>;

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNamespaceRef,  // ns.x as a target
  kTuple,
  kList,
  kDict,  // kids: key, value, key, value, ...
  kCond,  // kids: test, then, else or null
  kOr,
  kAnd,
  kNot,
  kCompare,  // kids: the operands; `ops` between them
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kConcat,
  kNeg,
  kPos,
  kAttribute,  // kids: object; `text`
  kItem,       // kids: object, key
  kSlice,      // kids: object, start, stop, step; the last three may be null
  kCall,       // kids: function
  kFilter,     // kids: input, or null in a block
  kTest,       // kids: input
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  bool stored = false;  // kName: an assignment's target
  int line = 0;
  int height = 1;    // levels below, this one counted
  std::string text;  // name, attribute, text of a constant
  Value constant;    // kConst; a text is borrowed from `text`
  std::vector<ExprPtr> kids;
  std::vector<CompareOp> ops;
  std::unique_ptr<CallArgs> call;  // kCall, kFilter, kTest
  Slot slot;                       // kName, kNamespaceRef
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

enum class StmtKind : uint8_t {
  kData,
  kOutput,
  kSet,
  kSetBlock,
  kFor,
  kIf,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kScope,  // with, generation
  kBreak,
  kContinue,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct MacroDef {
  struct Param {
    std::string name;
    ExprPtr target;    // a kName
    ExprPtr fallback;  // may be null
  };
  std::string name;  // empty: a call block
  std::vector<Param> params;
  Body body;
  // Filled in when variables are bound.
  Loads loads;
  uint32_t slots = 0;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  bool explicit_caller = false;
  uint32_t caller_slot = 0, kwargs_slot = 0, varargs_slot = 0;
};

struct Stmt {
  StmtKind kind = StmtKind::kData;
  int line = 0;
  std::string text;              // kData
  std::vector<ExprPtr> exprs;    // kOutput; kIf: the tests; kScope: the values
  std::vector<ExprPtr> targets;  // kScope
  ExprPtr target;                // kSet, kSetBlock, kFor, kMacro (its name)
  ExprPtr value;                 // kSet, kFor: iterated; kCallBlock: the call; filter of a block
  ExprPtr test, test_target;     // kFor: its condition, over variables of its own
  std::vector<Body> bodies;      // kIf: one for each test; else the only one
  Body otherwise;                // kIf, kFor
  std::unique_ptr<MacroDef> macro;
  bool recursive = false;  // kFor
  // Filled in when variables are bound.
  bool extended = false;  // kFor: its body uses `loop`
  uint32_t loop_slot = 0;
  uint32_t slots = 0;  // of a recursive loop's activation
  Loads loads, test_loads, otherwise_loads;
};

struct Template {
  std::string source;
  Body body;
  Loads loads;
  uint32_t slots = 0;
  std::set<std::string> reads;  // variables that come from outside
};

}  // namespace penstock::chat::jinja
