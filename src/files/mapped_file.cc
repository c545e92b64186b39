#include "files/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

namespace penstock::files {

// The state that the signal handler may read. A place is taken by setting `taken`; `begin` is set
// last and cleared first, so a place with a `begin` is complete.
struct MappedFile::Mapping {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};

struct MappedFile::Handler {
  static std::array<Mapping, kMappedMax> mappings;
  static struct sigaction before;

  static Mapping* Take() {
    for (Mapping& mapping : mappings) {
      bool taken = false;
      if (mapping.taken.compare_exchange_strong(taken, true)) return &mapping;
    }
    return nullptr;
  }
  static void Set(Mapping* mapping, const void* data, size_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    mapping->damaged.store(false);
    mapping->end.store(begin + size);
    mapping->begin.store(begin);
  }
  static void GiveBack(Mapping* mapping) {
    mapping->begin.store(0);
    mapping->taken.store(false);
  }

  static void Install() {
    static std::once_flag once;
    std::call_once(once, [] {
      struct sigaction action {};
      action.sa_sigaction = OnSignal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      PENSTOCK_CHECK(::sigaction(SIGBUS, &action, &before) == 0);
    });
  }

  // Maps zeros from the page touched to the end of the mapping. POSIX does not list mmap as safe in
  // handlers, but on Linux it is a plain system call.
  static bool Mend(uintptr_t address) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (Mapping& mapping : mappings) {
      const uintptr_t begin = mapping.begin.load();
      const uintptr_t end = mapping.end.load();
      if (begin == 0 || address < begin || address >= end) continue;
      mapping.damaged.store(true);
      const uintptr_t from = address / page * page;
      return ::mmap(reinterpret_cast<void*>(from), end - from, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
  }

  static void OnSignal(int number, siginfo_t* info, void* context) {
    const int saved = errno;
    // Positive codes are the kernel's own; others come from kill().
    const bool mended = info->si_code > 0 && Mend(reinterpret_cast<uintptr_t>(info->si_addr));
    errno = saved;
    if (mended) return;
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
      return before.sa_handler(number);
    }
    // Restores the previous handler and returns: the access faults again; a signal of kill() is
    // sent again.
    ::sigaction(SIGBUS, &before, nullptr);
    if (info->si_code <= 0) ::raise(number);
  }
};

std::array<MappedFile::Mapping, MappedFile::kMappedMax> MappedFile::Handler::mappings;
struct sigaction MappedFile::Handler::before;

void MappedFile::MendTruncated() { Handler::Install(); }

Expected<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile file;
  PENSTOCK_ASSIGN_OR_RETURN(file.file_, OpenRegularFile(path));
  struct stat info {};
  if (::fstat(file.file_.get(), &info) != 0) {
    return Status::Internal("cannot read " + path + ": " + std::strerror(errno));
  }
  file.path_ = path;
  if (info.st_size == 0) return file;
  Mapping* mapping = Handler::Take();
  if (mapping == nullptr) {
    return Status(StatusCode::kPayloadTooLarge, "cannot map " + path + ": " +
                                                    std::to_string(kMappedMax) +
                                                    " files are mapped, the most at once");
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.file_.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    Handler::GiveBack(mapping);
    return Status::Internal("cannot map " + path + ": " + std::strerror(error));
  }
  Handler::Set(mapping, data, size);
  file.mapping_ = mapping;
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

Status MappedFile::Check() const {
  struct stat info {};
  const bool damaged = mapping_ != nullptr && mapping_->damaged.load();
  // Truncation within the last page raises no signal.
  if (!damaged && ::fstat(file_.get(), &info) == 0 && static_cast<size_t>(info.st_size) >= size_) {
    return Status::Ok();
  }
  return {StatusCode::kUnavailable, path_ + " was cut while it was read"};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (mapping_ == nullptr) return;
  Handler::GiveBack(mapping_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace penstock::files
