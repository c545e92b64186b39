// What tests of tensor models share: the runtime, or a skip that says why; golden models.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "openvino/runtime.h"

// Skips the test, with the reason, where CanOpenRuntime says no. What is installed must open.
#define PENSTOCK_RUNTIME_OR_SKIP(runtime)                         \
  if (const Status can_open_ = CanOpenRuntime(); !can_open_.ok()) \
    GTEST_SKIP() << "NOT TESTED: " << can_open_.message();        \
  const auto shared_ = Runtime::Shared();                         \
  ASSERT_TRUE(shared_.ok()) << shared_.status().ToString();       \
  const Runtime* const runtime = *shared_

namespace penstock::openvino {

// OK where OpenVINO is installed and the build has no sanitizer.
inline Status CanOpenRuntime() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return Status(StatusCode::kUnavailable, "TBB opens libraries in a way that sanitizers refuse");
#else
  return FindRuntimeFolder().status();
#endif
}

inline std::string Golden(const std::string& name) {
  return std::string(PENSTOCK_GOLDEN_DIR) + "/tensors/" + name;
}

inline std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace penstock::openvino
