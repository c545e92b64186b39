#include "cpu/kv_pages.h"

#include <sys/mman.h>

#include <limits>
#include <string>
#include <utility>

namespace penstock::cpu {
namespace {

int64_t GroupsOf(int64_t blocks) { return (blocks + kKvGroup - 1) / kKvGroup; }

}  // namespace

Expected<KvPages> KvPages::Reserve(uint64_t head_bytes, int64_t heads, int64_t blocks) {
  const auto refuse = [&](const char* why) {
    return Status(StatusCode::kResourceExhausted,
                  std::string(why) + " for a cache of " + std::to_string(blocks) + " blocks of " +
                      std::to_string(heads) + " heads of " + std::to_string(head_bytes) + " bytes");
  };
  // Places are counted in 32 bits.
  if (head_bytes == 0 || heads <= 0 || blocks <= 0 ||
      GroupsOf(blocks) > std::numeric_limits<int32_t>::max() / kKvGroup / heads) {
    return refuse("no room");
  }
  KvPages pages(nullptr, head_bytes, heads, blocks);
  void* const data = mmap(nullptr, pages.bytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return refuse("no address space");
  madvise(data, pages.bytes(), MADV_HUGEPAGE);
  pages.data_ = static_cast<uint8_t*>(data);
  return pages;
}

KvPages::KvPages(KvPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      head_bytes_(other.head_bytes_),
      heads_(other.heads_),
      blocks_(other.blocks_) {}

KvPages& KvPages::operator=(KvPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(head_bytes_, other.head_bytes_);
  std::swap(heads_, other.heads_);
  std::swap(blocks_, other.blocks_);
  return *this;
}

KvPages::~KvPages() {
  if (data_ != nullptr) munmap(data_, bytes());
}

uint64_t KvPages::bytes() const {
  return static_cast<uint64_t>(GroupsOf(blocks_) * kKvGroup * heads_) * head_bytes_;
}

}  // namespace penstock::cpu
