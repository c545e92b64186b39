#include "cpu/kv_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/int_math.h"

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
  KvPages pages(head_bytes, heads, blocks);
  void* const data = mmap(nullptr, pages.bytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return refuse("no address space");
  madvise(data, pages.bytes(), MADV_HUGEPAGE);
  pages.data_ = static_cast<uint8_t*>(data);
  return pages;
}

KvPages::KvPages(uint64_t head_bytes, int64_t heads, int64_t blocks)
    : head_bytes_(head_bytes),
      heads_(heads),
      blocks_(blocks),
      committed_(static_cast<size_t>(GroupsOf(blocks))),
      named_(committed_.size()) {}

KvPages::KvPages(KvPages&& other) noexcept { *this = std::move(other); }

KvPages& KvPages::operator=(KvPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(head_bytes_, other.head_bytes_);
  std::swap(heads_, other.heads_);
  std::swap(blocks_, other.blocks_);
  std::swap(committed_, other.committed_);
  std::swap(named_, other.named_);
  committed_groups_ = other.committed_groups_.exchange(committed_groups_);
  return *this;
}

KvPages::~KvPages() {
  if (data_ != nullptr) munmap(data_, bytes());
}

// A bit for each of its blocks; the last group may have fewer than the others.
uint8_t KvPages::WholeGroup(size_t group) const {
  const int64_t blocks =
      std::min<int64_t>(kKvGroup, blocks_ - static_cast<int64_t>(group) * kKvGroup);
  return static_cast<uint8_t>((1u << blocks) - 1);
}

uint64_t KvPages::Release(std::span<const int32_t> blocks) {
  static_assert(kKvGroup <= 8);
  for (const int32_t id : blocks) {
    PENSTOCK_CHECK(id >= 0 && id < blocks_);
    named_[static_cast<size_t>(id / kKvGroup)] |= static_cast<uint8_t>(1u << id % kKvGroup);
  }
  const auto given = [this](size_t group) {
    return committed_[group] != 0 && named_[group] == WholeGroup(group);
  };
  size_t groups = 0;
  for (size_t first = 0; first < named_.size();) {
    size_t end = first;
    while (end < named_.size() && given(end)) ++end;
    if (end > first) GiveBack(first, end);
    groups += end - first;
    first = end + 1;
  }
  std::ranges::fill(named_, uint8_t{0});
  return groups * group_bytes();
}

void KvPages::GiveBack(size_t first, size_t end) {
  std::fill(committed_.begin() + static_cast<ptrdiff_t>(first),
            committed_.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
  AddCommitted(-static_cast<int64_t>(end - first));
  // Neighbours without contents may have part of a huge page that reaches over the end.
  while (first > 0 && committed_[first - 1] == 0) --first;
  while (end < committed_.size() && committed_[end] == 0) ++end;
  // A page at an end belongs to the neighbour too.
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t from = penstock::RoundUp(first * group_bytes(), page);
  const uint64_t bytes_end = end * group_bytes();
  const uint64_t to =
      end < committed_.size() ? bytes_end / page * page : penstock::RoundUp(bytes_end, page);
  if (from < to) madvise(data_ + from, to - from, MADV_DONTNEED);
}

}  // namespace penstock::cpu
