// The values that a template computes with: Python's, as far as chat templates need them.
//
// A Value is a word of type and either the thing itself (numbers, borrowed texts) or a counted
// reference to an Object. Objects belong to the Heap of one rendering, which bounds their bytes,
// takes them from the request's memory and frees what a cycle keeps; nothing here is shared between
// threads. Texts that the template or its input owns are borrowed, so messages are not copied.
//
// Errors inside the interpreter are thrown as Error and end at ChatTemplate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "threads/held_memory.h"

namespace penstock::chat::jinja {

struct Error {
  StatusCode code = StatusCode::kInvalidArgument;
  std::string message;
  bool raised = false;  // by the template's raise_exception
  bool limit = false;   // of steps, depth or bytes: no filter may swallow it
  // Not OK: the request's memory or its time is why, and not the template.
  Status request = {};
};
[[noreturn]] void Fail(std::string message);
[[noreturn]] void FailLimit(std::string message);
[[noreturn]] void FailRequest(Status why);
// The beginning of a text, for a message.
std::string Shown(std::string_view text);

// What a rendering may take. Past one of them it ends with an error that names it.
struct Limits {
  uint64_t steps = 20'000'000;  // nodes evaluated, items walked, 16 bytes of text copied or walked
  int depth = 1000;             // nested evaluations: expressions, blocks, macros
  size_t output_bytes = 64u << 20;   // of the rendered text
  size_t memory_bytes = 256u << 20;  // of all values alive
};

enum class Kind : uint8_t {
  kMissing,  // a variable that has no value; reading it gives kUndefined
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // dict.keys(), .values(), .items()
  kIterator,  // what map, select and the like return: can be walked once
  kNamespace,
  kFunction,  // a global, or a method with its object
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
  kActivation,  // variables of a macro that runs; never seen by a template
};

class Heap;
class Interp;

class Object {
 public:
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

 protected:
  Object() = default;

 private:
  friend class Heap;
  friend class Value;
  friend class HeapList;
  uint32_t refs_ = 0;
  size_t charged_ = 0;
  Heap* heap_ = nullptr;
  Object* previous_ = nullptr;
  Object* next_ = nullptr;
  // Lets go of what it refers to, which opens cycles.
  virtual void Clear() {}
};

class Value {
 public:
  Value() = default;  // kMissing
  Value(Kind kind, Object* object) : kind_(kind), object_(object) { Retain(); }
  Value(const Value& other)
      : kind_(other.kind_), flag_(other.flag_), size_(other.size_), object_(other.object_) {
    i_ = other.i_;
    Retain();
  }
  Value(Value&& other) noexcept
      : kind_(other.kind_), flag_(other.flag_), size_(other.size_), object_(other.object_) {
    i_ = other.i_;
    other.object_ = nullptr;
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(Value other) noexcept {
    Swap(other);
    return *this;
  }
  ~Value() { Release(); }

  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool truth) { return Value(Kind::kBool, truth); }
  static Value Int(int64_t number) { return Value(Kind::kInt, number); }
  static Value Float(double number) {
    Value value(Kind::kFloat);
    value.d_ = number;
    return value;
  }
  // A text that outlives the rendering.
  static Value Borrowed(std::string_view text) {
    Value value(Kind::kString);
    value.s_ = text.data();
    value.size_ = text.size();
    return value;
  }
  // A part of this text, which it keeps alive.
  Value Part(std::string_view part) const {
    Value value(Kind::kString, object_);
    value.s_ = part.data();
    value.size_ = part.size();
    return value;
  }
  // `name` as Part or Borrowed; for the message.
  static Value Undefined(const Value& name) {
    Value value = name.is_string() ? name : Borrowed("value");
    value.kind_ = Kind::kUndefined;
    return value;
  }
  static Value Undefined(std::string_view name) { return Undefined(Borrowed(name)); }
  // Marks a text as safe HTML, so that what is joined to it gets escaped.
  Value AsMarkup() && {
    flag_ = true;
    return std::move(*this);
  }
  Value AsPlain() && {
    flag_ = false;
    return std::move(*this);
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return kind_ == Kind::kString && flag_; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_int() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }  // as in Python
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_number() const { return is_int() || is_float(); }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool truth() const { return i_ != 0; }
  int64_t integer() const { return i_; }
  double real() const { return kind_ == Kind::kFloat ? d_ : static_cast<double>(i_); }
  std::string_view text() const { return {s_, size_}; }  // also the name of an undefined one
  Object* object() const { return object_; }
  template <typename T>
  T& as() const {
    return *static_cast<T*>(object_);
  }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, int64_t number) : kind_(kind) { i_ = number; }
  void Swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(flag_, other.flag_);
    std::swap(i_, other.i_);
    std::swap(size_, other.size_);
    std::swap(object_, other.object_);
  }
  void Retain() {
    if (object_ != nullptr) ++object_->refs_;
  }
  inline void Release();

  Kind kind_ = Kind::kMissing;
  bool flag_ = false;
  union {
    int64_t i_ = 0;
    double d_;
    const char* s_;
  };
  size_t size_ = 0;
  Object* object_ = nullptr;
};

// All objects of one rendering.
class Heap {
 public:
  // Null memory: only the limits bound it.
  explicit Heap(const Limits& limits, RequestMemory* memory = nullptr)
      : limits_(limits),
        memory_(memory),
        steps_left_(limits.steps),
        granted_(memory == nullptr ? limits.memory_bytes : 0) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    CheckMemory(HeapBytes(sizeof(T)));
    T* object = new T(std::forward<Args>(args)...);
    Adopt(object, HeapBytes(sizeof(T)));
    return object;
  }
  // Takes what an object holds besides itself; fails past the limit.
  void Charge(Object* object, size_t bytes) {
    object->charged_ += bytes;
    live_ += bytes;
    CheckMemory(0);
  }
  // Called before `bytes` are allocated. The request's memory has them then, until the rendering
  // ends.
  void CheckMemory(size_t bytes) {
    if (bytes > granted_ || live_ > granted_ - bytes) Grow(bytes);
  }
  // Counts bytes of no object until Drop; fails past the limit.
  void Hold(size_t bytes) {
    CheckMemory(bytes);
    live_ += bytes;
  }
  void Drop(size_t bytes) { live_ -= bytes; }
  void Step(uint64_t steps = 1) {
    if (steps > steps_left_) FailSteps();
    steps_left_ -= steps;
  }
  void StepBytes(size_t bytes) { Step(bytes >> 4); }

  // A text that becomes a value; its bytes are counted.
  Value Text(std::string text);
  Value List(std::vector<Value> items, Kind kind = Kind::kList);
  Value Tuple(std::vector<Value> items) { return List(std::move(items), Kind::kTuple); }
  const Limits& limits() const { return limits_; }

 private:
  friend class Value;
  void Adopt(Object* object, size_t bytes);
  void Free(Object* object);
  void Grow(size_t bytes);
  [[noreturn]] void FailMemory() const;
  [[noreturn]] void FailSteps() const;

  const Limits limits_;
  RequestMemory* const memory_;
  uint64_t steps_left_;
  size_t granted_;  // of memory_, or the whole limit
  size_t live_ = 0;
  Object* first_ = nullptr;
  Object* dead_ = nullptr;  // by next_; freed one after the other, however deep they are nested
  bool freeing_ = false;
};

inline void Value::Release() {
  if (object_ != nullptr && --object_->refs_ == 0) object_->heap_->Free(object_);
}

struct TextObject : Object {
  explicit TextObject(std::string given) : text(std::move(given)) {}
  std::string text;
};

struct ListObject : Object {
  explicit ListObject(std::vector<Value> given) : items(std::move(given)) {}
  void Clear() override { items.clear(); }
  std::vector<Value> items;
  bool group = false;  // of groupby: has the attributes grouper and list
};

// Keys in the order in which they came.
struct DictObject : Object {
  void Clear() override {
    entries.clear();
    places.clear();
  }
  const Value* Find(std::string_view key) const;
  const Value* Find(Interp& interp, const Value& key) const;  // fails if it cannot be hashed
  void Set(Interp& interp, const Value& key, Value value);
  void Reserve(Heap& heap, size_t size);  // room for `size` entries
  std::vector<std::pair<Value, Value>> entries;

 private:
  size_t Place(Interp& interp, const Value& key, size_t hash) const;
  std::unordered_multimap<size_t, size_t> places;  // by Interp::Hash; empty while there are few
};

struct RangeObject : Object {
  RangeObject(int64_t from, int64_t to, int64_t by, int64_t n)
      : start(from), stop(to), step(by), count(n) {}
  int64_t start, stop, step, count;
};

struct ViewObject : Object {
  enum class What { kKeys, kValues, kItems };
  ViewObject(Value of, What part) : dict(std::move(of)), what(part) {}
  void Clear() override { dict = Value(); }
  Value dict;
  What what;
};

// What Python computes item by item is computed at once here; an error waits for its place.
struct IteratorObject : Object {
  IteratorObject(const char* name, std::vector<Value> given)
      : type(name), items(std::move(given)) {}
  void Clear() override { items.clear(); }
  const char* type;
  std::vector<Value> items;
  size_t at = 0;
  bool failed = false;
  Error error;
};

struct NamespaceObject : Object {
  void Clear() override { attributes = Value(); }
  Value attributes;  // a dict
};

struct CyclerObject : Object {
  void Clear() override { items.clear(); }
  std::vector<Value> items;
  size_t at = 0;
};

struct JoinerObject : Object {
  void Clear() override { separator = Value(); }
  Value separator;
  bool used = false;
};

}  // namespace penstock::chat::jinja
