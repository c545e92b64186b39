// What the emulator tells ThreadSanitizer, so that it reports data races of kernels: between threads
// of a block, between blocks, and with what copies or multiplies beside them. A report ends the launch
// with an error. Without that sanitizer all of this is empty.
//
// The sanitizer takes each fiber for a thread, and an engine, which copies or multiplies for a warp,
// too. Marks alone order them: a barrier releases one as threads arrive and acquires it as they leave.
// The emulator's own files are compiled without the sanitizer (cmake/modules.cmake): what they read and
// write is not the kernel's, but for what they tell here. What it intercepts all the same, such as
// malloc and memcpy, is called Inside.
//
// Not reported: a read of what a copy of 16 bytes has yet to write, between two barriers, which finds
// the emulator's poison; a product of stores without a fence, where a thread that knew of them has
// since started a copy that landed before the product.
#pragma once

#include <cstddef>
#include <string>

#if defined(__SANITIZE_THREAD__) || defined(PENSTOCK_TELLS_RACES)
#define PENSTOCK_RACES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_RACES 1
#endif
#endif
#ifdef PENSTOCK_RACES
#include <sanitizer/tsan_interface.h>

extern "C" {
void __tsan_read_range(void* at, unsigned long bytes);
void __tsan_write_range(void* at, unsigned long bytes);
void __tsan_read_range_pc(void* at, unsigned long bytes, void* line);
void __tsan_write_range_pc(void* at, unsigned long bytes, void* line);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace penstock::cuda::race {

struct Mark {
  char at = 0;
};

#ifdef PENSTOCK_RACES

inline constexpr bool kOn = true;

// Reports of the process so far.
int Reports();

inline void Release(Mark* mark) { __tsan_release(mark); }
inline void Acquire(Mark* mark) { __tsan_acquire(mark); }
// An access by the thread that calls, at the line that calls or at `line`, an address of code.
inline void Read(const void* at, size_t bytes) { __tsan_read_range(const_cast<void*>(at), bytes); }
inline void Write(void* at, size_t bytes) { __tsan_write_range(at, bytes); }
// Only until the first report, as there is one for each 8 bytes.
template <typename Tell>
inline void Pieces(void* at, size_t bytes, void* line, Tell tell) {
  constexpr size_t kPiece = 64;
  const int reports = Reports();
  for (size_t i = 0; i < bytes && Reports() == reports; i += kPiece) {
    tell(static_cast<char*>(at) + i, bytes - i < kPiece ? bytes - i : kPiece, line);
  }
}
inline void Read(const void* at, size_t bytes, void* line) {
  Pieces(const_cast<void*>(at), bytes, line, __tsan_read_range_pc);
}
inline void Write(void* at, size_t bytes, void* line) {
  Pieces(at, bytes, line, __tsan_write_range_pc);
}

inline thread_local int insides = 0;  // of the fiber that runs
inline void Enter() {
  ++insides;
  __tsan_ignore_thread_begin();
}
inline void Leave() {
  --insides;
  __tsan_ignore_thread_end();
}
// While it lives, accesses of this thread are not the kernel's.
struct Inside {
  Inside() { Enter(); }
  ~Inside() { Leave(); }
  Inside(const Inside&) = delete;
};
// In the midst of an Inside they are.
struct Outside {
  Outside() { Leave(); }
  ~Outside() { Enter(); }
  Outside(const Outside&) = delete;
};
// While it lives, this thread counts as that of a fiber. In files without the sanitizer alone.
class As {
 public:
  explicit As(void* context) : before_(__tsan_get_current_fiber()) {
    __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync);
  }
  ~As() { __tsan_switch_to_fiber(before_, __tsan_switch_to_fiber_no_sync); }
  As(const As&) = delete;

 private:
  void* before_;
};

// For reports.
inline void Name(void* context, const std::string& name) {
  __tsan_set_fiber_name(context, name.c_str());
}

#else

inline constexpr bool kOn = false;

inline void Release(Mark*) {}
inline void Acquire(Mark*) {}
inline void Read(const void*, size_t) {}
inline void Write(void*, size_t) {}
inline void Read(const void*, size_t, void*) {}
inline void Write(void*, size_t, void*) {}
struct [[maybe_unused]] Inside {};
struct [[maybe_unused]] Outside {};
struct [[maybe_unused]] As {
  explicit As(void*) {}
};
inline void Name(void*, const std::string&) {}
inline int Reports() { return 0; }

#endif

// The marks of a barrier that is used again and again. There are two: a thread may arrive at the
// next phase before another one has left this one.
class Phases {
 public:
  // Returns what the thread is to acquire once all have arrived.
  Mark* Arrive() {
    Mark* const mark = &marks_[odd_ ? 1 : 0];
    Release(mark);
    return mark;
  }
  void Next() { odd_ = !odd_; }

 private:
  Mark marks_[2];
  bool odd_ = false;
};

}  // namespace penstock::cuda::race
