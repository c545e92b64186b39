// FairShare: whose job is next, where several clients wait for the same thing.
//
// Start-time fair queueing. Each client has a tag: the seconds of work it was served, over its
// weight. The waiting client with the lowest tag is next. A client that begins to wait starts at
// the tag of whoever was served last, so time in which it asked for nothing counts neither for nor
// against it. So
//   - clients that always wait get seconds in proportion to their weights, whatever the size of
//     their jobs and however many of them wait;
//   - a client that comes new is next but for others that came new with it: it waits for the job
//     under way, not for the jobs of others that wait.
// When no client waits any more, all are even again.
//
//   client waits   Join ----> place.line: the caller's list of this client's jobs
//   next job       Next ----> the line whose first job is next
//                  Serve(line, estimated seconds), and Leave(line) if the job waits no more
//   job is done    Correct(place, measured - estimated seconds)
//   job is dead    Leave(line)
//
// A line is an index below clients_max(), so that the caller can keep its lists in an array. Where
// a job cannot be taken now (it does not fit a batch), Skip(line) has Next pass over its client,
// and EndSkips ends that; the client keeps its tag, and so is next when others were served.
//
// Memory is allocated by the constructor alone. At most clients_max are remembered: the client
// that has waited for nothing for longest is forgotten first; while more wait at once, some share a
// line and count as one client. Each call takes O(log clients) at most. For one priority class; the
// caller's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::sched {

class FairShare {
 public:
  struct Options {
    uint32_t clients_max = 256;
    // A client is never further behind than these seconds of others' work, however long its jobs.
    double debt_s_max = 60;
  };
  static constexpr uint32_t kNone = UINT32_MAX;  // no line

  // Where a client's jobs wait. Kept with a job for Correct.
  struct Place {
    uint32_t line = 0;
    uint32_t stay = 0;  // tells one client of the line from the next
  };

  FairShare() : FairShare(Options{}) {}
  explicit FairShare(const Options& options);
  FairShare(const FairShare&) = delete;
  FairShare& operator=(const FairShare&) = delete;

  uint32_t clients_max() const { return clients_max_; }
  // Clients whose jobs wait, those passed over among them.
  uint32_t waiting_clients() const { return heap_size_ + skipped_count_; }

  // The line in which jobs of the client wait; kNone: none does.
  uint32_t LineOf(uint64_t client) const {
    const uint32_t line = Find(client);
    return line == kNone || lines_[line].jobs == 0 ? kNone : line;
  }

  // One more job of `client` waits. A weight of 0 counts as 1; the newest one holds.
  Place Join(uint64_t client, uint32_t weight);
  // The line whose first job is next; kNone: no client waits, or all are passed over.
  uint32_t Next() const { return heap_size_ == 0 ? kNone : heap_[0]; }
  // Work of these seconds is begun for a job of the line that waits.
  void Serve(uint32_t line, double seconds);
  // One job of the line waits no more.
  void Leave(uint32_t line);
  // The client of the place was served for `seconds` more, or less, than Serve was told. A client
  // that was forgotten meanwhile is not charged.
  void Correct(const Place& place, double seconds);

  // Seconds over weight that the client of the place was served, to compare clients by; of one that
  // was forgotten: as if it came now.
  double Tag(const Place& place) const {
    const Line& line = lines_[place.line];
    return line.stay == place.stay ? line.tag : now_;
  }

  // Next passes over the line until EndSkips.
  void Skip(uint32_t line);
  void EndSkips();

 private:
  static constexpr uint32_t kOut = UINT32_MAX;  // not in the heap

  struct Line {
    uint64_t client = 0;
    double tag = 0;      // seconds over weight
    uint64_t order = 0;  // of lines of one tag
    uint32_t weight = 1;
    uint32_t stay = 0;
    uint32_t jobs = 0;  // that wait
    uint32_t at = kOut;
    bool skipped = false;
    uint32_t next_in_bucket = kNone;
    // While no job waits: neighbours in the order in which lines fell idle.
    uint32_t idle_before = kNone, idle_after = kNone;
  };

  uint32_t& BucketOf(uint64_t client) const;
  uint32_t Find(uint64_t client) const;
  // A line for a client that has none; kNone: jobs wait in all of them.
  uint32_t NewLine(uint64_t client);
  void Forget(uint32_t line);
  void PushIdle(uint32_t line);
  void CutIdle(uint32_t line);

  bool Before(uint32_t a, uint32_t b) const;
  void PlaceAt(uint32_t at, uint32_t line);
  void Sift(uint32_t at);
  void PushHeap(uint32_t line);
  void CutHeap(uint32_t line);

  const uint32_t clients_max_;
  const uint32_t buckets_;  // a power of two
  const double debt_s_max_;
  double now_ = 0;      // the tag of whoever was served last
  double tag_max_ = 0;  // no tag is over it
  uint64_t order_ = 0;
  uint32_t used_ = 0;  // lines that ever had a client
  uint32_t heap_size_ = 0;
  uint32_t skipped_count_ = 0;
  uint32_t idle_first_ = kNone, idle_last_ = kNone;
  const std::unique_ptr<Line[]> lines_;
  const std::unique_ptr<uint32_t[]> heap_;     // lines that wait and are not passed over
  const std::unique_ptr<uint32_t[]> skipped_;  // lines that were passed over
  const std::unique_ptr<uint32_t[]> first_;    // by bucket
};

}  // namespace penstock::sched
