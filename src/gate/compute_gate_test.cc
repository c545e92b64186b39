#include "gate/compute_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace penstock::gate {
namespace {

using Answer = ComputeGate::Answer;
using Turn = ComputeGate::Turn;

// An engine with a given number of batches of each class to run.
class Engine : public GateClient {
 public:
  explicit Engine(int interactive = 0, int bulk = 0) : interactive_(interactive), bulk_(bulk) {}
  GateDemand Demand() const override {
    return {interactive_.load() > 0, bulk_.load() > 0, bulk_.load() > 0};
  }
  int64_t EarliestDeadlineNs(Priority) const override { return deadline_ns; }
  // False: another thread took it.
  bool Take(Priority priority) {
    std::atomic<int>& count = priority == Priority::kBulk ? bulk_ : interactive_;
    int had = count.load();
    while (had > 0 && !count.compare_exchange_weak(had, had - 1)) {
    }
    return had > 0;
  }
  void Add(Priority priority) { ++(priority == Priority::kBulk ? bulk_ : interactive_); }
  int64_t PatienceNs() const override { return patience_ns; }
  int64_t deadline_ns = INT64_MAX;
  int64_t patience_ns = INT64_MAX;

 private:
  std::atomic<int> interactive_;
  std::atomic<int> bulk_;
};

// Runs one batch of the turn's class.
void RunBatch(Turn* turn, Engine* engine, int64_t took_ns) {
  ASSERT_TRUE(turn->held());
  engine->Take(turn->priority());
  turn->End(took_ns, engine->Demand());
}

TEST(ComputeGate, OneTurnAtATime) {
  ComputeGate gate;
  Engine a(1), b(1);
  Turn first(&gate, &a), second(&gate, &b);
  EXPECT_EQ(first.Ask(), Answer::kGranted);
  EXPECT_EQ(first.priority(), Priority::kInteractive);
  EXPECT_EQ(second.Ask(), Answer::kWaits);
  EXPECT_EQ(second.Ask(), Answer::kWaits);
  EXPECT_EQ(gate.taken(), 1u);
  EXPECT_EQ(gate.waiting(), 1u);
  RunBatch(&first, &a, 1000);
  EXPECT_FALSE(first.held());
  EXPECT_EQ(second.Ask(), Answer::kGranted);
  RunBatch(&second, &b, 1000);
  EXPECT_EQ(gate.taken(), 0u);
  EXPECT_EQ(gate.waiting(), 0u);
}

TEST(ComputeGate, InteractiveOfAnyEngineGoesBeforeBulk) {
  ComputeGate gate;
  Engine a(3), b(0, 1);
  Turn first(&gate, &a), second(&gate, &b);
  EXPECT_EQ(second.Ask(), Answer::kGranted);
  EXPECT_EQ(second.priority(), Priority::kBulk);
  b.Add(Priority::kBulk);
  EXPECT_EQ(first.Ask(), Answer::kWaits);
  RunBatch(&second, &b, 1'000'000);  // has more, but is not next
  EXPECT_FALSE(second.held());
  EXPECT_EQ(second.Ask(), Answer::kWaits);
  EXPECT_EQ(first.Ask(), Answer::kGranted);
  RunBatch(&first, &a, 1000);
  EXPECT_TRUE(first.held());  // kept while it answers: it has more, and is next
  EXPECT_EQ(first.Ask(), Answer::kGranted);
  RunBatch(&first, &a, 1000);
  EXPECT_EQ(first.Ask(), Answer::kGranted);
  RunBatch(&first, &a, 1000);
  EXPECT_FALSE(first.held());
  EXPECT_EQ(second.Ask(), Answer::kGranted);
}

TEST(ComputeGate, BulkAgesBySecondsOverAllEngines) {
  ComputeGate gate;
  Engine a(1 << 20), b(0, 1 << 20);
  Turn interactive(&gate, &a), bulk(&gate, &b);
  int64_t bulk_ns = 0, interactive_ns = 0;
  while (bulk_ns + interactive_ns < 10'000'000'000) {
    if (interactive.Ask() == Answer::kGranted) {
      bulk.Ask();
      interactive_ns += 1'000'000;
      RunBatch(&interactive, &a, 1'000'000);
    } else {
      ASSERT_EQ(bulk.Ask(), Answer::kGranted);
      bulk_ns += 20'000'000;
      RunBatch(&bulk, &b, 20'000'000);
    }
  }
  EXPECT_NEAR(static_cast<double>(bulk_ns) / static_cast<double>(bulk_ns + interactive_ns), 1.0 / 9,
              0.01);
}

class Shares : public testing::TestWithParam<Priority> {};

// Engines whose batches take 1, 5 and 12 ms.
TEST_P(Shares, AreEqualInSecondsWhateverABatchTakes) {
  ComputeGate gate;
  const std::vector<int64_t> batch_ns = {1'000'000, 5'000'000, 12'000'000};
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::unique_ptr<Turn>> turns;
  const bool bulk = GetParam() == Priority::kBulk;
  for (size_t i = 0; i < batch_ns.size(); ++i) {
    engines.push_back(std::make_unique<Engine>(bulk ? 0 : 1 << 20, bulk ? 1 << 20 : 0));
    turns.push_back(std::make_unique<Turn>(&gate, engines[i].get()));
  }
  std::vector<int64_t> had_ns(batch_ns.size());
  int64_t total_ns = 0;
  while (total_ns < 20'000'000'000) {
    for (auto& turn : turns) turn->Ask();
    for (size_t i = 0; i < turns.size(); ++i) {
      if (turns[i]->Ask() != Answer::kGranted) continue;
      had_ns[i] += batch_ns[i];
      total_ns += batch_ns[i];
      RunBatch(turns[i].get(), engines[i].get(), batch_ns[i]);
      break;
    }
  }
  for (const int64_t ns : had_ns) {
    EXPECT_NEAR(static_cast<double>(ns) / static_cast<double>(total_ns), 1.0 / 3, 0.05 / 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, Shares, testing::Values(Priority::kInteractive, Priority::kBulk));

// A device with two turns, which computes in the order in which turns were granted.
TEST(ComputeGate, SharesAreEvenWhereAnEngineHoldsSeveralTurns) {
  struct Executor {
    Executor(ComputeGate* gate, Engine* engine, size_t of_in) : turn(gate, engine), of(of_in) {}
    Turn turn;
    size_t of;
    bool queued = false;
  };
  for (const auto& [times_a, times_b] :
       {std::pair<std::array<int64_t, 2>, std::array<int64_t, 2>>{{10, 10}, {10, 10}},
        {{10, 1}, {5, 5}},
        {{250, 5}, {10, 10}}}) {
    ComputeGate gate(2);
    Engine engines[] = {Engine(1 << 30), Engine(1 << 30)};
    std::vector<std::unique_ptr<Executor>> executors;
    for (size_t i = 0; i < 6; ++i) {
      executors.push_back(std::make_unique<Executor>(&gate, &engines[i % 2], i % 2));
    }
    std::mt19937 random(5);
    std::deque<Executor*> device;
    int64_t had[2] = {}, batches[2] = {};
    for (int step = 0; step < 4000; ++step) {
      std::shuffle(executors.begin(), executors.end(), random);
      for (const auto& one : executors) {
        if (one->queued || one->turn.Ask() != Answer::kGranted) continue;
        one->queued = true;
        device.push_back(one.get());
      }
      ASSERT_FALSE(device.empty());
      Executor* const done = device.front();
      device.pop_front();
      done->queued = false;
      const auto number = static_cast<size_t>(batches[done->of]++ % 2);
      const int64_t took = 1000 * (done->of == 0 ? times_a : times_b)[number];
      had[done->of] += took;
      done->turn.End(took, engines[done->of].Demand());
    }
    const double share = static_cast<double>(had[0]) / static_cast<double>(had[0] + had[1]);
    EXPECT_NEAR(share, 0.5, 0.03);
  }
}

// Steps of a text beside batches of another engine. With the text's patience its pace is even, and
// both still have half of the time.
TEST(ComputeGate, PatienceBoundsTheWaitAndKeepsTheShares) {
  struct Case {
    int64_t step_ns, batch_ns, wait_max_ns;
  };
  for (const Case& times : {Case{30, 14, 42}, Case{3, 15, 15}, Case{10, 1, 10}}) {
    for (const bool patient : {false, true}) {
      ComputeGate gate;
      Engine text(1 << 20), batches(1 << 20);
      if (patient) text.patience_ns = times.step_ns;
      Turn step(&gate, &text), batch(&gate, &batches);
      int64_t waited = 0, longest = 0, text_ns = 0, all_ns = 0, steps = 0;
      while (all_ns < 100'000) {
        // Now and then a step takes long (a prompt's chunk): its share is paid back afterwards.
        const int64_t step_ns = ++steps % 50 == 0 ? 3 * times.step_ns : times.step_ns;
        step.Ask();
        batch.Ask();
        if (step.Ask() == Answer::kGranted) {
          longest = std::max(longest, waited);
          waited = 0;
          text_ns += step_ns;
          all_ns += step_ns;
          RunBatch(&step, &text, step_ns);
        } else {
          --steps;
          ASSERT_EQ(batch.Ask(), Answer::kGranted);
          waited += times.batch_ns;
          all_ns += times.batch_ns;
          RunBatch(&batch, &batches, times.batch_ns);
        }
      }
      EXPECT_NEAR(static_cast<double>(text_ns) / static_cast<double>(all_ns), 0.5, 0.06);
      if (patient) EXPECT_LE(longest, times.wait_max_ns) << times.step_ns;
      if (!patient && times.step_ns > 3) EXPECT_GT(longest, times.wait_max_ns) << times.step_ns;
    }
  }
}

// Engines at one gate on a clock of their turns. Texts are not patient; the others are.
class Crowd {
 public:
  Engine* Add(int64_t batch_ns, bool text, bool busy = true) {
    auto& one = members_.emplace_back(std::make_unique<Member>(&gate_, batch_ns, busy));
    if (text) one->engine.patience_ns = batch_ns;
    return &one->engine;
  }
  // `arrive`: before each turn, adds work that has come.
  void Run(int64_t until_ns, const std::function<void(int64_t now_ns)>& arrive = {}) {
    while (now_ns_ < until_ns) {
      if (arrive) arrive(now_ns_);
      for (auto& one : members_) {
        const bool waited = one->waits;
        one->waits = one->engine.Demand().any();
        if (one->waits && !waited) one->since_ns = now_ns_;
        if (one->waits) one->turn.Ask();
      }
      bool ran = false;
      for (auto& one : members_) {
        if (ran || !one->engine.Demand().any() || one->turn.Ask() != Answer::kGranted) continue;
        ran = true;
        one->longest_ns = std::max(one->longest_ns, now_ns_ - one->since_ns);
        one->had_ns += one->batch_ns;
        now_ns_ += one->batch_ns;
        one->waits = false;
        RunBatch(&one->turn, &one->engine, one->batch_ns);
      }
      if (!ran) now_ns_ += 1'000'000;
    }
  }
  size_t size() const { return members_.size(); }
  double share(size_t i) const {
    int64_t all_ns = 0;
    for (const auto& one : members_) all_ns += one->had_ns;
    return static_cast<double>(members_[i]->had_ns) / static_cast<double>(all_ns);
  }
  int64_t longest_ns(size_t i) const { return members_[i]->longest_ns; }
  // One turn of each engine.
  int64_t round_ns() const {
    int64_t ns = 0;
    for (const auto& one : members_) ns += one->batch_ns;
    return ns;
  }

 private:
  struct Member {
    Member(ComputeGate* gate, int64_t ns, bool busy)
        : engine(busy ? 1 << 24 : 0), turn(gate, &engine), batch_ns(ns) {}
    Engine engine;
    Turn turn;
    const int64_t batch_ns;
    int64_t had_ns = 0, since_ns = 0, longest_ns = 0;
    bool waits = false;
  };
  ComputeGate gate_;
  std::vector<std::unique_ptr<Member>> members_;
  int64_t now_ns_ = 0;
};

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMinute = 60'000 * kMs;

TEST(ComputeGate, SharesAreEvenBesideAnyNumberOfTexts) {
  for (const bool alike : {true, false}) {
    for (int texts = 1; texts <= 6; ++texts) {
      for (int encoders = 1; encoders <= 4; ++encoders) {
        SCOPED_TRACE(testing::Message()
                     << texts << " texts, " << encoders << " encoders, alike " << alike);
        Crowd crowd;
        for (int i = 0; i < texts; ++i) crowd.Add((alike ? 20 : 7 + 9 * i) * kMs, true);
        for (int i = 0; i < encoders; ++i) crowd.Add((alike ? 20 : 3 + 11 * i) * kMs, false);
        crowd.Run(kMinute);
        const double even = 1.0 / static_cast<double>(crowd.size());
        for (size_t i = 0; i < crowd.size(); ++i) {
          EXPECT_NEAR(crowd.share(i), even, 0.05 * even) << i;
          // Others are ahead by so much at most when it begins to wait.
          const auto others = static_cast<int64_t>(crowd.size()) - 1;
          EXPECT_LE(crowd.longest_ns(i), others * ComputeGate::kAheadNs + crowd.round_ns()) << i;
        }
      }
    }
  }
}

// Now and then one embedding, whose engine has had next to nothing of the time.
TEST(ComputeGate, AShortBatchWaitsForOneTurnOfEachText) {
  for (size_t texts = 1; texts <= 6; ++texts) {
    SCOPED_TRACE(texts);
    Crowd crowd;
    for (size_t i = 0; i < texts; ++i) crowd.Add((15 + 4 * static_cast<int64_t>(i)) * kMs, true);
    Engine* const encoder = crowd.Add(4 * kMs, false, /*busy=*/false);
    int64_t next_ns = 0, sent = 0;
    crowd.Run(kMinute, [&](int64_t now_ns) {
      if (now_ns < next_ns) return;
      next_ns = now_ns + 331 * kMs;
      encoder->Add(Priority::kInteractive);
      ++sent;
    });
    EXPECT_GT(sent, 150);
    EXPECT_GT(crowd.share(texts), 0.9 * static_cast<double>(sent * 4 * kMs) / kMinute);
    EXPECT_LE(crowd.longest_ns(texts), crowd.round_ns()) << texts;
  }
}

// A first chat of a model that has only a prompt is as patient as an encoder.
TEST(ComputeGate, AnEngineThatComesLateHasSavedNothingUpBesideTexts) {
  Crowd crowd;
  for (int i = 0; i < 3; ++i) crowd.Add(20 * kMs, true);
  Engine* const late = crowd.Add(25 * kMs, false, /*busy=*/false);
  bool came = false;
  crowd.Run(kMinute, [&](int64_t now_ns) {
    if (came || now_ns < kMinute / 2) return;
    came = true;
    for (int i = 0; i < 1 << 20; ++i) late->Add(Priority::kInteractive);
  });
  // A quarter of the half that it was there.
  EXPECT_NEAR(crowd.share(3), 1.0 / 8, 0.05 / 8);
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(crowd.longest_ns(i), 3 * crowd.round_ns()) << i;
}

TEST(ComputeGate, AnEngineThatWasIdleHasSavedNothingUp) {
  ComputeGate gate;
  Engine a(1000), b(0);
  Turn busy(&gate, &a), late(&gate, &b);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(busy.Ask(), Answer::kGranted);
    RunBatch(&busy, &a, 1'000'000);
  }
  for (int i = 0; i < 1000; ++i) b.Add(Priority::kInteractive);
  int in_a_row = 0;
  for (int i = 0; i < 100; ++i) {
    if (late.Ask() == Answer::kGranted) {
      busy.Ask();
      EXPECT_LE(++in_a_row, 2);
      RunBatch(&late, &b, 1'000'000);
    } else if (busy.Ask() == Answer::kGranted) {
      in_a_row = 0;
      RunBatch(&busy, &a, 1'000'000);
    }
  }
}

TEST(ComputeGate, TheEarliestDeadlineBreaksTies) {
  ComputeGate gate;
  Engine a(1), b(1), c(1), d(1);
  c.deadline_ns = 5;
  d.deadline_ns = 9;
  Turn holder(&gate, &a), none(&gate, &b), early(&gate, &c), later(&gate, &d);
  EXPECT_EQ(holder.Ask(), Answer::kGranted);
  EXPECT_EQ(none.Ask(), Answer::kWaits);
  EXPECT_EQ(later.Ask(), Answer::kWaits);
  EXPECT_EQ(early.Ask(), Answer::kWaits);
  RunBatch(&holder, &a, 1000);
  EXPECT_EQ(early.Ask(), Answer::kGranted);
  RunBatch(&early, &c, 1000);
  EXPECT_EQ(later.Ask(), Answer::kGranted);
  RunBatch(&later, &d, 1000);
  EXPECT_EQ(none.Ask(), Answer::kGranted);
}

// Work that comes while an engine is in line counts, and decides its class.
TEST(ComputeGate, AsksForWorkWhenItDecides) {
  ComputeGate gate;
  Engine a(1), b(0, 1), c(0, 1);
  Turn holder(&gate, &a), first(&gate, &b), second(&gate, &c);
  EXPECT_EQ(holder.Ask(), Answer::kGranted);
  EXPECT_EQ(first.Ask(), Answer::kWaits);
  EXPECT_EQ(second.Ask(), Answer::kWaits);
  c.Add(Priority::kInteractive);
  b.Take(Priority::kBulk);  // by another replica
  RunBatch(&holder, &a, 1000);
  EXPECT_EQ(first.Ask(), Answer::kNoWork);  // sent back
  EXPECT_EQ(second.Ask(), Answer::kGranted);
  EXPECT_EQ(second.priority(), Priority::kInteractive);
  second.Drop();
  EXPECT_EQ(gate.taken(), 0u);
  EXPECT_EQ(gate.waiting(), 0u);
}

TEST(ComputeGate, ALeaderNeverWaits) {
  ComputeGate gate;
  Engine a(1), b(1);
  Turn holder(&gate, &a), leader(&gate, &b);
  EXPECT_TRUE(leader.TryTake(Priority::kBulk));
  EXPECT_EQ(holder.Ask(), Answer::kWaits);
  leader.End(1000, {});
  EXPECT_FALSE(leader.TryTake(Priority::kInteractive));
  EXPECT_EQ(holder.Ask(), Answer::kGranted);
  holder.Drop();
  EXPECT_TRUE(leader.TryTake(Priority::kInteractive));
}

TEST(ComputeGate, ATurnThatEndsItsLifeLeavesTheLine) {
  ComputeGate gate;
  Engine a(1), c(1);
  Turn holder(&gate, &a), waits(&gate, &c);
  EXPECT_EQ(holder.Ask(), Answer::kGranted);
  {
    Engine b(1);
    Turn leaves(&gate, &b);
    EXPECT_EQ(leaves.Ask(), Answer::kWaits);
    EXPECT_EQ(waits.Ask(), Answer::kWaits);
  }
  EXPECT_EQ(gate.waiting(), 1u);
  RunBatch(&holder, &a, 1000);
  EXPECT_EQ(waits.Ask(), Answer::kGranted);
  {
    Engine b(1);
    Turn granted(&gate, &b);
    EXPECT_EQ(granted.Ask(), Answer::kWaits);
    RunBatch(&waits, &c, 1000);  // granted, and never asked again
  }
  EXPECT_EQ(gate.taken(), 0u);
}

TEST(ComputeGate, AKeptTurnIsDecidedAnewWhereOthersHaveCome) {
  ComputeGate gate;
  Engine a(1, 1), b(1);
  Turn keeps(&gate, &a), comes(&gate, &b);
  EXPECT_EQ(keeps.Ask(), Answer::kGranted);
  RunBatch(&keeps, &a, 1000);
  EXPECT_TRUE(keeps.held());  // for its bulk work
  EXPECT_EQ(comes.Ask(), Answer::kWaits);
  EXPECT_EQ(keeps.Ask(), Answer::kWaits);  // interactive goes first
  EXPECT_EQ(comes.Ask(), Answer::kGranted);
  RunBatch(&comes, &b, 1000);
  EXPECT_EQ(keeps.Ask(), Answer::kGranted);
  EXPECT_EQ(keeps.priority(), Priority::kBulk);
}

TEST(ComputeGate, RemembersInteractiveWorkForASecond) {
  ComputeGate gate;
  EXPECT_FALSE(gate.InteractiveSeen(0));
  gate.SeeInteractive(5'000'000'000);
  EXPECT_TRUE(gate.InteractiveSeen(5'500'000'000));
  EXPECT_FALSE(gate.InteractiveSeen(6'100'000'000));
}

// Threads of several engines, replicas and leaders among them; engines come and go meanwhile.
TEST(ComputeGate, ThreadsTakeTurns) {
  ComputeGate gate;
  std::atomic<int> inside{0};
  std::atomic<int> batches{0};
  const auto run = [&](Turn* turn) {
    EXPECT_EQ(++inside, 1);
    ++batches;
    if (batches % 16 == 0) std::this_thread::yield();
    --inside;
    return turn;
  };
  const auto engine_life = [&](unsigned seed, int work) {
    Engine engine(work, work);
    const auto replica = [&] {
      Turn turn(&gate, &engine);
      while (engine.Demand().any()) {
        Answer answer = turn.Ask();
        if (answer == Answer::kWaits) answer = turn.Wait();
        if (answer != Answer::kGranted) continue;
        run(&turn);
        engine.Take(turn.priority());
        turn.End(1000 + seed, engine.Demand());
      }
    };
    std::thread other(replica);
    std::thread leader([&] {
      for (int i = 0; i < work; ++i) {
        Turn turn(&gate, &engine);
        if (!turn.TryTake(Priority::kInteractive)) continue;
        run(&turn);
        turn.End(500, {});
      }
    });
    replica();
    leader.join();
    other.join();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int life = 0; life < 20; ++life) engine_life(i, 25 * (1 + static_cast<int>(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(batches, 20 * 2 * 25 * (1 + 2 + 3 + 4));
  EXPECT_EQ(gate.taken(), 0u);
  EXPECT_EQ(gate.waiting(), 0u);
}

}  // namespace
}  // namespace penstock::gate
