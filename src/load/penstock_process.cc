#include "load/penstock_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

extern char** environ;

namespace penstock::load {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::string PenstockPath() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink(kSelf, failed);
  return program.filename() == "penstock-lab" ? program.parent_path() / "penstock" : kSelf;
}

}  // namespace

Expected<pid_t> SpawnPenstock(std::vector<std::string> words, int stdout_fd) {
  words.insert(words.begin(), "penstock");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, PenstockPath().c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return Status(StatusCode::kUnavailable,
                "cannot start penstock " + words[1] + ": " + strerror(error));
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string FileBesideProgram(const std::string& name) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink(kSelf, failed);
  if (failed) return "";
  const auto file = program.parent_path() / name;
  return std::filesystem::exists(file, failed) ? file.string() : "";
}

Expected<int> RunPenstock(std::vector<std::string> words) {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto pid = SpawnPenstock(std::move(words), null);
  close(null);
  PENSTOCK_RETURN_IF_ERROR(pid.status());
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitCodeOf(status);
}

}  // namespace penstock::load
