#include "bulk/shard_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/regular_file.h"

namespace penstock::bulk {
namespace {

constexpr size_t kClaimBytesMax = 4096;

Status CannotClaim(const std::string& path) {
  return {StatusCode::kUnavailable, fmt::format("cannot write {}: {}", path, strerror(errno))};
}

std::string FirstLineOf(const char* path) {
  const auto text = ReadRegularFile(path, kClaimBytesMax);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

// Among whose processes a number means this one: the machine since it was started, and its
// namespace of processes.
std::string ThisMachine() {
  char host[256] = {};
  char processes[64] = {};
  (void)gethostname(host, sizeof host - 1);
  (void)!readlink("/proc/self/ns/pid", processes, sizeof processes - 1);
  return fmt::format("{} {} {}", host, FirstLineOf("/proc/sys/kernel/random/boot_id"), processes);
}

// When a process began, in ticks since the machine did: numbers of processes are used again.
// proc(5): the 22nd field, of which the second may hold blanks and is in parentheses.
std::string BeginOf(int64_t process) {
  const std::string stat = FirstLineOf(fmt::format("/proc/{}/stat", process).c_str());
  size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

// "MACHINE\nPROCESS\nBEGIN\n"
std::string ClaimText() {
  return fmt::format("{}\n{}\n{}\n", ThisMachine(), getpid(), BeginOf(getpid()));
}

enum class Holder { kHere, kHereNoMore, kElsewhere };

Holder HolderOf(const std::string& text) {
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) return Holder::kElsewhere;
  if (text.substr(0, first) != ThisMachine()) return Holder::kElsewhere;
  int64_t process = 0;
  for (const char c : text.substr(first + 1, second - first - 1)) {
    if (c < '0' || c > '9' || process > INT32_MAX) return Holder::kElsewhere;
    process = process * 10 + (c - '0');
  }
  const bool lives = kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM;
  const std::string begin = text.substr(second + 1, text.find('\n', second + 1) - second - 1);
  return lives && BeginOf(process) == begin ? Holder::kHere : Holder::kHereNoMore;
}

// A file of a name of its own beside `path`, with the claim's text; *facts are its.
Expected<std::string> WriteBeside(const std::string& path, struct stat* facts) {
  std::string mine = path + ".XXXXXX";
  const FileDescriptor file(mkostemp(mine.data(), O_CLOEXEC));
  if (file.get() < 0) return CannotClaim(path);
  const std::string text = ClaimText();
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fstat(file.get(), facts) != 0) {
    const Status failure = CannotClaim(mine);
    unlink(mine.c_str());
    return failure;
  }
  return mine;
}

}  // namespace

// Touches the file until it is destroyed.
class ShardClaim::Toucher {
 public:
  explicit Toucher(ShardClaim* claim) : claim_(claim), thread_([this] { Run(); }) {}
  ~Toucher() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    stop_.notify_one();
    thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, kTouchEvery, [this] { return stopped_; })) {
      if (claim_->IsMine() && utimensat(AT_FDCWD, claim_->path_.c_str(), nullptr, 0) == 0) continue;
      claim_->lost_.store(true, std::memory_order_relaxed);
      return;
    }
  }

  ShardClaim* const claim_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // guarded by mutex_
  std::thread thread_;    // last: it uses the others
};

ShardClaim::ShardClaim(std::string path, uint64_t inode, bool from_elsewhere)
    : path_(std::move(path)), inode_(inode), from_elsewhere_(from_elsewhere) {
  toucher_ = std::make_unique<Toucher>(this);
}

ShardClaim::~ShardClaim() {
  toucher_.reset();
  if (IsMine()) unlink(path_.c_str());
}

bool ShardClaim::IsMine() const {
  struct stat facts {};
  return stat(path_.c_str(), &facts) == 0 && facts.st_ino == inode_;
}

Expected<std::unique_ptr<ShardClaim>> ShardClaim::Take(const std::string& folder, int64_t shard) {
  const std::string path = fmt::format("{}/claim-{:05}", folder, shard);
  struct stat facts {};
  PENSTOCK_ASSIGN_OR_RETURN(const std::string mine, WriteBeside(path, &facts));
  const auto make = [&](bool from_elsewhere) {
    return std::unique_ptr<ShardClaim>(new ShardClaim(path, facts.st_ino, from_elsewhere));
  };
  const int error = link(mine.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (error == 0) {
    unlink(mine.c_str());
    return make(false);
  }
  errno = error;
  if (error != EEXIST) {
    const Status failure = CannotClaim(path);
    unlink(mine.c_str());
    return failure;
  }
  struct stat there {};
  const auto text = ReadRegularFile(path, kClaimBytesMax);
  const Holder holder = text.ok() ? HolderOf(*text) : Holder::kElsewhere;
  const bool seen = stat(path.c_str(), &there) == 0;
  // Both times are the file system's.
  const bool stale = seen && facts.st_mtime - there.st_mtime > kStaleAfter.count();
  if (!seen || (holder != Holder::kHereNoMore && !stale) ||
      rename(mine.c_str(), path.c_str()) != 0) {
    unlink(mine.c_str());
    return std::unique_ptr<ShardClaim>();
  }
  auto claim = make(holder == Holder::kElsewhere);
  // Another process may have taken it over at the same time: the last one has it.
  if (!claim->IsMine()) return std::unique_ptr<ShardClaim>();
  return claim;
}

}  // namespace penstock::bulk
