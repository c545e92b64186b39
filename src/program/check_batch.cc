#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "base/int_math.h"
#include "program/program_run.h"

namespace penstock::program {
namespace {

// The first id that is negative or not below `count`.
std::optional<int32_t> Outside(std::span<const int32_t> ids, int64_t count) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= count) return id;
  }
  return std::nullopt;
}

Status CheckSequences(const Program& program, const PackedBatch& batch) {
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const int32_t length = batch.length(s);
    if (length <= 0 || length > program.max_length) {
      return Status::InvalidArgument("sequence " + std::to_string(s) + " has " +
                                         std::to_string(length) + " tokens, the model takes 1 to " +
                                         std::to_string(program.max_length),
                                     "inputs");
    }
    if (!batch.pool_skip.empty() && (batch.pool_skip[s] < 0 || batch.pool_skip[s] >= length)) {
      return Status::InvalidArgument("pool_skip leaves nothing to pool", "pool_skip");
    }
  }
  return Status::Ok();
}

Status CheckIds(const EmbedOp& embed, const PackedBatch& batch) {
  if (const auto id = Outside(batch.ids, embed.vocabulary())) {
    return Status::InvalidArgument(
        "token id " + std::to_string(*id) + " is not below " + std::to_string(embed.vocabulary()),
        "inputs");
  }
  // Models without a table of types ignore them.
  if (embed.types == nullptr || embed.types->rows() <= 1) return Status::Ok();
  if (const auto id = Outside(batch.type_ids, embed.types->rows())) {
    return Status::InvalidArgument(
        "type id " + std::to_string(*id) + " is not below " + std::to_string(embed.types->rows()),
        "type_ids");
  }
  return Status::Ok();
}

// What is wrong with the blocks that a sequence has for `end` tokens, of which a batch reads or
// writes those from `first` on; null: nothing.
const char* FaultOf(std::span<const int32_t> blocks, int64_t first, int64_t end, int32_t known) {
  const size_t needed = CeilDiv(static_cast<size_t>(end), size_t{kKvBlockTokens});
  if (blocks.size() < needed) return " has too few blocks";
  for (const int32_t block : blocks.first(needed).subspan(static_cast<size_t>(first))) {
    if (block < 0 || block >= known) return " has a block beyond the cache";
  }
  return nullptr;
}

// Every group's table of a sequence has the blocks of a batch; null: nothing is wrong.
const char* FaultOf(const CachedSequence& one, int64_t end, const PrepareOptions& options,
                    std::span<const CacheGroup> groups) {
  if (one.blocks.size() < groups.size()) return " has too few blocks";
  for (size_t g = 0; g < groups.size(); ++g) {
    int32_t first = 0;
    if (groups[g].kind == CacheKind::kWindow) first = FirstSeenBlock(one.past, groups[g].window);
    if (groups[g].kind == CacheKind::kState) first = std::max(0, one.past - 1) / kKvBlockTokens;
    const char* const fault = FaultOf(one.blocks[g], first, end, options.blocks[g]);
    if (fault != nullptr) return fault;
  }
  return nullptr;
}

// They cover the ids, and every one has its blocks.
Status CheckCachedSequences(const Program& program, const PackedBatch& batch,
                            const PrepareOptions& options, std::span<const CacheGroup> groups) {
  const size_t count = batch.sequences();
  if (batch.cached.size() != count || count == 0 || batch.offsets[0] != 0 ||
      static_cast<size_t>(batch.offsets[count]) != batch.tokens()) {
    return Status::InvalidArgument("the sequences do not cover the ids", "sequences");
  }
  for (size_t s = 0; s < count; ++s) {
    const CachedSequence& one = batch.cached[s];
    const auto fault = [s](const std::string& what) {
      return Status::InvalidArgument(fmt::format("sequence {}{}", s, what), "sequences");
    };
    if (batch.length(s) <= 0 || one.past < 0) return fault(" has no rows");
    const int64_t end = int64_t{one.past} + batch.length(s);
    if (end > program.max_length) {
      return fault(fmt::format(" has {} tokens, the context is {}", end, program.max_length));
    }
    if (program.rope_switch > 0 && end > program.rope_switch && !one.long_rope) {
      return fault(fmt::format(" has {} tokens, the short rotary tables are for {}", end,
                               program.rope_switch));
    }
    if (const char* const wrong = FaultOf(one, end, options, groups)) return fault(wrong);
  }
  return Status::Ok();
}

// As all layers do (CheckProgram).
bool AttendsBothWays(const Program& program) {
  const auto* attention = FirstOp<AttentionOp>(program);
  return attention != nullptr && !attention->shape.causal;
}

Status CheckPicks(const PackedBatch& batch, int32_t most) {
  if (batch.picks.size() > static_cast<size_t>(most)) {
    return Status::InvalidArgument(fmt::format("more picks than {}", most), "picks");
  }
  if (!batch.wants.empty() && batch.wants.size() != batch.picks.size()) {
    return Status::InvalidArgument("one want is needed for each pick", "wants");
  }
  if (!batch.draws.empty() && batch.draws.size() != batch.picks.size()) {
    return Status::InvalidArgument("one draw is needed for each pick", "draws");
  }
  if (!batch.sources.empty() && batch.sources.size() != batch.tokens()) {
    return Status::InvalidArgument("one source is needed for each row", "sources");
  }
  int64_t before = -1;
  for (const int32_t row : batch.picks) {
    if (row <= before || static_cast<size_t>(row) >= batch.tokens()) {
      return Status::InvalidArgument("picks are not ascending rows of the batch", "picks");
    }
    before = row;
  }
  return Status::Ok();
}

}  // namespace

Status CheckBatch(const Program& program, const PackedBatch& batch, std::span<float* const> sinks) {
  const size_t sequences = batch.sequences();
  if (sequences == 0) return Status::InvalidArgument("the batch is empty", "inputs");
  if (batch.offsets[0] != 0 || static_cast<size_t>(batch.offsets[sequences]) != batch.tokens()) {
    return Status::InvalidArgument("offsets do not cover the tokens", "offsets");
  }
  if (!batch.type_ids.empty() && batch.type_ids.size() != batch.tokens()) {
    return Status::InvalidArgument("one type id is needed for each token", "type_ids");
  }
  if (!batch.pool_skip.empty() && batch.pool_skip.size() != sequences) {
    return Status::InvalidArgument("one pool_skip is needed for each sequence", "pool_skip");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSequences(program, batch));
  if (const EmbedOp* embed = FirstOp<EmbedOp>(program)) {
    PENSTOCK_RETURN_IF_ERROR(CheckIds(*embed, batch));
  }
  for (const Op& op : program.ops) {
    const InputOp* input = std::get_if<InputOp>(&op);
    if (input == nullptr) continue;
    const size_t width = static_cast<size_t>(program.values[input->y].width);
    if (batch.input.size() == batch.tokens() * width) continue;
    return Status::InvalidArgument("one row of input is needed for each token", "inputs");
  }
  if (sinks.size() != sequences) {
    return Status::InvalidArgument("one sink is needed for each sequence", "out");
  }
  return Status::Ok();
}

Status CheckCachedBatch(const Program& program, const PackedBatch& batch,
                        const PrepareOptions& options, std::span<const CacheGroup> groups) {
  if (batch.ids.empty() || batch.ids.size() > static_cast<size_t>(options.rows)) {
    return Status::InvalidArgument(
        fmt::format("a batch has {} rows, 1 to {} are possible", batch.ids.size(), options.rows),
        "inputs");
  }
  if (const EmbedOp* embed = FirstOp<EmbedOp>(program)) {
    PENSTOCK_RETURN_IF_ERROR(CheckIds(*embed, batch));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckCachedSequences(program, batch, options, groups));
  const auto goes_on = [](const CachedSequence& one) { return one.past > 0; };
  if (std::ranges::any_of(batch.cached, goes_on) && AttendsBothWays(program)) {
    return Status::InvalidArgument("attention in both directions needs the whole sequence",
                                   "sequences");
  }
  return CheckPicks(batch, options.picks);
}

}  // namespace penstock::program
