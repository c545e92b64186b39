// A safetensors file: the input is the file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "files/tensor_store.h"
#include "fuzz_util.h"

namespace penstock {
namespace {

// A file in memory that every run writes anew.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("safetensors", MFD_CLOEXEC)) { PENSTOCK_CHECK(fd_ >= 0); }
  ~MemoryFile() { close(fd_); }
  void Write(const uint8_t* data, size_t size) const {
    PENSTOCK_CHECK(ftruncate(fd_, 0) == 0);
    PENSTOCK_CHECK(pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void CheckTensor(const files::TensorStore& store, const files::TensorRecord& tensor) {
  PENSTOCK_CHECK(store.Find(tensor.name) == &tensor);
  const int64_t elements = tensor.elements();
  PENSTOCK_CHECK(elements >= 0);
  PENSTOCK_CHECK(tensor.data.size() ==
                 static_cast<size_t>(elements) * numbers::DTypeBytes(tensor.dtype));
  std::vector<float> values(static_cast<size_t>(elements));
  const Status copied = tensor.CopyToF32(values);
  if (!copied.ok()) return;
  uint8_t sum = 0;  // every byte can be read
  for (const std::byte byte : tensor.data) sum = static_cast<uint8_t>(sum ^ uint8_t(byte));
  volatile uint8_t kept = sum;
  (void)kept;
}

// Changes the header and mostly tells its length right.
size_t MutateFile(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  constexpr size_t kLength = 8;
  if (size < kLength || size_max <= kLength + 16 || seed % 8 == 0) {
    return fuzz::MutateText(data, size, size_max, seed);
  }
  uint64_t claimed = 0;
  std::memcpy(&claimed, data, kLength);
  const size_t header = std::min<uint64_t>(claimed, size - kLength);
  const std::vector<uint8_t> tail(data + kLength + header, data + size);
  const size_t room = size_max - kLength - tail.size();
  if (room == 0) return fuzz::MutateText(data, size, size_max, seed);
  const size_t now = fuzz::MutateJson(data + kLength, std::min(header, room), room, seed);
  const uint64_t length = now;
  std::memcpy(data, &length, kLength);
  std::copy(tail.begin(), tail.end(), data + kLength + now);
  return kLength + now + tail.size();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const MemoryFile file;
  file.Write(data, size);
  const auto store = files::TensorStore::OpenFile(file.path());
  if (!store.ok()) {
    const std::string message = store.status().message();
    PENSTOCK_CHECK(!message.empty() && message.size() < 4000);
    return 0;
  }
  uint64_t bytes = 0;
  for (const files::TensorRecord& tensor : (*store)->tensors()) {
    CheckTensor(**store, tensor);
    bytes += tensor.data.size();
  }
  PENSTOCK_CHECK(bytes == (*store)->bytes_total() && bytes <= size);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::MutateFile)
