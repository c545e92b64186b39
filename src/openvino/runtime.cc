#include "openvino/runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "base/printable.h"

namespace penstock::openvino {
namespace {

constexpr char kVariable[] = "PENSTOCK_OPENVINO";
constexpr char kLibraryPrefix[] = "libopenvino_c.so";
constexpr size_t kReasonBytesMax = 600;

Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The library in `folder`, or "". Among several the last by name, which is the newest.
std::string FindLibrary(const std::string& folder) {
  std::string found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kLibraryPrefix)) found = std::max(found, name);
  }
  return found.empty() ? "" : folder + "/" + found;
}

// Where install_openvino.py is.
constexpr char kInstaller[] =
    "install_openvino.py (in tools/ of Penstock's sources, in share/penstock/ of an installation)";

bool IsPlaceInSources(std::string_view line) {
  return line.starts_with("Exception from ") ||
         (line.starts_with("Check '") && line.find("' failed at ") != std::string_view::npos);
}

}  // namespace

std::vector<std::string> RuntimeFolders() {
  if (const std::string given = Variable(kVariable); !given.empty()) return {given};
  std::vector<std::string> folders;
  std::string data = Variable("XDG_DATA_HOME");
  if (const std::string home = Variable("HOME"); data.empty() && !home.empty()) {
    data = home + "/.local/share";
  }
  if (!data.empty()) folders.push_back(data + "/penstock/openvino");
  folders.emplace_back("/usr/local/lib/penstock/openvino");
  folders.emplace_back("/usr/lib/penstock/openvino");
  return folders;
}

Expected<std::string> FindRuntimeFolder() {
  std::string places;
  for (const std::string& folder : RuntimeFolders()) {
    if (!FindLibrary(folder).empty()) return folder;
    places += (places.empty() ? "" : ", ") + folder;
  }
  return Unavailable(
      fmt::format("tensor models need OpenVINO, which is not in {}; install it with {}, or name "
                  "its folder in {}",
                  Printable(places), kInstaller, kVariable));
}

Status CheckMayMakeCode() {
  const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return {StatusCode::kResourceExhausted, "there is no memory to open OpenVINO"};
  }
  const bool may = mprotect(page, size, PROT_READ | PROT_EXEC) == 0;
  const int error = errno;
  munmap(page, size);
  if (may) return Status::Ok();
  return Unavailable(
      fmt::format("tensor models need OpenVINO, which makes machine code at run time; this process "
                  "may not run memory that was written ({}). Under systemd, set "
                  "MemoryDenyWriteExecute=no in the unit",
                  std::strerror(error)));
}

Expected<const Runtime*> Runtime::Shared() {
  static std::mutex mutex;
  static const Runtime* shared = nullptr;  // never closed: its threads may outlive main
  const std::lock_guard lock(mutex);
  if (shared == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, FindRuntimeFolder());
    PENSTOCK_RETURN_IF_ERROR(CheckMayMakeCode());
    PENSTOCK_ASSIGN_OR_RETURN(auto opened, Open(folder));
    shared = opened.release();
  }
  return shared;
}

Expected<std::unique_ptr<Runtime>> Runtime::Open(const std::string& folder) {
  const std::string path = FindLibrary(folder);
  if (path.empty()) {
    return Unavailable(fmt::format("{}: there is no {}", Printable(folder), kLibraryPrefix));
  }
  // Local: no symbol of it takes the place of one of Penstock's.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return Unavailable("cannot open OpenVINO: " +
                       Printable(reason != nullptr ? reason : path, kReasonBytesMax));
  }
  std::unique_ptr<Runtime> runtime(new Runtime);
  runtime->folder_ = folder;
  PENSTOCK_RETURN_IF_ERROR(runtime->Fill(library).Annotate(Printable(path)));
  PENSTOCK_RETURN_IF_ERROR(runtime->CheckVersion().Annotate(Printable(path)));
  PENSTOCK_RETURN_IF_ERROR(runtime->Start().Annotate(Printable(path)));
  return runtime;
}

Runtime::~Runtime() {
  if (core_ != nullptr) api_.core_free(core_);
}

Status Runtime::Fill(void* library) {
  std::string missing;
  const auto find = [&](auto* function, const char* symbol) {
    void* const address = dlsym(library, symbol);
    if (address == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(address);
  };
#define PENSTOCK_OPENVINO_FIND(name, result, arguments) find(&api_.name, "ov_" #name);
  PENSTOCK_OPENVINO_FUNCTIONS(PENSTOCK_OPENVINO_FIND)
#undef PENSTOCK_OPENVINO_FIND
  if (missing.empty()) return Status::Ok();
  return Unavailable(fmt::format("this is not OpenVINO {}: it lacks {}; {} installs one",
                                 kReleaseYear, missing, kInstaller));
}

Status Runtime::CheckVersion() {
  ApiVersion version;
  PENSTOCK_RETURN_IF_ERROR(
      ToStatus(api_.get_openvino_version(&version), StatusCode::kUnavailable, "its version"));
  if (version.build != nullptr) version_ = Printable(version.build, kReasonBytesMax);
  api_.version_free(&version);
  if (version_.starts_with(fmt::format("{}.", kReleaseYear))) return Status::Ok();
  return Unavailable(fmt::format("OpenVINO {} is there, Penstock needs one of {}; {} installs it",
                                 version_, kReleaseYear, kInstaller));
}

Status Runtime::Start() {
  PENSTOCK_RETURN_IF_ERROR(
      ToStatus(api_.core_create(&core_), StatusCode::kUnavailable, "cannot start OpenVINO"));
  // Weights are read, not mapped: a file that is cut while it is mapped would end the process.
  const ApiProperty property{"ENABLE_MMAP", "NO"};
  PENSTOCK_RETURN_IF_ERROR(ToStatus(api_.core_set_properties(core_, nullptr, 1, &property),
                                    StatusCode::kUnavailable, "cannot set ENABLE_MMAP"));
  // Opens the plugin, so that one that is missing is told now.
  char* name = nullptr;
  PENSTOCK_RETURN_IF_ERROR(ToStatus(api_.core_get_property(core_, "CPU", "FULL_DEVICE_NAME", &name),
                                    StatusCode::kUnavailable,
                                    "cannot open OpenVINO's plugin for CPUs"));
  api_.free(name);
  return Status::Ok();
}

Status Runtime::ToStatus(int status, StatusCode code, const std::string& what) const {
  if (status == kApiOk) return Status::Ok();
  std::string reason;
  if (status == kApiInvalidArgument) {
    // Leaves the reason of an earlier failure.
  } else if (const char* const text = api_.get_last_err_msg(); text != nullptr) {
    reason = text;
    api_.free(text);
  }
  if (reason.find("std::bad_alloc") != std::string::npos) {
    return {StatusCode::kResourceExhausted, what + ": there is not enough memory"};
  }
  reason = ShortReason(reason);
  if (reason.empty()) reason = fmt::format("OpenVINO's status is {}", status);
  return {code, what + ": " + reason};
}

std::string BackendName(const Runtime& runtime, int threads) {
  return fmt::format("openvino {} ({} threads)",
                     runtime.version().substr(0, runtime.version().find('-')), threads);
}

std::string ShortReason(const std::string& text) {
  std::string reason;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.back() == ' ' || line.back() == ':')) line.remove_suffix(1);
    if (line.empty() || IsPlaceInSources(line)) continue;
    if (!reason.empty()) reason += "; ";
    reason += line;
  }
  return Printable(reason, kReasonBytesMax);
}

}  // namespace penstock::openvino
