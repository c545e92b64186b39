// Runs a fuzz target over files and over all files of folders, without libFuzzer: each as it is, and
// changed in ways that are the same in every run. `make test` and the sanitizers of CI do so with
// the corpus.
//
//   NAME_fuzz [--changes=N] FILE_OR_FOLDER...
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);
// Targets may have one; the others change bytes.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                                                size_t size_max, unsigned seed);

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

// How many bytes changes may add to an input.
constexpr size_t kGrowth = 256;

// Seeded for each change: the same numbers in every run.
std::minstd_rand random_numbers;

size_t Below(size_t bound) { return bound == 0 ? 0 : random_numbers() % bound; }

bool Read(const fs::path& file, Bytes* bytes) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot open %s\n", file.c_str());
    return false;
  }
  bytes->assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  return true;
}

// A copy of its own size, so that a sanitizer sees a read behind its end.
void Run(const uint8_t* data, size_t size) {
  const Bytes copy(data, data + size);
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void Replay(const fs::path& file, const Bytes& bytes, unsigned changes) {
  std::printf("%s\n", file.c_str());
  std::fflush(stdout);  // the last line names the input that ended the process
  Run(bytes.data(), bytes.size());
  Bytes changed;
  for (unsigned seed = 1; seed <= changes; ++seed) {
    // Each change begins with the last one, but every eighth with the file.
    if (seed % 8 == 1) changed = bytes;
    const size_t size = changed.size(), size_max = bytes.size() + kGrowth;
    changed.resize(size_max);
    random_numbers.seed(seed);
    std::printf("change %u\n", seed);
    std::fflush(stdout);
    changed.resize(LLVMFuzzerCustomMutator != nullptr
                       ? LLVMFuzzerCustomMutator(changed.data(), size, size_max, seed)
                       : LLVMFuzzerMutate(changed.data(), size, size_max));
    Run(changed.data(), changed.size());
  }
}

}  // namespace

// Bytes are replaced, taken out, put in and copied: what libFuzzer calls by this name, without what
// it learns.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max) {
  constexpr uint8_t kInteresting[] = {0, 1, 0x7F, 0x80, 0xFF, '"', '\\', '\n', '{', '[', '0', '-'};
  const size_t at = Below(size), length = 1 + Below(std::min<size_t>(8, size - at));
  const auto byte = static_cast<uint8_t>(
      Below(2) == 0 ? kInteresting[Below(std::size(kInteresting))] : Below(256));
  switch (size == 0 ? 4 : Below(5)) {
    case 0:
      data[at] = byte;
      return size;
    case 1:
      data[at] = static_cast<uint8_t>(data[at] ^ 1 << Below(8));
      return size;
    case 2:
      std::memmove(data + at, data + at + length, size - at - length);
      return size - length;
    case 3:
      std::memmove(data + Below(size - length + 1), data + at, length);
      return size;
    default:
      if (size >= size_max) return size;
      std::memmove(data + at + 1, data + at, size - at);
      data[at] = byte;
      return size + 1;
  }
}

int main(int argc, char** argv) {
  constexpr std::string_view kChanges = "--changes=";
  unsigned changes = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word.starts_with(kChanges)) {
      std::from_chars(word.data() + kChanges.size(), word.data() + word.size(), changes);
      continue;
    }
    const fs::path path(word);
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (const fs::path& file : files) {
    Bytes bytes;
    if (!Read(file, &bytes)) return 1;
    Replay(file, bytes, changes);
  }
  std::printf("%zu inputs, %u changes of each\n", files.size(), changes);
  return files.empty() ? 1 : 0;
}
