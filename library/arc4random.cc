// arc4random(3) for the runtime of C++ that the library carries, whose random_device calls it: the
// one of glibc came with 2.36, and older systems are to load the library.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" [[gnu::visibility("hidden")]] uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // Whole up to 256 bytes, unless the kernel has no randomness yet, for which it waits.
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) std::abort();
  return number;
}
