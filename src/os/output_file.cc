#include "os/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "os/sync_folder.h"

namespace penstock {
namespace {

constexpr mode_t kMode = 0666;  // less the umask

Status CannotWrite(const std::string& path, int error) {
  return {StatusCode::kUnavailable, fmt::format("cannot write {}: {}", path, strerror(error))};
}

Status CannotOpen(const std::string& path, int error) {
  return Status::InvalidArgument(fmt::format("{}: {}", path, strerror(error)), "output");
}

}  // namespace

std::string WithoutLinks(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? path : std::string(real.get());
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file < 0) return CannotWrite(fresh, errno);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) error = errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (error == 0 && fdatasync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return Status::Ok();
  unlink(fresh.c_str());
  return CannotWrite(path, error);
}

Expected<OutputFile> OutputFile::OpenPart(const std::string& path, bool fresh) {
  const std::string part = path + ".part";
  const int file = open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (file < 0) return CannotOpen(part, errno);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(fdopen(file, "r+b"), std::fclose);
  if (stream == nullptr) {
    close(file);
    return CannotOpen(part, ENOMEM);
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return Status::InvalidArgument(fmt::format("{}: another command is writing {}", path, part),
                                   "output");
  }
  struct stat old {};
  struct stat mine {};
  if (fstat(file, &mine) != 0 || stat(part.c_str(), &old) != 0 || old.st_ino != mine.st_ino) {
    return Status::InvalidArgument(
        fmt::format("{}: another command has just removed {}", path, part), "output");
  }
  // The permissions of the file whose place it takes.
  if (stat(path.c_str(), &old) == 0) (void)fchmod(file, old.st_mode & 07777);
  if (fresh && ftruncate(file, 0) != 0) return CannotOpen(part, errno);
  return OutputFile(stream.release(), path, part);
}

Expected<OutputFile> OutputFile::Open(const std::string& path) {
  if (path.empty() || path == "-") return OutputFile(stdout, "stdout", "");
  struct stat old {};
  if (stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode)) {
    std::FILE* const file = std::fopen(path.c_str(), "wbe");
    if (file == nullptr) return CannotOpen(path, errno);
    return OutputFile(file, path, "");
  }
  return OpenPart(WithoutLinks(path), true);
}

Expected<OutputFile> OutputFile::Resume(const std::string& path, int64_t bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile output, OpenPart(WithoutLinks(path), false));
  output.Keep();
  struct stat is {};
  const int file = fileno(output.file_);
  if (fstat(file, &is) != 0) return CannotOpen(output.part_, errno);
  if (is.st_size < bytes) {
    return Status::InvalidArgument(
        fmt::format("{} has {} bytes, and should have {}", output.part_, is.st_size, bytes),
        "output");
  }
  if (ftruncate(file, bytes) != 0) return CannotOpen(output.part_, errno);
  output.Seek(bytes);
  PENSTOCK_RETURN_IF_ERROR(output.status());
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      written_(other.written_),
      error_(other.error_),
      keep_(other.keep_) {}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  // Before the lock goes with the file: the next command may make another of this name.
  if (HasPart() && !keep_) unlink(part_.c_str());
  if (file_ != stdout) std::fclose(file_);
}

void OutputFile::Failed() {
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

void OutputFile::Write(std::string_view bytes) {
  if (error_ != 0) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) Failed();
  written_ += static_cast<int64_t>(bytes.size());
}

void OutputFile::Seek(int64_t offset) {
  if (error_ == 0 && fseeko(file_, offset, SEEK_SET) != 0) Failed();
  written_ = offset;
}

Status OutputFile::status() const {
  return error_ == 0 ? Status::Ok() : CannotWrite(HasPart() ? part_ : path_, error_);
}

Status OutputFile::Sync() {
  if (error_ == 0 && std::fflush(file_) != 0) Failed();
  if (error_ == 0 && HasPart() && fdatasync(fileno(file_)) != 0) Failed();
  return status();
}

Status OutputFile::Close() {
  Status status = Sync();
  if (status.ok() && HasPart() && rename(part_.c_str(), path_.c_str()) != 0) {
    status = CannotWrite(path_, errno);
  }
  if (!status.ok() && HasPart() && !keep_) unlink(part_.c_str());
  if (file_ != stdout && std::fclose(file_) != 0 && status.ok()) status = CannotWrite(path_, errno);
  file_ = nullptr;
  if (status.ok() && HasPart()) (void)SyncFolderOf(path_);
  return status;
}

Status OutputFile::CloseAfter(Status done) {
  if (done.ok()) return Close();
  if (!HasPart()) return done;
  Keep();
  (void)Sync();
  return {done.code(), fmt::format("{}; {} holds what was written", done.message(), part_),
          done.field()};
}

}  // namespace penstock
