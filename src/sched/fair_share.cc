#include "sched/fair_share.h"

#include <algorithm>
#include <bit>

namespace penstock::sched {

FairShare::FairShare(const Options& options)
    : clients_max_(std::max(options.clients_max, 1u)),
      buckets_(std::bit_ceil(clients_max_)),
      debt_s_max_(options.debt_s_max),
      lines_(std::make_unique<Line[]>(clients_max_)),
      heap_(std::make_unique<uint32_t[]>(clients_max_)),
      skipped_(std::make_unique<uint32_t[]>(clients_max_)),
      first_(std::make_unique<uint32_t[]>(buckets_)) {
  std::fill_n(first_.get(), buckets_, kNone);
}

// --- Clients ------------------------------------------------------------------------------------

uint32_t& FairShare::BucketOf(uint64_t client) const {
  // Clients are hashes as a rule; small numbers are spread, too.
  return first_[(client * 0x9e3779b97f4a7c15u >> 32) & (buckets_ - 1)];
}

uint32_t FairShare::Find(uint64_t client) const {
  uint32_t line = BucketOf(client);
  while (line != kNone && lines_[line].client != client) line = lines_[line].next_in_bucket;
  return line;
}

uint32_t FairShare::NewLine(uint64_t client) {
  uint32_t line = kNone;
  if (used_ < clients_max_) {
    line = used_++;
  } else if (idle_first_ != kNone) {
    line = idle_first_;
    CutIdle(line);
    Forget(line);
  } else {
    return kNone;
  }
  uint32_t& first = BucketOf(client);
  lines_[line] = {.client = client, .stay = lines_[line].stay + 1, .next_in_bucket = first};
  first = line;
  return line;
}

void FairShare::Forget(uint32_t line) {
  uint32_t* link = &BucketOf(lines_[line].client);
  while (*link != line) link = &lines_[*link].next_in_bucket;
  *link = lines_[line].next_in_bucket;
}

void FairShare::PushIdle(uint32_t line) {
  lines_[line].idle_before = idle_last_;
  lines_[line].idle_after = kNone;
  (idle_last_ == kNone ? idle_first_ : lines_[idle_last_].idle_after) = line;
  idle_last_ = line;
}

void FairShare::CutIdle(uint32_t line) {
  const uint32_t before = lines_[line].idle_before, after = lines_[line].idle_after;
  (before == kNone ? idle_first_ : lines_[before].idle_after) = after;
  (after == kNone ? idle_last_ : lines_[after].idle_before) = before;
}

FairShare::Place FairShare::Join(uint64_t client, uint32_t weight) {
  if (waiting_clients() == 0) now_ = std::max(now_, tag_max_);
  uint32_t line = Find(client);
  if (line == kNone) {
    line = NewLine(client);
  } else if (lines_[line].jobs == 0) {
    CutIdle(line);
  }
  if (line == kNone) {
    line = static_cast<uint32_t>(client % clients_max_);  // shared with the client that has it
  } else {
    lines_[line].weight = std::max(weight, 1u);
  }
  Line& joined = lines_[line];
  if (joined.jobs++ == 0) {
    joined.tag = std::max(joined.tag, now_);
    joined.order = ++order_;
    PushHeap(line);
  }
  return {line, joined.stay};
}

void FairShare::Leave(uint32_t line) {
  if (--lines_[line].jobs > 0) return;
  if (lines_[line].skipped) {
    lines_[line].skipped = false;
    --skipped_count_;
    *std::find(skipped_.get(), skipped_.get() + skipped_count_ + 1, line) =
        skipped_[skipped_count_];
  } else {
    CutHeap(line);
  }
  PushIdle(line);
}

// --- Seconds ------------------------------------------------------------------------------------

void FairShare::Serve(uint32_t line, double seconds) {
  Line& served = lines_[line];
  now_ = std::max(now_, served.tag);
  served.order = ++order_;
  Correct({line, served.stay}, seconds);
}

void FairShare::Correct(const Place& place, double seconds) {
  Line& charged = lines_[place.line];
  if (charged.stay != place.stay) return;
  charged.tag = std::min(charged.tag + seconds / charged.weight, now_ + debt_s_max_);
  tag_max_ = std::max(tag_max_, charged.tag);
  if (charged.at != kOut) Sift(charged.at);
}

// --- Passing over -------------------------------------------------------------------------------

void FairShare::Skip(uint32_t line) {
  CutHeap(line);
  lines_[line].skipped = true;
  skipped_[skipped_count_++] = line;
}

void FairShare::EndSkips() {
  for (; skipped_count_ > 0; --skipped_count_) {
    const uint32_t line = skipped_[skipped_count_ - 1];
    lines_[line].skipped = false;
    PushHeap(line);
  }
}

// --- The heap: the lowest tag first -------------------------------------------------------------

bool FairShare::Before(uint32_t a, uint32_t b) const {
  const Line &x = lines_[a], &y = lines_[b];
  return x.tag != y.tag ? x.tag < y.tag : x.order < y.order;
}

void FairShare::PlaceAt(uint32_t at, uint32_t line) {
  heap_[at] = line;
  lines_[line].at = at;
}

void FairShare::Sift(uint32_t at) {
  const uint32_t line = heap_[at];
  for (; at > 0 && Before(line, heap_[(at - 1) / 2]); at = (at - 1) / 2) {
    PlaceAt(at, heap_[(at - 1) / 2]);
  }
  while (true) {
    uint32_t child = 2 * at + 1;
    if (child >= heap_size_) break;
    if (child + 1 < heap_size_ && Before(heap_[child + 1], heap_[child])) ++child;
    if (!Before(heap_[child], line)) break;
    PlaceAt(at, heap_[child]);
    at = child;
  }
  PlaceAt(at, line);
}

void FairShare::PushHeap(uint32_t line) {
  heap_[heap_size_] = line;
  Sift(heap_size_++);
}

void FairShare::CutHeap(uint32_t line) {
  const uint32_t at = lines_[line].at;
  lines_[line].at = kOut;
  const uint32_t last = heap_[--heap_size_];
  if (at == heap_size_) return;
  heap_[at] = last;
  Sift(at);
}

}  // namespace penstock::sched
