// An input file of the commands: a byte for the format, one for the encoding, one for the size of
// the blocks it comes in; the rest is the file.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/row_reader.h"
#include "fuzz_util.h"
#include "json/json.h"

namespace penstock {
namespace {

constexpr size_t kRowBytes = 2048;   // small, so that inputs reach it
constexpr size_t kRowsMax = 20'000;  // of packed inputs: a small one may hold many

class BlockSource : public corpus::ByteSource {
 public:
  BlockSource(std::string_view file, size_t block) : rest_(file), block_(block) {}
  Expected<size_t> Read(char* data, size_t size) override {
    const size_t n = std::min({size, block_, rest_.size()});
    if (n > 0) std::memcpy(data, rest_.data(), n);
    rest_.remove_prefix(n);
    return n;
  }
  int64_t disk_bytes() const override { return 0; }

 private:
  std::string_view rest_;
  size_t block_;
};

void CheckRow(const corpus::Row& row) {
  PENSTOCK_CHECK(row.where.starts_with("in"));
  if (row.id) PENSTOCK_CHECK(corpus::FindNotUtf8(*row.id) == std::string_view::npos);
  if (!row.status.ok()) {
    PENSTOCK_CHECK(row.status.message().starts_with(row.where + ": "));
    PENSTOCK_CHECK(row.text.empty() && row.object.empty());
    return;
  }
  PENSTOCK_CHECK(corpus::FindNotUtf8(row.text) == std::string_view::npos);
  PENSTOCK_CHECK(row.text.size() <= 2 * kRowBytes);  // a field may be asked for twice
  if (!row.object.empty()) {
    const auto document = JsonDocument::Parse(row.object);
    PENSTOCK_CHECK(document.ok() && document->root().is_object());
  }
}

// All rows, as text.
std::vector<std::string> ReadAll(std::string_view file, const corpus::InputOptions& options,
                                 size_t block) {
  std::vector<std::string> all;
  auto rows = corpus::FileRows::Open(std::make_unique<BlockSource>(file, block), "in", options);
  if (!rows.ok()) return {rows.status().message()};
  while (all.size() < kRowsMax) {
    const auto row = (*rows)->Next();
    if (!row.ok()) {
      all.push_back(row.status().message());
      break;
    }
    if (!*row) break;
    CheckRow(**row);
    all.push_back((*row)->where + (*row)->status.message() + (*row)->text +
                  (*row)->id.value_or("") + (*row)->object);
  }
  return all;
}

bool IsPacked(std::string_view file) {
  return file.starts_with("\x1f\x8b") ||
         (file.size() > 3 && (file.substr(1, 3) == "\x2a\x4d\x18" || file[0] == '\x28'));
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  corpus::InputOptions options;
  options.format = static_cast<corpus::InputFormat>(input.Byte() % 6);
  const uint8_t how = input.Byte();
  options.encoding = static_cast<corpus::TextEncoding>(how % 4);
  if ((how & 4) != 0) options.text_fields = {"a", "b"};
  if ((how & 8) != 0) options.id_field = "id";
  options.keeps_objects = (how & 16) != 0;
  options.needs_text = (how & 32) == 0;
  options.row_bytes_max = kRowBytes;
  const size_t block = 1 + input.Byte();
  const std::string_view file = input.Rest();
  const auto whole = ReadAll(file, options, size_t{1} << 20);
  // Damage in packed data, and what the first block shows of a form that was not told, may show
  // earlier or later.
  const auto cut = ReadAll(file, options, block);
  if (options.format != corpus::InputFormat::kAuto && !IsPacked(file)) PENSTOCK_CHECK(cut == whole);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
