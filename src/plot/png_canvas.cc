#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "plot/canvas.h"
#include "plot/pixel_font.h"

namespace penstock::plot {
namespace {

constexpr int kScale = 2;  // pixels a unit

using Colour = std::array<uint8_t, 3>;
constexpr Colour kGround = {0xff, 0xff, 0xff};
constexpr Colour kText = {0x22, 0x22, 0x22};
constexpr Colour kGrid = {0xdd, 0xdd, 0xdd};
constexpr Colour kDot = {0x00, 0x72, 0xb2};

void AppendNumber(uint32_t value, std::string* out) {
  for (const int shift : {24, 16, 8, 0}) out->push_back(static_cast<char>(value >> shift & 0xff));
}

// PNG (Portable Network Graphics, second edition), 5.3: length, type, data, CRC.
void AppendChunk(const char* type, const std::string& data, std::string* out) {
  AppendNumber(static_cast<uint32_t>(data.size()), out);
  const std::string body = type + data;
  out->append(body);
  AppendNumber(static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                           static_cast<uInt>(body.size()))),
               out);
}

class PngCanvas final : public Canvas {
 public:
  PngCanvas(double width, double height)
      : width_(static_cast<int>(width) * kScale),
        height_(static_cast<int>(height) * kScale),
        pixels_(static_cast<size_t>(width_) * static_cast<size_t>(height_), kGround) {}

  void Line(Stroke stroke, double x1, double y1, double x2, double y2) override {
    const Colour colour = stroke == Stroke::kGrid ? kGrid : kText;
    const int left = Pixel(std::min(x1, x2));
    const int top = Pixel(std::min(y1, y2));
    Fill(left, top, std::max(Pixel(std::max(x1, x2)) - left, kScale),
         std::max(Pixel(std::max(y1, y2)) - top, kScale), colour);
  }

  // Pixels at the rim are covered in part.
  void Dot(double x, double y, double radius, double opacity, const std::string& /*tip*/) override {
    const double centre_x = x * kScale;
    const double centre_y = y * kScale;
    const double reach = radius * kScale;
    for (int row = static_cast<int>(centre_y - reach) - 1; row <= centre_y + reach + 1; ++row) {
      for (int column = static_cast<int>(centre_x - reach) - 1; column <= centre_x + reach + 1;
           ++column) {
        const double across = column + 0.5 - centre_x;
        const double down = row + 0.5 - centre_y;
        const double distance = std::sqrt(across * across + down * down);
        const double cover = std::clamp(reach + 0.5 - distance, 0.0, 1.0) * opacity;
        Blend(column, row, kDot, cover);
      }
    }
  }

  void Text(double x, double y, Anchor anchor, double size, const std::string& text,
            bool rim) override {
    const double width = WidthOf(text, size);
    const double start = anchor == Anchor::kStart    ? x
                         : anchor == Anchor::kMiddle ? x - width / 2
                                                     : x - width;
    const int left = Pixel(start);
    const int top = Pixel(y) - kGlyphRowsAbove * kScale;
    const auto draw = [&](int spread, Colour colour) {
      ForEachPixel(text, [&](int column, int row) {
        Fill(left + column * kScale - spread, top + row * kScale - spread, kScale + 2 * spread,
             kScale + 2 * spread, colour);
      });
    };
    if (rim) draw(kScale, kGround);
    draw(0, kText);
  }

  void TextUpwards(double x, double y, const std::string& text) override {
    const int left = Pixel(x) - kGlyphRowsAbove * kScale;
    const int bottom = Pixel(y + WidthOf(text, 0) / 2);
    ForEachPixel(text, [&](int column, int row) {
      Fill(left + row * kScale, bottom - (column + 1) * kScale, kScale, kScale, kText);
    });
  }

  bool Shows(const std::string& text) const override {
    const std::string ascii = AsciiOf(text);
    return 2 * std::count(ascii.begin(), ascii.end(), '?') <= static_cast<ptrdiff_t>(ascii.size());
  }

  // Letters have one size.
  double WidthOf(const std::string& text, double /*size*/) const override {
    return static_cast<double>(AsciiOf(text).size()) * kGlyphAdvance;
  }

  Expected<std::string> Finish() override {
    std::string raw;  // rows, each behind the number of its filter: none
    raw.reserve((static_cast<size_t>(width_) * 3 + 1) * static_cast<size_t>(height_));
    for (int row = 0; row < height_; ++row) {
      raw.push_back('\0');
      const auto* const first = pixels_.data() + static_cast<size_t>(row) * width_;
      raw.append(reinterpret_cast<const char*>(first), static_cast<size_t>(width_) * 3);
    }
    uLongf size = compressBound(static_cast<uLong>(raw.size()));
    std::string data(size, '\0');
    if (compress2(reinterpret_cast<Bytef*>(data.data()), &size,
                  reinterpret_cast<const Bytef*>(raw.data()), static_cast<uLong>(raw.size()),
                  Z_DEFAULT_COMPRESSION) != Z_OK) {
      return Status(StatusCode::kUnavailable, "zlib could not compress the picture");
    }
    data.resize(size);
    std::string header;
    AppendNumber(static_cast<uint32_t>(width_), &header);
    AppendNumber(static_cast<uint32_t>(height_), &header);
    header += {8, 2, 0, 0, 0};  // bits a sample, RGB, deflate, filters by row, not interlaced
    std::string file = "\x89PNG\r\n\x1a\n";
    AppendChunk("IHDR", header, &file);
    AppendChunk("IDAT", data, &file);
    AppendChunk("IEND", "", &file);
    return file;
  }

 private:
  static int Pixel(double position) { return static_cast<int>(std::lround(position * kScale)); }

  // Calls draw(column, row) for each set pixel of the text, from its upper left corner.
  template <typename Draw>
  static void ForEachPixel(const std::string& text, Draw draw) {
    int left = 0;
    for (const char letter : AsciiOf(text)) {
      for (int row = 0; row < kGlyphRows; ++row) {
        for (int column = 0; column < kGlyphColumns; ++column) {
          if (GlyphPixel(letter, column, row)) draw(left + column, row);
        }
      }
      left += kGlyphAdvance;
    }
  }

  void Fill(int left, int top, int width, int height, Colour colour) {
    for (int row = top; row < top + height; ++row) {
      for (int column = left; column < left + width; ++column) Blend(column, row, colour, 1);
    }
  }

  // What is outside of the picture is left out.
  void Blend(int column, int row, Colour colour, double opacity) {
    if (column < 0 || row < 0 || column >= width_ || row >= height_ || opacity <= 0) return;
    Colour& pixel = pixels_[static_cast<size_t>(row) * width_ + column];
    for (size_t i = 0; i < pixel.size(); ++i) {
      pixel[i] = static_cast<uint8_t>(
          std::lround(pixel[i] + (static_cast<double>(colour[i]) - pixel[i]) * opacity));
    }
  }

  const int width_;
  const int height_;
  std::vector<Colour> pixels_;
};

}  // namespace

std::unique_ptr<Canvas> NewPngCanvas(double width, double height) {
  return std::make_unique<PngCanvas>(width, height);
}

}  // namespace penstock::plot
