// The library's static objects are never destroyed. A process may return from main() with models
// open, and their threads go on until it has ended: what they use must stay. The compiler hands every
// destructor of a static object to __cxa_atexit (Itanium C++ ABI, 3.3.5.3); inside of the library that
// is this function, which forgets it. std::atexit comes here, too: nothing in the library uses it.

extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*destructor)(void*), void* object,
                                                          void* library) {
  (void)destructor;
  (void)object;
  (void)library;
  return 0;
}
