// DecodeScheduler: which sequences run. On the step thread.
#include <algorithm>
#include <array>
#include <utility>

#include "generate/decode_scheduler_impl.h"
#include "log/exception_status.h"

namespace penstock::generate {
namespace {

// Jobs that wait are looked at so often, whether anybody wants them still.
constexpr std::chrono::milliseconds kSweepEvery{20};
// A text that may have calls waits for their grammar no longer than its prompt takes, and this.
constexpr std::chrono::seconds kCallGrammarWait{1};
// All of so many; of more a part, so that a sweep's time does not grow with the line as a step's
// does not, and each is looked at within a second.
constexpr size_t kSweptAtOnce = 256;
constexpr size_t kSweepParts = 32;

}  // namespace

void DecodeScheduler::Impl::TakeInbox() {
  if (arrived.empty() && inbox_full.load(std::memory_order_acquire)) {
    const std::lock_guard lock(inbox_mutex);
    arrived.swap(inbox);
    inbox_full.store(false, std::memory_order_relaxed);
  }
  // One that there is no memory for is tried again.
  for (; arrived_next < arrived.size(); ++arrived_next) {
    const std::shared_ptr<TakenJob>& job = arrived[arrived_next];
    Waiting(job->priority()).Add(job);
    texts_waiting += job->texts;
  }
  arrived.clear();
  arrived_next = 0;
}

void DecodeScheduler::Impl::EndDead(Clock::time_point now) {
  const auto dead = [&]() -> TakenJob* {
    for (const Sequences* const all : {&running, &parked}) {
      for (const auto& sequence : *all) {
        if (!sequence->owner->job->context.CheckWanted(now).ok()) return sequence->owner.get();
      }
    }
    return nullptr;
  };
  while (TakenJob* const owner = dead()) {
    EndJob(owner, owner->job->context.CheckWanted(now, "the time for the generation is over"));
  }
  if (now - swept < kSweepEvery) return;
  swept = now;
  for (WaitingTexts& texts : waiting) {
    for (const auto& job :
         texts.FindDead(std::max(kSweptAtOnce, texts.jobs() / kSweepParts), now)) {
      EndJob(job.get(), job->job->context.CheckWanted(now));
    }
  }
}

void DecodeScheduler::Impl::Activate(Clock::time_point now) {
  while (BeginNext(now)) {
  }
}

// False: none waits, or those that do wait on.
bool DecodeScheduler::Impl::BeginNext(Clock::time_point now) {
  const bool interactive = !Waiting(Priority::kInteractive).empty();
  const bool bulk = !Waiting(Priority::kBulk).empty() && BulkMayBegin();
  if (!bulk) {
    passed_bulk = 0;
    EndKept();
  }
  const bool aged = bulk && passed_bulk >= kBulkEvery;
  if (bulk && (aged || !interactive)) {
    const bool goes_on = TryBegin(Priority::kBulk, aged, now);
    // Others may begin in room that the bulk text does not need.
    if (goes_on || !aged) return goes_on;
    if (PreemptBeside()) return true;
  }
  if (!interactive || !TryBegin(Priority::kInteractive, false, now)) return false;
  if (bulk && !aged) ++passed_bulk;
  return true;
}

// Begins the next text of a class, or makes room for it, or ends its job. False: it waits on.
bool DecodeScheduler::Impl::TryBegin(Priority priority, bool aged, Clock::time_point now) {
  WaitingTexts& texts = Waiting(priority);
  const WaitingTexts::Next next = texts.next();
  TakenJob* const job = next.job;
  if (Status wanted = job->job->context.CheckWanted(now); !wanted.ok()) {
    EndJob(job, wanted);
    return true;
  }
  const bool interactive = priority == Priority::kInteractive;
  // It takes the room that is made for it: were the next text looked for again, that could be the
  // one that gave its place up, without end.
  if (running.size() >= static_cast<size_t>(options.sequences_max)) {
    if (!ParkOne() && (!interactive || !PreemptForClient(*job))) return false;
  }
  if (interactive && !FitsBeside(next)) return false;
  while (!Fits(next, aged)) {
    if (ParkOne()) continue;
    if (interactive && (PreemptBulk() || PreemptForClient(*job))) continue;
    if (aged) KeepFor(next);
    return false;
  }
  std::unique_ptr<DecodeSequence> sequence;
  if (next.preempted != nullptr) {
    sequence = texts.Take(next);
  } else {
    auto made = NewSequence(next);
    if (!made.ok()) {
      // The others give their memory back.
      if (!running.empty() || !parked.empty()) return false;
      EndJob(job, made.status());
      return true;
    }
    sequence = *std::move(made);
    texts.Begin(next);
  }
  --texts_waiting;
  if (!interactive) {
    passed_bulk = 0;
    EndKept();
  }
  sequence->aged = aged;
  sequence->beside = kept.number != 0;
  InsertByArrival(std::move(sequence), &running);
  return true;
}

// kResourceExhausted, kPayloadTooLarge: its memory is not to be had.
Expected<std::unique_ptr<DecodeSequence>> DecodeScheduler::Impl::NewSequence(
    const WaitingTexts::Next& next) {
  const std::shared_ptr<TakenJob> owner = next.job->shared_from_this();
  const DecodeJob& job = *owner->job;
  try {
    auto memory = std::make_unique<ScopedMemory>(job.context.memory.get());
    PENSTOCK_RETURN_IF_ERROR(memory->Take(TextBytes(job)));
    sample::SamplingOptions sampling = job.sampling;
    // Samples without a seed draw one each; with one, each has its own.
    if (sampling.seed) *sampling.seed += static_cast<uint64_t>(next.sample());
    GrammarUse use = job.grammar;
    const bool awaits_grammar = use.pending != nullptr && !use.pending->ready();
    if (use.pending != nullptr && !awaits_grammar) use.grammar = use.pending->grammar();
    PENSTOCK_ASSIGN_OR_RETURN(
        TextStream stream,
        TextStream::Make(*model, sampling, job.prompt, run->parts_max(), job.shown, scratch, use));
    auto made = std::make_unique<DecodeSequence>(owner, next.sample(), std::move(stream), &pools,
                                                 prefixes ? &*prefixes : nullptr, model->context(),
                                                 std::move(memory));
    const size_t prompt = job.prompt.size();
    const size_t tokens_max = MostTokens(*model, job.sampling, prompt);
    made->awaits_grammar = awaits_grammar;
    made->text.reserve(tokens_max - prompt);
    made->tokens_max = static_cast<int32_t>(tokens_max);
    if (options.speculation) {
      made->ngrams.emplace(tokens_max);
      made->drafts.reserve(kDraftRows);
    }
    for (WaitingTexts& texts : waiting) {
      texts.Reserve(texts.preempted() + running.size() + parked.size() + 1);
    }
    parked.reserve(parked.size() + running.size() + 1);
    made->FollowRope(*run);
    if (const DecodeSequence* const sibling = SiblingOf(next)) {
      // The last token is left to compute: its logits are the sample's first.
      made->cache.Fork(sibling->cache, made->remaining() - 1);
    } else {
      made->TakeCached(&joined);
    }
    return made;
  } catch (...) {
    return ExceptionStatus();
  }
}

int64_t DecodeScheduler::Impl::TextBytes(const DecodeJob& job) const {
  // What the heap adds to its blocks.
  constexpr int64_t kHeap = 512;
  const size_t prompt = job.prompt.size();
  const size_t more = MostTokens(*model, job.sampling, prompt) - prompt;
  const size_t blocks = CeilDiv(static_cast<size_t>(model->context()), size_t{kKvBlockTokens});
  const int64_t drafts =
      options.speculation ? NgramDraft::HeapBytes(prompt + more) + kDraftRows * sizeof(int32_t) : 0;
  return kHeap + drafts +
         static_cast<int64_t>(sizeof(DecodeSequence) + more * sizeof(int32_t) +
                              pools.size() * (sizeof(BlockTable) + blocks * sizeof(int32_t))) +
         TextStream::HeapBytes(*model, job.sampling, prompt,
                               job.grammar.grammar != nullptr || job.grammar.pending != nullptr);
}

// A text of the same prompt, whose cache a sample begins with.
const DecodeSequence* DecodeScheduler::Impl::SiblingOf(const WaitingTexts::Next& next) const {
  if (next.preempted != nullptr || next.sample() == 0) return nullptr;
  // One that has grown beyond the switch of longrope has other keys.
  const bool long_rope = run->LongRope(next.job->prompt().size());
  const auto found = std::find_if(running.begin(), running.end(), [&](const auto& one) {
    return one->owner.get() == next.job && one->long_rope == long_rope;
  });
  return found == running.end() ? nullptr : found->get();
}

bool DecodeScheduler::Impl::BulkMayBegin() const {
  const auto bulk = std::count_if(running.begin(), running.end(), [](const auto& sequence) {
    return sequence->owner->priority() == Priority::kBulk;
  });
  return bulk <
         std::max<ptrdiff_t>(1, options.sequences_max - options.sequences_max / kInteractivePart);
}

// The cache that `next` would begin with, to be released by the caller where it does not, or begins
// with another.
kv::Sequence* DecodeScheduler::Impl::CacheOf(const WaitingTexts::Next& next, int32_t* remaining) {
  if (next.preempted != nullptr) {
    next.preempted->TakeCached(&joined);
    *remaining = next.preempted->remaining();
    return &next.preempted->cache;
  }
  const std::span<const int32_t> prompt = next.job->prompt();
  if (const DecodeSequence* const sibling = SiblingOf(next)) {
    trial->Fork(sibling->cache, static_cast<int32_t>(prompt.size()) - 1);
  } else if (next.sample() > 0 || !next.job->job->scores_prompt) {
    trial->SetSalt(next.job->Salt(run->LongRope(prompt.size())));
    trial->TakeCached(prompt);
  }
  *remaining = static_cast<int32_t>(prompt.size()) - trial->length();
  return &*trial;
}

// Whether the cache has room for all its tokens so far, and a block more for each that runs, so
// that it need not be preempted at once. Bulk leaves a part of the blocks to others, beside what
// prompts that run have yet to take, unless others wait for it: `aged`.
bool DecodeScheduler::Impl::Fits(const WaitingTexts::Next& next, bool aged) {
  if (running.empty()) return true;
  const bool bulk = next.job->priority() == Priority::kBulk;
  GroupCounts spare{};
  for (size_t g = 0; g < pools.size(); ++g) {
    spare[g] = static_cast<int32_t>(running.size()) + 1;
    if (bulk && !aged) spare[g] += pools[g].blocks() / kInteractivePart;
  }
  // An aged text would have to give up what others take of the room that it waited for.
  for (const auto& one : running) {
    if ((bulk && !aged) || one->aged) spare[0] += one->cache.MissingBlocks(one->remaining());
  }
  Tried now = {next.job->number, next.sample(), pools.available()};
  for (size_t g = 0; g < pools.size(); ++g) now.room[g] -= spare[g];
  if (now == tried) return false;
  int32_t remaining = 0;
  kv::Sequence* const cache = CacheOf(next, &remaining);
  const bool fits = cache->Fits(remaining, kPromptRows, spare);
  if (!fits) tried = now;
  if (!fits || cache == &*trial) cache->Release();
  return fits;
}

// --- Room for others ----------------------------------------------------------------------------

// Blocks of each group that so many tokens take at most.
GroupCounts DecodeScheduler::Impl::BlocksFor(int32_t tokens) const {
  return pools.MostHeld(BlocksOfTokens(tokens), kPromptRows);
}

// A bulk text whose turn it is does not fit: those that run keep what they have, and what they give
// back is for it. Interactive texts may begin beside in what it does not need.
void DecodeScheduler::Impl::KeepFor(const WaitingTexts::Next& next) {
  if (kept.number == next.job->number && kept.sample == next.sample()) return;
  EndKept();
  const int32_t tokens = next.preempted != nullptr
                             ? next.preempted->tokens()
                             : static_cast<int32_t>(next.job->prompt().size());
  kept = {next.job->number, next.sample(), BlocksFor(tokens)};
}

void DecodeScheduler::Impl::EndKept() {
  if (kept.number == 0) return;
  kept = {};
  for (const auto& one : running) one->beside = false;
}

// Whether the text leaves the blocks that are kept: once all texts that ran before have ended, the
// one that waits fits beside those that begin now, with a block more for each.
bool DecodeScheduler::Impl::FitsBeside(const WaitingTexts::Next& next) const {
  if (kept.number == 0) return true;
  const auto tokens_of = [](const DecodeSequence& one) {
    return std::max(one.tokens(), one.cache.length());
  };
  GroupCounts used =
      BlocksFor(next.preempted != nullptr ? tokens_of(*next.preempted)
                                          : static_cast<int32_t>(next.job->prompt().size()));
  int32_t texts = 2;
  for (const auto& one : running) {
    if (!one->beside) continue;
    const GroupCounts more = BlocksFor(tokens_of(*one));
    for (size_t g = 0; g < pools.size(); ++g) used[g] += more[g];
    ++texts;
  }
  for (size_t g = 0; g < pools.size(); ++g) {
    if (used[g] + kept.blocks[g] + texts > pools[g].blocks()) return false;
  }
  return true;
}

// Texts that began beside a bulk one may have grown into what is kept for it. When nothing else
// runs, the newest gives its blocks back.
bool DecodeScheduler::Impl::PreemptBeside() {
  const bool all = std::all_of(running.begin(), running.end(),
                               [](const auto& sequence) { return sequence->beside; });
  if (kept.number == 0 || !all || running.empty()) return false;
  Preempt(running.back().get());
  return true;
}

// The newest bulk text gives its blocks to an interactive one that waits for them. Not one that
// others have waited for: it would never end where interactive texts always come.
bool DecodeScheduler::Impl::PreemptBulk() {
  const auto bulk = std::find_if(running.rbegin(), running.rend(), [](const auto& sequence) {
    return sequence->owner->priority() == Priority::kBulk && !sequence->aged;
  });
  if (bulk == running.rend()) return false;
  Preempt(bulk->get());
  return true;
}

// The client with the most interactive texts gives the newest of them up for one of a client that
// has fewer, so that nobody who comes waits for the ends of another's texts.
bool DecodeScheduler::Impl::PreemptForClient(const TakenJob& job) {
  const auto texts_of = [&](uint64_t client) {
    return std::count_if(running.begin(), running.end(), [&](const auto& one) {
      return one->owner->priority() == Priority::kInteractive &&
             one->owner->job->context.client == client;
    });
  };
  const uint64_t client = job.job->context.client;
  const bool others = std::any_of(running.begin(), running.end(), [&](const auto& one) {
    return one->owner->job->context.client != client;
  });
  if (!others) return false;
  const auto own = texts_of(client);
  DecodeSequence* newest = nullptr;
  auto most = own + 1;
  for (auto one = running.rbegin(); one != running.rend(); ++one) {
    const TakenJob& other = *(*one)->owner;
    if (other.priority() != Priority::kInteractive || other.job->context.client == client) continue;
    const auto texts = texts_of(other.job->context.client);
    if (texts <= most) continue;
    most = texts;
    newest = one->get();
  }
  if (newest == nullptr) return false;
  Preempt(newest);
  return true;
}

// The newest text that can do nothing but wait for its grammar gives its place and its blocks up
// until that is there. What it has computed stays in the prefix cache for as long as it can.
bool DecodeScheduler::Impl::ParkOne() {
  const auto newest = std::find_if(running.rbegin(), running.rend(),
                                   [](const auto& sequence) { return sequence->rows_left() == 0; });
  const bool room = parked.size() < static_cast<size_t>(options.sequences_max);
  if (newest == running.rend() || !room) return false;
  parked.push_back(std::move(*newest));
  running.erase(std::next(newest).base());
  parked.back()->cache.Release();
  parked.back()->beside = parked.back()->aged = false;
  ++texts_waiting;
  return true;
}

// To texts that began before theirs was compiled.
void DecodeScheduler::Impl::GiveGrammars(Clock::time_point now) {
  TakenJob* failed = nullptr;
  Status status;
  const auto give = [&](DecodeSequence* sequence, bool is_parked) {
    const GrammarUse& use = sequence->owner->job->grammar;
    if (!sequence->awaits_grammar) return false;
    if (!use.pending->ready()) {
      // Calls inside of a text are not worth a long wait.
      const bool gives_up =
          use.calls != nullptr && now - sequence->owner->submitted > kCallGrammarWait;
      if (gives_up && (is_parked || sequence->rows_left() == 0)) sequence->awaits_grammar = false;
      return !sequence->awaits_grammar;
    }
    try {
      GrammarUse whole = use;
      whole.grammar = use.pending->grammar();
      status = sequence->stream.Hold(*model, whole);
    } catch (...) {
      status = ExceptionStatus();
    }
    if (!status.ok()) failed = sequence->owner.get();
    sequence->awaits_grammar = !status.ok();
    return status.ok();
  };
  for (const auto& sequence : running) {
    (void)give(sequence.get(), false);
    if (failed != nullptr) break;
  }
  for (size_t i = 0; i < parked.size() && failed == nullptr;) {
    if (!give(parked[i].get(), true)) {
      ++i;
      continue;
    }
    std::unique_ptr<DecodeSequence> taken = std::move(parked[i]);
    parked.erase(parked.begin() + static_cast<ptrdiff_t>(i));
    Waiting(taken->owner->priority()).Add(std::move(taken));
  }
  // The others at the next look.
  if (failed != nullptr) EndJob(failed, status);
}

bool DecodeScheduler::Impl::OnlyGrammarsAreAwaited() const {
  if (!waiting[0].empty() || !waiting[1].empty()) return false;
  if (running.empty()) return !parked.empty();
  return std::ranges::all_of(running, [](const auto& one) { return one->rows_left() == 0; });
}

void DecodeScheduler::Impl::Preempt(DecodeSequence* sequence) {
  sequence->cache.Release();
  sequence->rows = 0;
  std::erase(formed, sequence);
  const auto at = std::find_if(running.begin(), running.end(),
                               [&](const auto& one) { return one.get() == sequence; });
  auto taken = std::move(*at);
  running.erase(at);
  taken->beside = false;
  if (taken->aged) passed_bulk = kBulkEvery;  // it is next again
  Waiting(taken->owner->priority()).Add(std::move(taken));
  ++texts_waiting;
  series.preemptions.Add();
}

}  // namespace penstock::generate
