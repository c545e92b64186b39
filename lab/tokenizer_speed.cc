#include "lab/tokenizer_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "load/table.h"
#include "text/tokenizer.h"

namespace penstock::lab {
namespace {

// Parts of about `bytes`, which end behind white space, or else anywhere between characters.
std::vector<std::string_view> Cut(std::string_view text, size_t bytes) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = std::min(bytes, text.size());
    if (end < text.size()) {
      const size_t space = text.substr(0, end).find_last_of(" \n\t");
      if (space != std::string_view::npos && space > end / 2) {
        end = space + 1;
      } else {
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
        if (end == 0) end = text.size();
      }
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

}  // namespace

Status MeasureTokenizerSpeed(const TokenizerSpeedOptions& options, load::BenchRecords* records) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::FromFile(options.tokenizer));
  std::string text;
  for (const std::string& path : options.texts) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return Status::NotFound("cannot read " + path);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  if (text.empty()) return Status::InvalidArgument("the files hold no text", "texts");
  const std::vector<std::string_view> parts = Cut(text, options.text_bytes);
  double best_s = 1e30;
  size_t tokens = 0;
  std::vector<int32_t> ids;
  for (int round = 0; round < options.rounds; ++round) {
    tokens = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string_view part : parts) {
      ids.clear();
      PENSTOCK_RETURN_IF_ERROR(tokenizer->EncodeText(part, &ids));
      tokens += ids.size();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best_s = std::min(best_s, took.count());
  }
  const double mb = static_cast<double>(text.size()) / 1e6;
  const std::string name =
      options.name.empty() ? std::string(tokenizer->model_type()) : options.name;
  fmt::print("{}, {} ids: {:.1f} MB in {} texts, {} tokens, {:.1f} MB/s, {} tokens/s\n", name,
             tokenizer->vocab_size(), mb, parts.size(), tokens, mb / best_s,
             load::ShortNumber(static_cast<double>(tokens) / best_s));
  records->Add("tokenizers." + name + ".mb_per_s", mb / best_s, "MB/s");
  records->Add("tokenizers." + name + ".tokens_per_s", static_cast<double>(tokens) / best_s, "1/s");
  return Status::Ok();
}

}  // namespace penstock::lab
