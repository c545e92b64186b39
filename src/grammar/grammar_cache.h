// GrammarCache: compiles what requests ask for on a thread of its own, once, and keeps the newest
// within a budget of bytes. One for each model, since a grammar is compiled for its vocabulary.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "grammar/constraint.h"
#include "grammar/grammar_compiler.h"
#include "grammar/grammar_spec.h"

namespace penstock::grammar {

struct GrammarCacheOptions {
  size_t bytes_max = size_t{128} << 20;  // of grammars that are kept, about
  size_t queue_max = 64;                 // requests that wait for the thread
  // A request waits no longer for its turn.
  std::chrono::milliseconds wait_max{10'000};
};

struct GrammarCacheStats {
  uint64_t compiled = 0;
  uint64_t hits = 0;
  uint64_t refused = 0;  // they cannot be enforced, or are broken
  size_t bytes = 0;      // kept
  double compile_s = 0;  // of all that were compiled
};

class GrammarCache {
 public:
  using Done = std::function<void(Expected<std::shared_ptr<const Grammar>>)>;
  using MakeCompiler = std::function<Expected<std::unique_ptr<GrammarCompiler>>()>;

  // `make`: called once, on the thread, when the first grammar is asked for. The thread starts
  // then, too.
  GrammarCache(MakeCompiler make, const GrammarCacheOptions& options);
  ~GrammarCache();  // those that wait get kUnavailable
  GrammarCache(const GrammarCache&) = delete;
  GrammarCache& operator=(const GrammarCache&) = delete;

  // Checks `spec` and calls `done` once: at once, on this thread, where it is refused or known,
  // else on the cache's thread. `wanted`: OK while the request is; asked when its turn comes.
  // Errors: those of CheckSpec, Compile and `wanted`; kResourceExhausted: too many wait;
  // kDeadlineExceeded: its turn did not come in time.
  void Get(GrammarSpec spec, std::function<Status()> wanted, Done done);

  GrammarCacheStats stats() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::grammar
