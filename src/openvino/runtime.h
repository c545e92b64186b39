// OpenVINO, opened at run time: it runs tensor models. Without it everything else works.
//
// The library is looked for, as libopenvino_c.so*, in
//   1. the folder that the variable PENSTOCK_OPENVINO names, and then nowhere else;
//   2. ${XDG_DATA_HOME:-~/.local/share}/penstock/openvino;
//   3. /usr/local/lib/penstock/openvino, /usr/lib/penstock/openvino.
// install_openvino.py fills the second, or the third with --system: it is in tools/ of the sources
// and in share/penstock/ of an installation. A Python package of OpenVINO that happens to be
// installed is not taken: its version is not Penstock's choice.
//
// Once opened it stays until the process ends, as do the threads that it starts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "openvino/api.h"

namespace penstock::openvino {

// The year of the releases whose functions api.h declares.
inline constexpr int kReleaseYear = 2026;

// Where the library is looked for, in order.
std::vector<std::string> RuntimeFolders();
// The first of them that has it. kUnavailable: none; the message says how to install it.
Expected<std::string> FindRuntimeFolder();

// OpenVINO writes machine code into memory and runs it. kUnavailable: this process may not do that;
// the message names the setting of a service manager that forbids it.
Status CheckMayMakeCode();

class Runtime {
 public:
  // The runtime of the process, opened by the first call that succeeds; a later call tries again
  // where it failed, for it may have been installed meanwhile. Any thread may call.
  // kUnavailable: as FindRuntimeFolder and CheckMayMakeCode, or what is there is no OpenVINO of
  // kReleaseYear.
  static Expected<const Runtime*> Shared();
  // The same from one folder, for tests: not shared.
  static Expected<std::unique_ptr<Runtime>> Open(const std::string& folder);

  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Api& api() const { return api_; }
  const ApiCore* core() const { return core_; }
  const std::string& version() const { return version_; }  // "2026.4.1-22982-..."
  const std::string& folder() const { return folder_; }

  // The failure of the call before, as "what: reason". `status`: what the call gave; kApiOk gives
  // OK. Failures have `code`, but kResourceExhausted where memory was short. The library keeps one
  // reason for all threads: calls that fail at the same instant may report each other's.
  Status ToStatus(int status, StatusCode code, const std::string& what) const;

 private:
  Runtime() = default;
  Status Fill(void* library);
  Status CheckVersion();
  Status Start();

  std::string folder_;
  std::string version_;
  Api api_;
  ApiCore* core_ = nullptr;
};

// "openvino 2026.4.1 (2 threads)": what computes, as users are told.
std::string BackendName(const Runtime& runtime, int threads);

// What OpenVINO says of a failure, without the places in its sources, on one line of bounded
// length.
std::string ShortReason(const std::string& text);

}  // namespace penstock::openvino
