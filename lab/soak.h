// penstock-lab soak: a server under several times its capacity, from misbehaving clients, and the
// expectations that must hold all the same.
//
// A server of its own with small queues; its capacity is measured with a closed loop first. Then
// requests arrive at `overload` times that rate: single texts and bulk, some with deadlines, some
// from clients that leave before their answer. Every expectation is a row of the table; one that
// does not hold makes the run fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/chat_request.h"
#include "load/http_texts.h"
#include "load/records.h"

namespace penstock::lab {

struct SoakOptions {
  std::string model;
  std::vector<std::string> server_flags;
  double duration_s = 60;
  double overload = 4;
  double capacity_s = 5;  // how long capacity is measured
  load::LengthSpec lengths;
  uint64_t seed = 1;
  double interactive_share = 0.1;  // of the texts; the rest is bulk
  int bulk_batch = 16;
  int64_t timeout_ms = 1000;  // of half the requests
  double leave_share = 0.2;   // of the clients, within leave_ms_max
  double leave_ms_max = 1000;
  // Hostile clients (hostile_requests.h) in a second phase; each phase takes `duration_s`.
  // Instead of interactive_share, interactive work is kInteractiveOfCapacity of the server's
  // capacity for it alone.
  bool hostile = false;
  double hostile_rate = 40;  // requests a second, see HostileOptions
  std::string hostile_only;  // kinds whose name contains this
  // Streams of text from a model that generates it, instead of embeddings; see RunChatSoak.
  bool chat = false;
  load::TokenRange prompt_tokens = {32, 256};
  load::TokenRange output_tokens = {16, 96};
  double slow_share = 0.1;  // of the clients, that read slowly
  double warmup_s = 10;     // of overload, before memory is judged
  // Limits of the expectations.
  double livez_ms_max = 10;  // not judged where other programs are busy
  double deadline_over_ms_max = 250;
  // Over the resident memory after the capacity was measured; unset = kMemoryGrowthMb, and with
  // hostile clients kInflightMb and the token cache on top.
  std::optional<double> memory_growth_mb_max;
  // With hostile clients.
  double livez_p999_ms_max = 20;  // also of chat; not judged where other programs are busy
  double p99_ratio_max = 1.5;     // of interactive requests; not judged where they are busy
  uint64_t interactive_refused_max = 0;
  uint64_t hostile_wrong_max = 0;
  double hostile_not_sent_max = 0.1;  // share; with more, the load was another one

  static constexpr double kMemoryGrowthMb = 64;
  // The default of the server's --max-inflight-bytes.
  static constexpr double kInflightMb = 512;
  static constexpr double kInteractiveOfCapacity = 0.4;
  // The timeout of a chat request, unless another is asked for.
  static constexpr int64_t kChatTimeoutMs = 5000;
  static constexpr double kChatLivezP999Ms = 10;
};

// kInternal: an expectation did not hold (the table, on stdout, says which). kUnavailable: the
// server could not be started or did not answer.
Status RunSoak(const SoakOptions& options, load::BenchRecords* records);
// The overload alone, then the same beside hostile clients, on one server. A server that ends
// meanwhile is a failed expectation. Of RunSoak.
Status RunHostileSoak(const SoakOptions& options, load::BenchRecords* records);

// Streams of text at `overload` times the rate at which the server finishes them: a whole answer or
// a refusal for each, the cache's blocks of those that left free again. Of RunSoak.
Status RunChatSoak(const SoakOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
