// tokenizer_parity: the C++ half of parity.py. Runs a file of cases through one tokenizer.json
// and writes everything the Tokenizer seam answers, in binary, so that Python can compare
// millions of tokens against the reference in seconds.
//
//   tokenizer_parity TOKENIZER CASES RESULTS [THREADS]   cases from a file, in contiguous blocks
//                                                        for THREADS threads on one Tokenizer
//   tokenizer_parity TOKENIZER - -                       case by case from stdin to stdout
//   tokenizer_parity --dump TOKENIZER RESULTS            the vocabulary as the seam shows it
//
// All numbers are little-endian u32. One case:
//   flags, max_tokens, length, bytes, length of the second text (kNone = no pair), bytes
// One result:
//   status code; when not 0: length, message. Otherwise
//   n, ids[n], type_ids[n], special_mask[n] (u8), sequence_ids[n] (i8), offsets[2n],
//   truncated_tokens, 1 if encoding without offsets gave the same answer
//   with kDecode: decoded text (length, bytes) with special tokens kept, then skipped
//   with kStream: for kept, then skipped: number of pieces, the length of each, then the bytes
//                 of all; the last piece is what Finish gave
// A kIdsOnly case carries ids in place of text; its result has n = 0 and the decoded texts.
//
// Exit status: 0 done, 2 usage or file trouble, 3 the loader refused the tokenizer (said on
// stderr).
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "text/tokenizer.h"

namespace penstock {
namespace {

constexpr uint32_t kAddSpecial = 1;
constexpr uint32_t kLeft = 2;
constexpr uint32_t kStrategyShift = 2;  // two bits: 0 longest first, 1 only first, 2 only second
constexpr uint32_t kDecode = 16;
constexpr uint32_t kStream = 32;
constexpr uint32_t kIdsOnly = 64;
constexpr uint32_t kNone = 0xFFFFFFFFu;

void PutU32(std::string* out, uint32_t value) {
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  out->append(bytes, 4);
}

void PutText(std::string* out, std::string_view text) {
  PutU32(out, static_cast<uint32_t>(text.size()));
  out->append(text);
}

template <typename T>
void PutArray(std::string* out, const std::vector<T>& values) {
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

struct Case {
  uint32_t flags = 0;
  uint32_t max_tokens = 0;
  std::string first;
  std::string second;
  bool pair = false;
};

// Reads `size` bytes or says no.
bool ReadExactly(std::FILE* in, void* to, size_t size) {
  return size == 0 || std::fread(to, 1, size, in) == size;
}

bool ReadText(std::FILE* in, uint32_t size, std::string* text) {
  text->resize(size);
  return ReadExactly(in, text->data(), size);
}

// False at the end of the file, or where it is cut short (then *broken).
bool ReadCase(std::FILE* in, Case* c, bool* broken) {
  uint32_t head[3];
  if (!ReadExactly(in, head, 4)) return false;
  uint32_t second = 0;
  *broken = true;
  if (!ReadExactly(in, head + 1, 8)) return false;
  c->flags = head[0];
  c->max_tokens = head[1];
  if (!ReadText(in, head[2], &c->first)) return false;
  if (!ReadExactly(in, &second, 4)) return false;
  c->pair = second != kNone;
  c->second.clear();
  if (c->pair && !ReadText(in, second, &c->second)) return false;
  *broken = false;
  return true;
}

void PutDecoded(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids, uint32_t flags,
                std::string* out) {
  if (flags & kDecode) {
    PutText(out, tokenizer.Decode(ids, false));
    PutText(out, tokenizer.Decode(ids, true));
  }
  if (flags & kStream) {
    for (bool skip : {false, true}) {
      auto stream = tokenizer.NewStreamDecoder(skip);
      std::vector<uint32_t> sizes;
      std::string text;
      for (size_t i = 0; i <= ids.size(); ++i) {
        const std::string piece = i < ids.size() ? stream->Push(ids[i]) : stream->Finish();
        sizes.push_back(static_cast<uint32_t>(piece.size()));
        text += piece;
      }
      PutU32(out, static_cast<uint32_t>(sizes.size()));
      PutArray(out, sizes);
      out->append(text);
    }
  }
}

Status EncodeCase(const text::Tokenizer& tokenizer, const Case& c,
                  const text::EncodeOptions& options, text::Encoding* encoding) {
  return c.pair ? tokenizer.EncodePair(c.first, c.second, options, encoding)
                : tokenizer.Encode(c.first, options, encoding);
}

// `with` and `without` are reused from case to case on purpose: stale content must not show.
void RunCase(const text::Tokenizer& tokenizer, const Case& c, text::Encoding* with,
             text::Encoding* without, std::string* out) {
  if (c.flags & kIdsOnly) {
    std::vector<int32_t> ids(c.first.size() / 4);
    std::memcpy(ids.data(), c.first.data(), ids.size() * 4);
    for (int zeros = 0; zeros < 4; ++zeros) PutU32(out, zeros == 3 ? 1 : 0);
    PutDecoded(tokenizer, ids, c.flags, out);
    return;
  }
  text::EncodeOptions options;
  options.add_special_tokens = c.flags & kAddSpecial;
  options.max_tokens = c.max_tokens;
  options.side = c.flags & kLeft ? text::TruncationSide::kLeft : text::TruncationSide::kRight;
  options.strategy = static_cast<text::TruncationStrategy>((c.flags >> kStrategyShift) & 3);
  options.with_offsets = true;
  const Status status = EncodeCase(tokenizer, c, options, with);
  PutU32(out, static_cast<uint32_t>(status.code()));
  if (!status.ok()) {
    PutText(out, status.message());
    return;
  }
  PutU32(out, static_cast<uint32_t>(with->ids.size()));
  PutArray(out, with->ids);
  // A wrong length must not shift what follows: it is cut or filled, which shows as a difference.
  with->type_ids.resize(with->ids.size(), -99);
  with->special_mask.resize(with->ids.size(), 99);
  with->sequence_ids.resize(with->ids.size(), 99);
  with->offsets.resize(with->ids.size(), text::TokenOffset{kNone, kNone});
  PutArray(out, with->type_ids);
  PutArray(out, with->special_mask);
  PutArray(out, with->sequence_ids);
  for (const text::TokenOffset& offset : with->offsets) {
    PutU32(out, offset.begin);
    PutU32(out, offset.end);
  }
  PutU32(out, static_cast<uint32_t>(with->truncated_tokens));
  options.with_offsets = false;
  const Status again = EncodeCase(tokenizer, c, options, without);
  const bool same =
      again.ok() && with->ids == without->ids && with->type_ids == without->type_ids &&
      with->special_mask == without->special_mask && with->sequence_ids == without->sequence_ids &&
      without->offsets.empty() && with->truncated_tokens == without->truncated_tokens;
  PutU32(out, same ? 1 : 0);
  PutDecoded(tokenizer, with->ids, c.flags, out);
}

int RunFile(const text::Tokenizer& tokenizer, const char* cases_path, const char* results_path,
            size_t threads) {
  std::FILE* in = std::fopen(cases_path, "rb");
  if (in == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", cases_path);
    return 2;
  }
  std::vector<Case> cases;
  bool broken = false;
  for (Case c; ReadCase(in, &c, &broken);) cases.push_back(std::move(c));
  std::fclose(in);
  if (broken) {
    std::fprintf(stderr, "%s is cut short after %zu cases\n", cases_path, cases.size());
    return 2;
  }
  std::vector<std::string> results(threads);
  std::vector<std::thread> workers;
  for (size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      text::Encoding with, without;
      const size_t end = cases.size() * (t + 1) / threads;
      for (size_t i = cases.size() * t / threads; i < end; ++i) {
        RunCase(tokenizer, cases[i], &with, &without, &results[t]);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::ofstream out(results_path, std::ios::binary);
  for (const std::string& part : results)
    out.write(part.data(), static_cast<std::streamsize>(part.size()));
  out.close();
  if (!out) {
    std::fprintf(stderr, "cannot write %s\n", results_path);
    return 2;
  }
  return 0;
}

int RunStdin(const text::Tokenizer& tokenizer) {
  text::Encoding with, without;
  std::string out;
  bool broken = false;
  for (Case c; ReadCase(stdin, &c, &broken);) {
    out.clear();
    RunCase(tokenizer, c, &with, &without, &out);
    std::string size;
    PutU32(&size, static_cast<uint32_t>(out.size()));
    std::fwrite(size.data(), 1, size.size(), stdout);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }
  return broken ? 2 : 0;
}

// vocab_size, specials of one text, of a pair; model type; then of each id: token, the id that
// TokenToId gives for it, IsSpecial.
int Dump(const text::Tokenizer& tokenizer, const char* results_path) {
  std::string out;
  const int32_t size = tokenizer.vocab_size();
  PutU32(&out, static_cast<uint32_t>(size));
  PutU32(&out, static_cast<uint32_t>(tokenizer.special_tokens_single()));
  PutU32(&out, static_cast<uint32_t>(tokenizer.special_tokens_pair()));
  PutText(&out, tokenizer.model_type());
  for (int32_t id = 0; id < size; ++id) {
    const std::string_view token = tokenizer.IdToToken(id);
    PutText(&out, token);
    PutU32(&out, static_cast<uint32_t>(tokenizer.TokenToId(token)));
    PutU32(&out, tokenizer.IsSpecial(id) ? 1 : 0);
  }
  std::ofstream file(results_path, std::ios::binary);
  file.write(out.data(), static_cast<std::streamsize>(out.size()));
  file.close();
  return file ? 0 : 2;
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: tokenizer_parity TOKENIZER CASES RESULTS [THREADS]\n"
                 "       tokenizer_parity --dump TOKENIZER RESULTS\n");
    return 2;
  }
  const bool dump = std::string_view(argv[1]) == "--dump";
  const auto start = std::chrono::steady_clock::now();
  auto tokenizer = text::Tokenizer::FromFile(argv[dump ? 2 : 1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 3;
  }
  if (dump) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%.3f\n", seconds.count());
    return Dump(**tokenizer, argv[3]);
  }
  if (std::string_view(argv[2]) == "-") return RunStdin(**tokenizer);
  const size_t threads = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 1;
  return RunFile(**tokenizer, argv[2], argv[3], threads == 0 ? 1 : threads);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
