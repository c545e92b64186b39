// One rendering of a template: evaluates its tree (jinja_eval.cc, jinja_exec.cc) with Python's
// rules for values (jinja_ops.cc, jinja_compare.cc, jinja_text.cc). One thread; throws Error.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"
#include "chat/jinja_ast.h"
#include "chat/jinja_value.h"

namespace penstock {
struct RequestContext;
}  // namespace penstock

namespace penstock::chat {}

namespace penstock::chat::jinja {

// Arguments of a call, evaluated.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;  // names are texts

  // Puts each argument at the place of its name; kMissing where it was not given. Fails, as
  // Python's calls do, on a name that is not there or that is given twice, on too many, and where
  // one of the first `required` is missing.
  void Bind(std::string_view function, std::initializer_list<std::string_view> names,
            size_t required, Value* out) const;
  const Value* Named(std::string_view name) const;
  bool empty() const { return positional.empty() && named.empty(); }
};

// A builtin: `self` is the object of a method and the input of a filter.
using Function = Value (*)(Interp& interp, const Value& self, const Args& args);
struct FunctionObject : Object {
  FunctionObject(std::string_view given, Function pointer, Value object)
      : name(given), function(pointer), self(std::move(object)) {}
  void Clear() override { self = Value(); }
  std::string_view name;  // static
  Function function;
  Value self;
};

struct Activation : Object {
  Activation(uint32_t slots, Value above) : values(slots), parent(std::move(above)) {}
  void Clear() override {
    values.assign(values.size(), Value());
    parent = Value();
  }
  std::vector<Value> values;
  Value parent;  // an activation, or missing
};

struct MacroObject : Object {
  MacroObject(const MacroDef* given, Value activation)
      : def(given), closure(std::move(activation)) {}
  void Clear() override { closure = Value(); }
  const MacroDef* def;
  Value closure;
};

// Walks what Python can iterate over; fails on what it cannot. Fetches as it goes.
class Walker {
 public:
  Walker(Interp& interp, Value source);
  bool Next(Value* item);
  const Value& source() const { return source_; }
  void Clear() { source_ = Value(); }

 private:
  Interp* interp_;
  Value source_;
  size_t at_ = 0;
};

// What a `for` walks: a source and perhaps a condition.
class LoopSource {
 public:
  LoopSource(Interp& interp, Value source, const Stmt& loop, Activation* activation)
      : interp_(&interp),
        walker_(interp, std::move(source)),
        loop_(&loop),
        activation_(activation) {}
  bool Next(Value* item);
  // Items in all where that is known without walking, else -1.
  int64_t Length() const;
  void Clear() { walker_.Clear(); }

 private:
  Interp* interp_;
  Walker walker_;
  const Stmt* loop_;
  Activation* activation_;  // outlives this: the loop runs in it
};

// `loop`.
struct LoopObject : Object {
  LoopObject(Interp& interp, Value source, const Stmt& given, const Value& where, int64_t level);
  void Clear() override;
  bool Next();  // to the next item, which becomes `current`
  const Value& Peek();
  int64_t Length();

  Interp* interp;
  const Stmt* loop;
  Value activation;
  LoopSource source;
  std::vector<Value> drained;  // items that were fetched to count them
  size_t drained_at = 0;
  bool draining = false;
  bool ended = false;
  int64_t index0 = -1, depth0 = 0, length = -1;
  Value before, current, after, changed;
};

// Bytes of no object that count for the time of a scope.
class ScopedBytes {
 public:
  explicit ScopedBytes(Heap& heap, size_t bytes = 0) : heap_(heap) { Add(bytes); }
  ~ScopedBytes() { heap_.Drop(held_); }
  ScopedBytes(const ScopedBytes&) = delete;
  ScopedBytes& operator=(const ScopedBytes&) = delete;
  // Before they are allocated; fails past the limit.
  void Add(size_t bytes) {
    heap_.Hold(bytes);
    held_ += bytes;
  }

 private:
  Heap& heap_;
  size_t held_ = 0;
};

// A text that grows within the heap's memory: what it has room for counts, and while it moves to a
// larger place the old one too.
class GrowingText {
 public:
  explicit GrowingText(Heap& heap) : heap_(heap) {}
  ~GrowingText() { heap_.Drop(held_); }
  GrowingText(const GrowingText&) = delete;
  GrowingText& operator=(const GrowingText&) = delete;

  void Add(std::string_view text) {
    Reserve(text.size());
    text_.append(text);
  }
  void Add(size_t count, char c) {
    Reserve(count);
    text_.append(count, c);
  }
  std::string_view view() const { return text_; }
  // What it is now counts no longer.
  std::string Take() {
    heap_.Drop(std::exchange(held_, 0));
    return std::move(text_);
  }

 private:
  void Reserve(size_t bytes) {
    if (bytes > text_.capacity() - text_.size()) Grow(bytes);
  }
  void Grow(size_t bytes);

  Heap& heap_;
  std::string text_;
  size_t held_ = 0;
};

// Makes a text of parts.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap), text_(heap) {}
  void Add(std::string_view text) { text_.Add(text); }
  void Add(size_t count, char c) { text_.Add(count, c); }
  std::string_view view() const { return text_.view(); }
  std::string Take() { return text_.Take(); }
  Value Done() { return heap_.Text(text_.Take()); }

 private:
  Heap& heap_;
  GrowingText text_;
};

// Values that count while they are collected.
class ListBuilder {
 public:
  explicit ListBuilder(Heap& heap) : heap_(heap) {}
  ~ListBuilder() { heap_.Drop(held_); }
  ListBuilder(ListBuilder&& other) noexcept
      : heap_(other.heap_), items_(std::move(other.items_)), held_(std::exchange(other.held_, 0)) {}
  ListBuilder(const ListBuilder&) = delete;
  ListBuilder& operator=(const ListBuilder&) = delete;

  void Add(Value item) {
    heap_.Step();
    if (items_.size() == items_.capacity()) Reserve(2 * items_.size() + 4);
    items_.push_back(std::move(item));
  }
  void Reserve(size_t size);  // room for `size` items
  std::vector<Value>& items() { return items_; }
  const std::vector<Value>& items() const { return items_; }
  // They count no longer.
  std::vector<Value> Take() {
    heap_.Drop(std::exchange(held_, 0));
    return std::move(items_);
  }
  Value Done(Kind kind = Kind::kList) { return heap_.List(Take(), kind); }

 private:
  Heap& heap_;
  std::vector<Value> items_;
  size_t held_ = 0;
};

enum class Flow { kNext, kBreak, kContinue };

class Interp {
 public:
  using Clock = std::chrono::system_clock;
  // `request`: the request whose memory is taken and whose cancellation counts; null: none.
  // Outlives it.
  Interp(const Template& tree, const Limits& limits, Clock::time_point now,
         const RequestContext* request = nullptr);

  Heap& heap() { return heap_; }
  void Step(uint64_t steps = 1) { heap_.Step(steps); }
  Clock::time_point now() const { return now_; }
  void Set(std::string_view name, Value value) { context_[name] = std::move(value); }
  // Called for each value that is made of what a request brought: fails, now and then, where the
  // request is no longer wanted.
  void CountValue() {
    if (++values_ % kValuesPerLook == 0) CheckWanted();
  }
  std::string Render();
  int line() const { return line_; }  // where it is, or where it failed

  // ---- Python's operations
  bool Truth(const Value& value);
  bool Equal(const Value& a, const Value& b);
  bool Less(const Value& a, const Value& b, bool or_equal = false);  // fails across types
  bool Contains(const Value& container, const Value& item);
  size_t Hash(const Value& value);  // fails on what cannot be a key
  bool IsHashable(const Value& value);
  int64_t Length(const Value& value);
  bool HasLength(const Value& value) const;
  bool IsIterable(const Value& value) const;
  ListBuilder ToItems(const Value& value);
  Value Binary(ExprKind op, const Value& a, const Value& b);
  Value Negate(const Value& value);
  Value Item(const Value& object, const Value& key);
  Value Attribute(const Value& object, const Value& name);
  // A method or another attribute that is not an item; missing if there is none.
  Value FindAttribute(const Value& object, const Value& name);
  Value Slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value Call(const Value& function, const Args& args);
  Value NewDict() { return Value(Kind::kDict, heap_.New<DictObject>()); }
  Value NewFunction(std::string_view name, Function function, Value self = Value());

  // ---- Texts
  Value Text(std::string text) { return heap_.Text(std::move(text)); }
  Value Str(const Value& value);      // str(value); a text stays as it is, markup too
  Value SafeStr(const Value& value);  // str(value) of an exact str
  void AppendStr(const Value& value, TextBuilder* out);
  void AppendRepr(const Value& value, TextBuilder* out);
  Value Escape(const Value& value);  // as markup

  // ---- Filters and tests by name, for map and select
  Value CallFilter(const Value& name, const Value& input, const Args& args);
  bool CallTest(const Value& name, const Value& input, const Args& args);

  Value RunRecursive(const Stmt& loop, const Value& parent, Value iterable, int64_t depth);
  bool TestItem(const Stmt& loop, Activation* activation, const Value& item);

  // One level deeper, for as long as it lives.
  class Deeper {
   public:
    explicit Deeper(Interp& interp) : interp_(interp) {
      if (++interp_.depth_ > interp_.heap_.limits().depth) interp_.FailDepth();
    }
    ~Deeper() { --interp_.depth_; }

   private:
    Interp& interp_;
  };

 private:
  class Capture;
  static constexpr uint32_t kValuesPerLook = 1024;

  void CheckWanted();
  [[noreturn]] void FailDepth();
  Value Eval(const Expr& expr);
  Value EvalName(const Expr& expr);
  Value EvalCompare(const Expr& expr);
  Value EvalDict(const Expr& expr);
  Value EvalList(const Expr& expr);
  Value EvalConcat(const Expr& expr);
  Value EvalCall(const Expr& expr, const Value* caller);
  Value EvalFilter(const Expr& expr, const Value* block);
  Value EvalTest(const Expr& expr);
  Value EvalSlice(const Expr& expr);
  Value EvalBinary(const Expr& expr);
  Value EvalLogic(const Expr& expr);
  // What the arguments take counts in `held`.
  void EvalArgs(const CallArgs& call, Args* args, ScopedBytes* held);
  bool CompareOnce(CompareOp op, const Value& a, const Value& b);

  Flow Exec(const Body& body);
  Flow ExecOne(const Stmt& stmt);
  Flow ExecIf(const Stmt& stmt);
  Flow ExecScope(const Stmt& stmt);
  Flow ExecFor(const Stmt& stmt);
  Flow RunFor(const Stmt& stmt, const Value& iterable, int64_t depth0);
  Flow ExecSetBlock(const Stmt& stmt);
  Flow ExecFilterBlock(const Stmt& stmt);
  void ExecSet(const Stmt& stmt);
  void ExecCallBlock(const Stmt& stmt);
  void CheckNamespaces(const Expr& target);
  void Assign(const Expr& target, const Value& value);
  void Enter(const Loads& loads);
  void Emit(std::string_view text);
  void EmitValue(const Value& value);
  void EmitText(const Value& value);  // fails on what is not a text
  Value& At(Slot slot);
  Value Resolve(const std::string& name);
  Value RunMacro(const MacroObject& macro, std::vector<Value> arguments, Value caller, Value kwargs,
                 Value varargs);
  Value CallMacro(const Value& function, const Args& args);

  const Template& tree_;
  Heap heap_;
  const Clock::time_point now_;
  const RequestContext* const request_;
  uint32_t values_ = 0;  // made of what the request brought
  SeededMap<std::string_view, Value> context_;
  Value root_;  // activations
  Value activation_;
  GrowingText* out_ = nullptr;
  size_t out_bytes_ = 0;  // of all texts being written
  int depth_ = 0;
  int line_ = 0;
};

}  // namespace penstock::chat::jinja
