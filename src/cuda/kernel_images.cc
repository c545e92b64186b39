#include "cuda/kernel_images.h"

#include <zstd.h>

#include <memory>
#include <new>

namespace penstock::cuda {

const KernelImage* FindKernelImage(std::span<const KernelImage> images, int major, int minor) {
  const KernelImage* best = nullptr;
  for (const KernelImage& image : images) {
    const bool same = image.major == major;
    bool fits = same && image.minor == minor;
    if (image.runs == KernelImage::Runs::kMinorsAbove) fits = same && image.minor <= minor;
    if (image.runs == KernelImage::Runs::kAllAbove) {
      fits = image.major < major || (same && image.minor <= minor);
    }
    // Compiled code before PTX, then the nearest.
    const auto rank = [](const KernelImage& one) {
      const int compiled = one.runs == KernelImage::Runs::kAllAbove ? 0 : 1000;
      return compiled + 10 * one.major + one.minor;
    };
    if (fits && (best == nullptr || rank(image) > rank(*best))) best = &image;
  }
  return best;
}

Expected<std::vector<char>> UnpackKernelImage(const KernelImage& image) {
  constexpr size_t kBytesMax = 64 << 20;
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          &ZSTD_freeDStream);
  if (stream == nullptr) throw std::bad_alloc();
  std::vector<char> unpacked(image.compressed.size() * 8 + 1024);
  ZSTD_inBuffer in = {image.compressed.data(), image.compressed.size(), 0};
  ZSTD_outBuffer out = {unpacked.data(), unpacked.size(), 0};
  for (size_t left = 1; left != 0;) {
    if (out.pos == out.size) unpacked.resize(2 * unpacked.size());
    out.dst = unpacked.data();
    out.size = unpacked.size();
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    const bool cut = left != 0 && in.pos == in.size && out.pos < out.size;
    if (ZSTD_isError(left) != 0 || cut || out.pos > kBytesMax) {
      return Status::Internal(std::string("the kernels for ") + image.name + " are broken");
    }
  }
  // The driver reads PTX up to a zero.
  unpacked.resize(out.pos);
  unpacked.push_back(0);
  return unpacked;
}

}  // namespace penstock::cuda
