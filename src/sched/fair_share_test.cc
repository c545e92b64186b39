// Shares of clients in simulated time: one job at a time is served.
#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace penstock::sched {
namespace {

// Serves jobs one at a time, as FairShare says.
class Server {
 public:
  struct Job {
    uint64_t client = 0;
    double seconds = 0;
    double estimate = 0;
    double arrived = 0;
    double begun = 0;
    FairShare::Place place = {};
  };

  explicit Server(const FairShare::Options& options = {.clients_max = 256})
      : share_(options), lines_(share_.clients_max()) {}

  void Add(uint64_t client, double seconds, uint32_t weight = 1, double estimate = -1) {
    Job job{.client = client, .seconds = seconds, .arrived = now_};
    job.estimate = estimate < 0 ? seconds : estimate;
    job.place = share_.Join(client, weight);
    lines_[job.place.line].push_back(job);
    ++waiting_;
  }
  // Begins the next job and ends it.
  Job ServeOne() {
    const uint32_t line = share_.Next();
    EXPECT_NE(line, FairShare::kNone);
    Job job = lines_[line].front();
    lines_[line].pop_front();
    EXPECT_EQ(job.place.line, line);
    share_.Serve(line, job.estimate);
    share_.Leave(line);
    --waiting_;
    job.begun = now_;
    now_ += job.seconds;
    served_s_[job.client] += job.seconds;
    share_.Correct(job.place, job.seconds - job.estimate);
    return job;
  }
  double now() const { return now_; }
  size_t waiting() const { return waiting_; }
  double served_s(uint64_t client) { return served_s_[client]; }
  FairShare& share() { return share_; }

 private:
  FairShare share_;
  std::vector<std::deque<Job>> lines_;
  std::map<uint64_t, double> served_s_;
  double now_ = 0;
  size_t waiting_ = 0;
};

TEST(FairShare, AJobWaitsForNobodyWhereOneClientAsks) {
  Server server;
  for (int i = 1; i <= 3; ++i) server.Add(7, i);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(server.ServeOne().seconds, i);
  EXPECT_EQ(server.share().Next(), FairShare::kNone);
  EXPECT_EQ(server.share().waiting_clients(), 0u);
}

TEST(FairShare, ClientsThatAlwaysWaitGetEqualSeconds) {
  // One sends many short jobs, one a few long ones, one jobs of all lengths.
  Server server;
  std::mt19937 random(1);
  const auto seconds_of = [&](uint64_t client) {
    if (client == 1) return 0.01;
    if (client == 2) return 3.0;
    return 0.001 * static_cast<double>(1 + random() % 1000);
  };
  for (uint64_t client = 1; client <= 3; ++client) {
    for (int i = 0; i < 5; ++i) server.Add(client, seconds_of(client));
  }
  while (server.now() < 900) {
    const uint64_t client = server.ServeOne().client;
    server.Add(client, seconds_of(client));
  }
  // They differ by their longest jobs at most.
  for (uint64_t client = 1; client <= 3; ++client) {
    EXPECT_NEAR(server.served_s(client), 300, 6) << client;
  }
}

TEST(FairShare, WeightsHold) {
  Server server;
  const std::map<uint64_t, uint32_t> weights = {{11, 1}, {12, 2}, {13, 5}};
  for (const auto& [client, weight] : weights) server.Add(client, 0.1, weight);
  while (server.now() < 800) {
    const uint64_t client = server.ServeOne().client;
    server.Add(client, 0.1, weights.at(client));
  }
  EXPECT_NEAR(server.served_s(11), 100, 1);
  EXPECT_NEAR(server.served_s(12), 200, 1);
  EXPECT_NEAR(server.served_s(13), 500, 1);
}

TEST(FairShare, ASingleJobWaitsForOneOfAClientThatHas512) {
  Server server;
  for (int i = 0; i < 512; ++i) server.Add(1, 1);
  for (int round = 0; round < 50; ++round) {
    server.ServeOne();
    server.Add(2, 0.1);
    // It came after all 512, and is the next.
    EXPECT_EQ(server.ServeOne().client, 2u);
  }
  EXPECT_EQ(server.waiting(), 512u - 50);
}

TEST(FairShare, SixtyNewClientsAreServedBeforeOneThatHadItsTurn) {
  Server server;
  for (int i = 0; i < 512; ++i) server.Add(1, 1);
  server.ServeOne();
  for (uint64_t client = 100; client < 160; ++client) server.Add(client, 1);
  for (uint64_t client = 100; client < 160; ++client) EXPECT_EQ(server.ServeOne().client, client);
}

TEST(FairShare, WrongEstimatesAreCorrected) {
  // One client's jobs take ten times what is expected, the other's a tenth.
  Server server;
  const auto add = [&](uint64_t client) {
    client == 1 ? server.Add(1, 1, 1, 0.1) : server.Add(2, 0.1, 1, 1);
  };
  for (int i = 0; i < 4; ++i) add(1), add(2);
  while (server.now() < 200) add(server.ServeOne().client);
  EXPECT_NEAR(server.served_s(1), 100, 2);
  EXPECT_NEAR(server.served_s(2), 100, 2);
}

TEST(FairShare, TimeWithoutJobsIsNoCredit) {
  Server server;
  server.Add(1, 1);
  server.ServeOne();
  for (int i = 0; i < 200; ++i) server.Add(2, 1);
  for (int i = 0; i < 100; ++i) server.ServeOne();  // client 1 asks for nothing
  for (int i = 0; i < 100; ++i) server.Add(1, 1);
  double first[3] = {};
  for (int i = 0; i < 20; ++i) first[server.ServeOne().client] += 1;
  EXPECT_NEAR(first[1], 10, 1);
  EXPECT_NEAR(first[2], 10, 1);
}

TEST(FairShare, AllAreEvenOnceNobodyWaits) {
  Server server;
  for (int i = 0; i < 50; ++i) server.Add(1, 1);
  while (server.waiting() > 0) server.ServeOne();
  // No other client wanted those seconds: they are not held against client 1.
  for (int i = 0; i < 10; ++i) server.Add(1, 1), server.Add(2, 1);
  double first[3] = {};
  for (int i = 0; i < 10; ++i) first[server.ServeOne().client] += 1;
  EXPECT_EQ(first[1], 5);
  EXPECT_EQ(first[2], 5);
}

TEST(FairShare, ADebtIsBounded) {
  Server server({.debt_s_max = 10});
  server.Add(1, 1000);
  server.Add(1, 1);
  for (int i = 0; i < 100; ++i) server.Add(2, 1);
  server.ServeOne();
  int before = 0;  // of client 2, until client 1 is served again
  while (server.ServeOne().client == 2) ++before;
  EXPECT_GE(before, 10);
  EXPECT_LE(before, 11);
}

TEST(FairShare, WhoIsPassedOverIsNextLater) {
  FairShare share;
  const uint32_t a = share.Join(1, 1).line;
  const uint32_t b = share.Join(2, 1).line;
  EXPECT_EQ(share.LineOf(1), a);
  EXPECT_EQ(share.LineOf(3), FairShare::kNone);
  EXPECT_EQ(share.Next(), a);
  share.Skip(a);
  EXPECT_EQ(share.Next(), b);
  share.Serve(b, 1);
  EXPECT_EQ(share.Next(), b);
  share.Skip(b);
  EXPECT_EQ(share.Next(), FairShare::kNone);
  EXPECT_EQ(share.waiting_clients(), 2u);
  share.EndSkips();
  EXPECT_EQ(share.Next(), a);
  share.Skip(a);
  share.Leave(a);  // its job died meanwhile
  EXPECT_EQ(share.waiting_clients(), 1u);
  EXPECT_EQ(share.LineOf(1), FairShare::kNone);
  share.EndSkips();
  EXPECT_EQ(share.Next(), b);
}

TEST(FairShare, ForgetsWhoHasBeenIdleForLongest) {
  FairShare share({.clients_max = 2});
  const FairShare::Place first = share.Join(1, 1);
  share.Serve(first.line, 1);
  share.Leave(first.line);
  share.Leave(share.Join(2, 1).line);
  const FairShare::Place third = share.Join(3, 1);
  EXPECT_EQ(third.line, first.line);
  EXPECT_NE(third.stay, first.stay);
  const FairShare::Place fourth = share.Join(4, 1);
  EXPECT_NE(fourth.line, third.line);
  share.Correct(first, 30);  // of a client that is forgotten: no client is charged
  EXPECT_EQ(share.Next(), third.line);
}

TEST(FairShare, AllJobsAreServedWhateverClientsCome) {
  // More clients than are remembered, or than there are lines; some jobs die, some are passed over.
  for (const uint32_t clients_max : {1u, 3u, 64u}) {
    FairShare share({.clients_max = clients_max});
    std::vector<size_t> waiting(clients_max);
    size_t all = 0, joined = 0, gone = 0;
    std::mt19937_64 random(clients_max);
    for (int i = 0; i < 50'000; ++i) {
      const uint64_t dice = random() % 8;
      if (dice < 3 || all == 0) {
        ++waiting[share.Join(random() % 100, static_cast<uint32_t>(random() % 4)).line];
        ++all;
        ++joined;
        continue;
      }
      const uint32_t line = share.Next();
      if (line == FairShare::kNone) {
        share.EndSkips();
        continue;
      }
      ASSERT_LT(line, clients_max);
      ASSERT_GT(waiting[line], 0u);
      if (dice == 3) {
        share.Skip(line);
        if (random() % 2 == 0) continue;
      } else if (dice == 4) {
        share.EndSkips();
        continue;
      } else {
        share.Serve(line, static_cast<double>(random() % 100) / 10);
      }
      share.Leave(line);
      --waiting[line];
      --all;
      ++gone;
    }
    share.EndSkips();
    for (; all > 0; --all, ++gone) {
      const uint32_t line = share.Next();
      ASSERT_NE(line, FairShare::kNone);
      ASSERT_GT(waiting[line], 0u);
      --waiting[line];
      share.Leave(line);
    }
    EXPECT_EQ(joined, gone);
    EXPECT_EQ(share.Next(), FairShare::kNone);
    EXPECT_EQ(share.waiting_clients(), 0u);
  }
}

}  // namespace
}  // namespace penstock::sched
