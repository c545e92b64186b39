// Times the encoder alone: token ids in, vectors out. bench/encode_vs_ort.py drives it beside
// onnxruntime.
//
//   encode_bench MODEL_FOLDER IDS_FILE THREADS BATCH_TOKENS ROUNDS [VECTORS_FILE]
//
// IDS_FILE: little-endian int32: number of sequences, their lengths, their ids end to end.
// Prints the seconds of each round, one a line, after a round that is not counted. VECTORS_FILE
// receives the pooled rows as float32.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace penstock {
namespace {

struct Texts {
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets{0};
};

bool ReadTexts(const char* path, Texts* texts) {
  std::ifstream file(path, std::ios::binary);
  int32_t count = 0;
  if (!file.read(reinterpret_cast<char*>(&count), sizeof(count)) || count <= 0) return false;
  std::vector<int32_t> lengths(static_cast<size_t>(count));
  const auto bytes = [](const std::vector<int32_t>& v) {
    return static_cast<std::streamsize>(v.size() * sizeof(int32_t));
  };
  file.read(reinterpret_cast<char*>(lengths.data()), bytes(lengths));
  for (int32_t length : lengths) texts->offsets.push_back(texts->offsets.back() + length);
  texts->ids.resize(static_cast<size_t>(texts->offsets.back()));
  file.read(reinterpret_cast<char*>(texts->ids.data()), bytes(texts->ids));
  return static_cast<bool>(file);
}

// Runs every text once, in batches of at most batch_tokens.
Status RunAll(EncoderSession* session, const Texts& texts, int32_t batch_tokens, size_t width,
              std::vector<float>* out) {
  const size_t count = texts.offsets.size() - 1;
  std::vector<int32_t> offsets;
  for (size_t begin = 0; begin < count;) {
    size_t end = begin + 1;
    while (end < count && texts.offsets[end + 1] - texts.offsets[begin] <= batch_tokens) ++end;
    offsets.clear();
    for (size_t i = begin; i <= end; ++i) {
      offsets.push_back(texts.offsets[i] - texts.offsets[begin]);
    }
    PackedBatch batch;
    batch.ids = std::span(texts.ids).subspan(static_cast<size_t>(texts.offsets[begin]),
                                             static_cast<size_t>(offsets.back()));
    batch.offsets = offsets;
    PENSTOCK_RETURN_IF_ERROR(
        session->Run(batch, EncoderOutput::kPooled,
                     std::span(*out).subspan(begin * width, (end - begin) * width)));
    begin = end;
  }
  return Status::Ok();
}

int Main(int argc, char** argv) {
  Texts texts;
  if (argc < 6 || !ReadTexts(argv[2], &texts)) {
    std::fprintf(
        stderr,
        "usage: encode_bench MODEL_FOLDER IDS_FILE THREADS BATCH_TOKENS ROUNDS [VECTORS_FILE] "
        "[f32|bf16|int8]\n");
    return 2;
  }
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "encode_bench: %s\n", status.ToString().c_str());
    return 1;
  };
  auto backend = NewCpuBackend({.threads = std::atoi(argv[3])});
  if (!backend.ok()) return fail(backend.status());
  auto folder = ModelFolder::Read(argv[1]);
  if (!folder.ok()) return fail(folder.status());
  const std::string type = argc > 7 ? argv[7] : "f32";
  const DType dtype = type == "bf16" ? DType::kBf16 : (type == "int8" ? DType::kI8 : DType::kF32);
  auto model = EncoderModel::Load(*folder, backend->get(), dtype);
  if (!model.ok()) return fail(model.status());
  EncoderSession session(model->get());
  const size_t width = static_cast<size_t>((*model)->embedding_size());
  std::vector<float> out((texts.offsets.size() - 1) * width);
  std::fprintf(stderr, "%s\n", (*backend)->name().c_str());
  for (int round = -1; round < std::atoi(argv[5]); ++round) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = RunAll(&session, texts, std::atoi(argv[4]), width, &out);
    if (!status.ok()) return fail(status);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (round >= 0) std::printf("%.6f\n", seconds.count());
    std::fflush(stdout);
  }
  if (argc > 6) {
    std::ofstream(argv[6], std::ios::binary)
        .write(reinterpret_cast<const char*>(out.data()),
               static_cast<std::streamsize>(out.size() * sizeof(float)));
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
