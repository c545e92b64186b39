#include "text/model_bpe.h"

#include <algorithm>
#include <cstring>

#include "base/printable.h"
#include "text/byte_level.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

// From about this many symbols a heap pays off; below, scanning for the lowest rank is quicker.
constexpr size_t kShortPiece = 48;
// Cost of a merge of a long piece, in units of Work, and the merges between two counts.
constexpr size_t kPopCost = 64, kPopsALook = 1024;

}  // namespace

std::unique_ptr<BpeModel> BpeModel::FromMerges(Vocabulary vocabulary,
                                               std::span<const BpeMerge> merges,
                                               BpeOptions options) {
  std::unique_ptr<BpeModel> model(new BpeModel);
  model->vocabulary_ = std::move(vocabulary);
  model->options_ = std::move(options);
  const BpeOptions& opt = model->options_;
  if (opt.has_unk_token) model->unk_id_ = model->vocabulary_.Find(opt.unk_token);

  size_t capacity = 16;
  while (capacity < merges.size() * 2) capacity *= 2;
  model->merges_.assign(capacity, Slot());
  model->merge_mask_ = capacity - 1;
  for (const BpeMerge& merge : merges) {
    const uint64_t key = uint64_t(uint32_t(merge.left)) << 32 | uint32_t(merge.right);
    uint64_t slot = HashWord(key, model->seed_) & model->merge_mask_;
    while (model->merges_[slot].key != kFree && model->merges_[slot].key != key) {
      slot = (slot + 1) & model->merge_mask_;
    }
    model->merges_[slot] = {key, {merge.rank, merge.id}};
  }
  model->BuildByteTables();
  return model;
}

Expected<std::unique_ptr<BpeModel>> BpeModel::Create(
    Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
    BpeOptions options) {
  std::vector<BpeMerge> known;
  known.reserve(merges.size());
  for (const auto& [left, right] : merges) {
    const auto missing = [&](const std::string& token) {
      return Status::InvalidArgument("merge " + std::to_string(known.size()) + " needs \"" +
                                         Shown(token) + "\", which is not in the vocabulary",
                                     "model.merges");
    };
    const int32_t left_id = vocabulary.Find(left), right_id = vocabulary.Find(right);
    if (left_id < 0) return missing(left);
    if (right_id < 0) return missing(right);
    if (right.size() < options.continuing_prefix.size()) return missing(right);
    const std::string merged = left + right.substr(options.continuing_prefix.size());
    const int32_t id = vocabulary.Find(merged);
    if (id < 0) return missing(merged);
    known.push_back({left_id, right_id, id, uint32_t(known.size())});
  }
  return FromMerges(std::move(vocabulary), known, std::move(options));
}

void BpeModel::BuildByteTables() {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    fallback_id_[byte] = vocabulary_.Find({name, sizeof(name)});
    byte_id_[byte] = vocabulary_.Find(ByteLevelUtf8(static_cast<unsigned char>(byte)));
  }
  if (!options_.bytes || !options_.ignore_merges) return;
  std::string bytes;
  for (int32_t id = 0; id <= vocabulary_.max_id(); ++id) {
    bytes.clear();
    if (vocabulary_.HasId(id) && ByteLevelToBytes(vocabulary_.TokenOf(id), &bytes)) {
      raw_.Add(bytes, id);
    }
  }
  raw_.Build();
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  for (uint64_t slot = HashWord(key, seed_) & merge_mask_;; slot = (slot + 1) & merge_mask_) {
    if (merges_[slot].key == key) return &merges_[slot].merge;
    if (merges_[slot].key == kFree) return nullptr;
  }
}

// The symbols a piece starts from. False if an unknown token is needed and is not in the
// vocabulary.
bool BpeModel::Symbols(std::string_view piece, std::vector<Symbol>* out) const {
  int32_t unk_length = -1;  // of the unknown token being collected; -1: none
  const auto flush_unk = [&] {
    if (unk_length >= 0) out->push_back({unk_id_, uint32_t(unk_length), 0, 0});
    unk_length = -1;
  };
  std::string decorated;
  for (size_t at = 0; at < piece.size();) {
    const size_t length =
        options_.bytes ? 1 : unicode::Utf8Length(static_cast<unsigned char>(piece[at]));
    std::string_view symbol = piece.substr(at, length);
    int32_t id;
    if (options_.bytes) {
      id = byte_id_[static_cast<unsigned char>(piece[at])];
    } else {
      const bool prefixed = at > 0 && !options_.continuing_prefix.empty();
      const bool suffixed = at + length == piece.size() && !options_.end_suffix.empty();
      if (prefixed || suffixed) {
        decorated.clear();
        if (prefixed) decorated += options_.continuing_prefix;
        decorated += symbol;
        if (suffixed) decorated += options_.end_suffix;
        symbol = decorated;
      }
      id = vocabulary_.Find(symbol);
    }
    at += length;
    if (id >= 0) {
      flush_unk();
      out->push_back({id, uint32_t(length), 0, 0});
      continue;
    }
    if (options_.byte_fallback) {
      const bool all = std::all_of(symbol.begin(), symbol.end(), [&](char byte) {
        return fallback_id_[static_cast<unsigned char>(byte)] >= 0;
      });
      if (all) {
        // An unknown token still being collected comes after these, as in the reference.
        for (char byte : symbol) {
          out->push_back({fallback_id_[static_cast<unsigned char>(byte)], 1, 0, 0});
        }
        continue;
      }
    }
    if (!options_.has_unk_token) continue;
    if (unk_id_ < 0) return false;
    if (unk_length >= 0 && options_.fuse_unk) {
      unk_length += int32_t(length);
    } else {
      flush_unk();
      unk_length = int32_t(length);
    }
  }
  flush_unk();
  return true;
}

bool BpeModel::Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const {
  if (options_.ignore_merges) {
    const int32_t id = options_.bytes ? raw_.Find(piece) : vocabulary_.Find(piece);
    if (id >= 0) {
      out->push_back({id, 0, uint32_t(piece.size())});
      return true;
    }
  }
  static thread_local std::vector<Symbol> symbols;
  symbols.clear();
  if (!Symbols(piece, &symbols)) return false;
  if (symbols.size() <= kShortPiece) {
    MergeShort(&symbols);
  } else if (!MergeLong(work, &symbols)) {
    return false;
  }
  uint32_t at = 0;
  for (const Symbol& symbol : symbols) {
    out->push_back({symbol.id, at, at + symbol.length});
    at += symbol.length;
  }
  if (symbols.capacity() > (1u << 16)) std::vector<Symbol>().swap(symbols);
  return true;
}

// Lowest rank first, leftmost of equal ranks.
void BpeModel::MergeShort(std::vector<Symbol>* symbols) const {
  constexpr uint32_t kNoRank = 0xFFFFFFFF;
  Merge merges[kShortPiece];  // of symbol i with the one after it
  size_t count = symbols->size();
  Symbol* s = symbols->data();
  const auto look_up = [&](size_t i) {
    const Merge* merge = FindMerge(s[i].id, s[i + 1].id);
    merges[i] = merge != nullptr ? *merge : Merge{kNoRank, -1};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    s[best].id = merges[best].id;
    s[best].length += s[best + 1].length;
    std::memmove(s + best + 1, s + best + 2, (count - best - 2) * sizeof(Symbol));
    if (count > best + 2) {
      std::memmove(merges + best + 1, merges + best + 2, (count - best - 3) * sizeof(Merge));
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols->resize(count);
}

// The same with a heap over a linked list: n log n for any length.
bool BpeModel::MergeLong(Work* work, std::vector<Symbol>* symbols) const {
  struct Candidate {
    uint32_t rank;
    int32_t left, id;
    bool operator<(const Candidate& other) const {  // std heaps keep the largest on top
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Candidate> heap;
  std::vector<Symbol>& s = *symbols;
  const int32_t count = int32_t(s.size());
  const auto candidate = [&](int32_t left, bool push) {
    const Merge* merge = FindMerge(s[left].id, s[s[left].next].id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, left, merge->id});
    if (push) std::push_heap(heap.begin(), heap.end());
  };
  for (int32_t i = 0; i < count; ++i) {
    s[i].prev = i - 1;
    s[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < count; ++i) candidate(i, false);
  std::make_heap(heap.begin(), heap.end());
  for (size_t pops = 1; !heap.empty(); ++pops) {
    if (pops % kPopsALook == 0 && !work->Spend(kPopsALook * kPopCost)) return false;
    std::pop_heap(heap.begin(), heap.end());
    const Candidate top = heap.back();
    heap.pop_back();
    if (s[top.left].length == 0 || s[top.left].next < 0) continue;
    const int32_t right = s[top.left].next;
    const Merge* merge = FindMerge(s[top.left].id, s[right].id);
    if (merge == nullptr || merge->id != top.id) continue;  // out of date
    s[top.left].id = top.id;
    s[top.left].length += s[right].length;
    s[top.left].next = s[right].next;
    s[right].length = 0;
    if (s[right].next >= 0) s[s[right].next].prev = top.left;
    if (s[top.left].prev >= 0) candidate(s[top.left].prev, true);
    if (s[top.left].next >= 0) candidate(top.left, true);
  }
  std::erase_if(s, [](const Symbol& symbol) { return symbol.length == 0; });
  return true;
}

}  // namespace penstock::text
