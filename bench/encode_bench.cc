// Times the encoder alone: token ids in, vectors or scores out. bench/encode_vs_ort.py and
// bench/peers drive it beside other runtimes.
//
//   encode_bench MODEL_FOLDER IDS_FILE THREADS BATCH_TOKENS ROUNDS [VECTORS_FILE] [DTYPE]
//   encode_bench MODEL_FOLDER - THREADS [DTYPE]
//
// IDS_FILE: little-endian int32: number of sequences, their lengths, their ids end to end.
// Prints the seconds of each round, one a line, after a round that is not counted. VECTORS_FILE
// receives the rows as float32: pooled, or logits where the model has a classification head.
//
// With "-" the model stays loaded and commands are read, one a line; each is answered by one line:
//   run IDS_FILE BATCH_TOKENS [VECTORS_FILE]   seconds of one round over all texts
//   each IDS_FILE                              seconds of every text by itself
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "devices/backends.h"
#include "models/encoder.h"

namespace penstock {
namespace {

struct Texts {
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets{0};
  size_t count() const { return offsets.size() - 1; }
};

bool ReadTexts(const std::string& path, Texts* texts) {
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

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A loaded model and the kind of its rows.
class Bench {
 public:
  explicit Bench(const models::EncoderModel* model)
      : session_(model),
        output_(model->num_labels() > 0 ? program::EncoderOutput::kLogits
                                        : program::EncoderOutput::kPooled),
        width_(static_cast<size_t>(model->OutputWidth(output_))) {}

  // Runs texts [begin, end) as one batch.
  Status RunBatch(const Texts& texts, size_t begin, size_t end) {
    offsets_.clear();
    for (size_t i = begin; i <= end; ++i) {
      offsets_.push_back(texts.offsets[i] - texts.offsets[begin]);
    }
    program::PackedBatch batch;
    batch.ids = std::span(texts.ids).subspan(static_cast<size_t>(texts.offsets[begin]),
                                             static_cast<size_t>(offsets_.back()));
    batch.offsets = offsets_;
    out_.resize(texts.count() * width_);
    return session_.Run(batch, output_,
                        std::span(out_).subspan(begin * width_, (end - begin) * width_));
  }

  // Runs every text once, in batches of at most batch_tokens.
  Status RunAll(const Texts& texts, int32_t batch_tokens) {
    for (size_t begin = 0; begin < texts.count();) {
      size_t end = begin + 1;
      while (end < texts.count() && texts.offsets[end + 1] - texts.offsets[begin] <= batch_tokens) {
        ++end;
      }
      PENSTOCK_RETURN_IF_ERROR(RunBatch(texts, begin, end));
      begin = end;
    }
    return Status::Ok();
  }

  void WriteRows(const std::string& path) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(out_.data()),
               static_cast<std::streamsize>(out_.size() * sizeof(float)));
  }

 private:
  models::EncoderSession session_;
  program::EncoderOutput output_;
  size_t width_;
  std::vector<int32_t> offsets_;
  std::vector<float> out_;
};

Status Rounds(Bench* bench, const Texts& texts, int32_t batch_tokens, int rounds) {
  for (int round = -1; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    PENSTOCK_RETURN_IF_ERROR(bench->RunAll(texts, batch_tokens));
    if (round >= 0) std::printf("%.6f\n", SecondsSince(start));
    std::fflush(stdout);
  }
  return Status::Ok();
}

Status Answer(Bench* bench, const std::string& line) {
  std::istringstream words(line);
  std::string command, ids_file, vectors_file;
  int32_t batch_tokens = 0;
  words >> command >> ids_file;
  Texts texts;
  if (!ReadTexts(ids_file, &texts)) return Status::InvalidArgument("no texts in " + ids_file);
  if (command == "run" && words >> batch_tokens) {
    const auto start = std::chrono::steady_clock::now();
    PENSTOCK_RETURN_IF_ERROR(bench->RunAll(texts, batch_tokens));
    std::printf("%.6f\n", SecondsSince(start));
    if (words >> vectors_file) bench->WriteRows(vectors_file);
  } else if (command == "each") {
    for (size_t i = 0; i < texts.count(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      PENSTOCK_RETURN_IF_ERROR(bench->RunBatch(texts, i, i + 1));
      std::printf("%.7f ", SecondsSince(start));
    }
    std::printf("\n");
  } else {
    return Status::InvalidArgument("not a command: " + line);
  }
  std::fflush(stdout);
  return Status::Ok();
}

int Usage() {
  std::fprintf(stderr,
               "usage: encode_bench MODEL_FOLDER IDS_FILE THREADS BATCH_TOKENS ROUNDS "
               "[VECTORS_FILE] [f32|bf16|int8]\n"
               "       encode_bench MODEL_FOLDER - THREADS [f32|bf16|int8]\n");
  return 2;
}

int Main(int argc, char** argv) {
  const bool commands = argc > 3 && std::string(argv[2]) == "-";
  Texts texts;
  if (!commands && (argc < 6 || !ReadTexts(argv[2], &texts))) return Usage();
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "encode_bench: %s\n", status.ToString().c_str());
    return 1;
  };
  auto backend = devices::NewBackend({.threads = std::atoi(argv[3])});
  if (!backend.ok()) return fail(backend.status());
  auto folder = families::ModelFolder::Read(argv[1]);
  if (!folder.ok()) return fail(folder.status());
  const int type_at = commands ? 4 : 7;
  const std::string type = argc > type_at ? argv[type_at] : "f32";
  const numbers::DType dtype = type == "bf16"
                                   ? numbers::DType::kBf16
                                   : (type == "int8" ? numbers::DType::kI8 : numbers::DType::kF32);
  auto model = models::EncoderModel::Load(*folder, backend->get(), dtype);
  if (!model.ok()) return fail(model.status());
  Bench bench(model->get());
  std::fprintf(stderr, "%s\n", (*backend)->name().c_str());
  if (commands) {
    std::printf("ready %s\n", (*backend)->name().c_str());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      const Status status = Answer(&bench, line);
      if (!status.ok()) return fail(status);
    }
    return 0;
  }
  const Status status = Rounds(&bench, texts, std::atoi(argv[4]), std::atoi(argv[5]));
  if (!status.ok()) return fail(status);
  if (argc > 6) bench.WriteRows(argv[6]);
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
