// Every golden decoder gives the bits it has always given: logits of a text, and 64 greedy tokens
// with their logits, with every instruction set, type of the weights and type of the cache.
//
// tests/golden/decoder_bits.json holds FNV-1a hashes of 64 bits. A change of the code's structure
// leaves them as they are; a change of arithmetic writes them anew (PENSTOCK_WRITE_BITS=1) and says
// so. An instruction set that this processor lacks keeps its hashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <tuple>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "generate/golden_test_util.h"

namespace penstock::generate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBitsPath = PENSTOCK_GOLDEN_DIR "/decoder_bits.json";
constexpr size_t kGreedyTokens = 64;

using Bits = std::map<std::string, std::string>;  // "isa/model/weights/cache" -> hash

class Fnv {
 public:
  void Add(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ ((word >> (8 * byte)) & 0xff)) * 0x100000001b3u;
    }
  }
  void Add(const std::vector<double>& row) {
    for (const double x : row) Add(std::bit_cast<uint64_t>(x));
  }
  std::string hex() const {
    std::ostringstream out;
    out << std::hex << std::setw(16) << std::setfill('0') << hash_;
    return out.str();
  }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

Bits ReadBits() {
  Bits out;
  simdjson::dom::parser parser;
  simdjson::dom::element file;
  if (parser.load(kBitsPath).get(file) != simdjson::SUCCESS) return out;
  for (const auto [key, value] : file.get_object()) {
    out.emplace(key, std::string(value.get_string().value()));
  }
  return out;
}

void WriteBits(const Bits& bits) {
  std::ofstream out(kBitsPath);
  out << "{";
  const char* before = "\n";
  for (const auto& [key, value] : bits) {
    out << before << " \"" << key << "\": \"" << value << '"';
    before = ",\n";
  }
  out << "\n}\n";
}

// Ids of the vocabulary in an order that repeats nothing soon, more than any window of the goldens.
std::vector<int32_t> TextIds(int32_t vocabulary, int count) {
  std::vector<int32_t> ids;
  uint32_t state = 20261124;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocabulary)));
  }
  return ids;
}

// The text in one step, then token by token.
std::string HashOf(const models::DecoderModel& model, numbers::DType cache) {
  std::vector<int32_t> ids = TextIds(model.config().vocab_size, 40);
  Fnv hash;
  for (const auto& row : LogitsOf(model, ids, cache)) hash.Add(row);
  for (const auto& [id, row] : GreedyWithLogits(model, ids, cache, kGreedyTokens)) {
    hash.Add(static_cast<uint64_t>(id));
    hash.Add(row);
  }
  return hash.hex();
}

struct Case {
  std::string model;  // below decoders/
  numbers::DType weights;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const fs::path folder = PENSTOCK_GOLDEN_DIR "/decoders";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!fs::exists(entry.path() / "expected.json")) continue;
    cases.push_back({entry.path().filename().string(), numbers::DType::kF32});
    cases.push_back({entry.path().filename().string(), numbers::DType::kBf16});
  }
  cases.push_back({"llama_gguf/llama-q8_0.gguf", numbers::DType::kI8});
  cases.push_back({"llama_gguf/llama-f16.gguf", numbers::DType::kF32});
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) {
    return std::tie(a.model, a.weights) < std::tie(b.model, b.weights);
  });
  return cases;
}

TEST(GoldenBits, OfDecodersAreThoseThatAreKept) {
  const Bits known = ReadBits();
  Bits found = known;
  for (const cpu::Kernels* kernels : cpu::AllKernels()) {
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    // An emulation has the bits of what it emulates.
    std::string isa = kernels->name;
    if (isa.ends_with("_emulated")) isa.resize(isa.size() - strlen("_emulated"));
    for (const Case& one : Cases()) {
      const auto model =
          LoadDecoder(PENSTOCK_GOLDEN_DIR "/decoders/" + one.model, backend->get(), one.weights);
      ASSERT_NE(model, nullptr);
      for (const numbers::DType cache : {numbers::DType::kF32, numbers::DType::kBf16,
                                         numbers::DType::kF16, numbers::DType::kI8}) {
        const std::string key = isa + "/" + one.model + "/" + numbers::DTypeFlag(one.weights) +
                                "/" + numbers::DTypeFlag(cache);
        found[key] = HashOf(*model, cache);
      }
    }
  }
  if (std::getenv("PENSTOCK_WRITE_BITS") != nullptr) {
    WriteBits(found);
    GTEST_SKIP() << "wrote " << kBitsPath;
  }
  EXPECT_EQ(found, known);
}

}  // namespace
}  // namespace penstock::generate
