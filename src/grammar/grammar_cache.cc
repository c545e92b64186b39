#include "grammar/grammar_cache.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"
#include "log/exception_status.h"

namespace penstock::grammar {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Result = Expected<std::shared_ptr<const Grammar>>;

}  // namespace

struct GrammarCache::Impl {
  struct Waiting {
    GrammarSpec spec;
    std::string key;
    SteadyClock::time_point since;
    std::function<Status()> wanted;
    Done done;
  };
  struct Kept {
    std::string key;
    std::shared_ptr<const Grammar> grammar;  // null: it is refused
    Status refusal;
    size_t bytes = 0;
  };

  Impl(MakeCompiler make_in, const GrammarCacheOptions& options_in)
      : make(std::move(make_in)), options(options_in) {}

  void Main();
  void Serve(Waiting* one);
  Result CompileOnce(const GrammarSpec& spec);
  std::optional<Result> Find(const std::string& key);
  void Keep(Kept one);

  const MakeCompiler make;
  const GrammarCacheOptions options;
  // The thread's own.
  std::unique_ptr<GrammarCompiler> compiler;

  mutable std::mutex mutex;
  // All guarded by mutex.
  std::condition_variable woken;
  std::deque<Waiting> queue;
  std::list<Kept> kept;                                           // the newest first
  SeededMap<std::string_view, std::list<Kept>::iterator> places;  // keys are those of `kept`
  GrammarCacheStats stats;
  bool ends = false;
  std::thread thread;
};

std::optional<Result> GrammarCache::Impl::Find(const std::string& key) {
  const auto found = places.find(key);
  if (found == places.end()) return std::nullopt;
  kept.splice(kept.begin(), kept, found->second);
  const Kept& one = kept.front();
  if (one.grammar == nullptr) {
    ++stats.refused;
    return one.refusal;
  }
  ++stats.hits;
  return one.grammar;
}

// One that is larger than the whole budget is not kept.
void GrammarCache::Impl::Keep(Kept one) {
  if (one.grammar != nullptr) one.bytes += one.grammar->bytes();
  one.bytes += sizeof(Kept) + one.key.size() + one.refusal.message().size();
  if (one.bytes > options.bytes_max || places.contains(one.key)) return;
  kept.push_front(std::move(one));
  places.emplace(kept.front().key, kept.begin());
  stats.bytes += kept.front().bytes;
  while (stats.bytes > options.bytes_max) {
    const Kept& last = kept.back();
    stats.bytes -= last.bytes;
    places.erase(last.key);
    kept.pop_back();
  }
}

Result GrammarCache::Impl::CompileOnce(const GrammarSpec& spec) {
  try {
    if (compiler == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(compiler, make());
    }
    return compiler->Compile(spec);
  } catch (...) {
    return ExceptionStatus();
  }
}

void GrammarCache::Impl::Serve(Waiting* one) {
  const auto answer = [&](Result result) { std::exchange(one->done, nullptr)(std::move(result)); };
  if (Status wanted = one->wanted(); !wanted.ok()) return answer(std::move(wanted));
  if (SteadyClock::now() - one->since > options.wait_max) {
    return answer(Status(StatusCode::kDeadlineExceeded,
                         fmt::format("'{}' waited {} ms to be compiled; try again", one->spec.field,
                                     options.wait_max.count())));
  }
  {
    std::unique_lock lock(mutex);
    if (auto found = Find(one->key)) {
      lock.unlock();
      return answer(*std::move(found));
    }
  }
  const auto begin = SteadyClock::now();
  Result made = CompileOnce(one->spec);
  {
    const std::lock_guard lock(mutex);
    stats.compile_s += std::chrono::duration<double>(SteadyClock::now() - begin).count();
    if (made.ok()) {
      ++stats.compiled;
      Keep({one->key, *made, Status::Ok()});
    } else {
      ++stats.refused;
      // It takes as long to find the fault again.
      if (made.code() == StatusCode::kInvalidArgument) Keep({one->key, nullptr, made.status()});
    }
  }
  answer(std::move(made));
}

void GrammarCache::Impl::Main() {
  pthread_setname_np(pthread_self(), "grammars");
  std::unique_lock lock(mutex);
  while (true) {
    woken.wait(lock, [&] { return ends || !queue.empty(); });
    if (ends) break;
    Waiting one = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    RunGuarded("a grammar's compiler", [&] { Serve(&one); });
    // Memory ran out on the way.
    if (one.done != nullptr) {
      RunGuarded("a grammar's compiler", [&] {
        one.done(Status(StatusCode::kResourceExhausted, "no memory for the grammar"));
      });
    }
    one = {};  // what it holds of its request goes before the lock
    lock.lock();
  }
  std::deque<Waiting> left = std::exchange(queue, {});
  lock.unlock();
  for (Waiting& one : left) {
    one.done(Status(StatusCode::kUnavailable, "the model is being unloaded"));
  }
}

GrammarCache::GrammarCache(MakeCompiler make, const GrammarCacheOptions& options)
    : impl_(std::make_unique<Impl>(std::move(make), options)) {}

GrammarCache::~GrammarCache() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ends = true;
  }
  impl_->woken.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void GrammarCache::Get(GrammarSpec spec, std::function<Status()> wanted, Done done) {
  if (Status checked = CheckSpec(spec); !checked.ok()) {
    {
      const std::lock_guard lock(impl_->mutex);
      ++impl_->stats.refused;
    }
    return done(std::move(checked));
  }
  // A refusal names the field.
  std::string key = spec.field + ":" + spec.calls.otherwise_field + ":" + spec.Key();
  std::unique_lock lock(impl_->mutex);
  if (auto found = impl_->Find(key)) {
    lock.unlock();
    return done(*std::move(found));
  }
  if (impl_->queue.size() >= impl_->options.queue_max) {
    lock.unlock();
    return done(Status(StatusCode::kResourceExhausted,
                       fmt::format("{} requests wait for their schemas to be compiled",
                                   impl_->options.queue_max)));
  }
  try {
    impl_->queue.push_back(
        {std::move(spec), std::move(key), SteadyClock::now(), std::move(wanted), done});
    if (!impl_->thread.joinable())
      impl_->thread = std::thread([impl = impl_.get()] { impl->Main(); });
  } catch (...) {
    if (!impl_->queue.empty() && !impl_->thread.joinable()) impl_->queue.pop_back();
    lock.unlock();
    return done(ExceptionStatus());
  }
  lock.unlock();
  impl_->woken.notify_one();
}

GrammarCacheStats GrammarCache::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace penstock::grammar
