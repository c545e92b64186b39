#include "plot/pixel_font.h"

namespace penstock::plot {
namespace {

// For each letter from ' ' to '~' its nine rows from the top, a digit of base 32 each, whose
// highest bit is the left column: 'h' is 10001.
constexpr const char* kGlyphs[] = {
    // clang-format off
    "000000000", "444440400", "aa0000000", "0avava000", "4fke5u400",  //  !"#$
    "pp248jj00", "cik8lid00", "440000000", "248884200", "842224800",  // %&'()
    "0le4el000", "044v44000", "000004480", "000e00000", "000000400",  // *+,-.
    "122488g00", "ehhlhhe00", "4ck444v00", "eh1248v00", "u11e11u00",  // /0123
    "26aiv2200", "vgu11he00", "68guhhe00", "v12448800", "ehhehhe00",  // 45678
    "ehhf12c00", "004000400", "004004480", "024842000", "00v0v0000",  // 9:;<=
    "084248000", "eh1240400", "ehnlmgf00", "4ahhvhh00", "uhhuhhu00",  // >?@AB
    "fgggggf00", "uhhhhhu00", "vgguggv00", "vgguggg00", "fggjhhf00",  // CDEFG
    "hhhvhhh00", "e44444e00", "72222ic00", "hikokih00", "ggggggv00",  // HIJKL
    "hrllhhh00", "hppljjh00", "ehhhhhe00", "uhhuggg00", "ehhhlid00",  // MNOPQ
    "uhhukih00", "fgge11u00", "v44444400", "hhhhhhe00", "hhhhaa400",  // RSTUV
    "hhhllrh00", "hha4ahh00", "hha444400", "v1248gv00", "e88888e00",  // WXYZ[
    "g88422100", "e22222e00", "4ah000000", "0000000v0", "840000000",  // \ ]^_`
    "00e1fhf00", "gguhhhu00", "00fgggf00", "11fhhhf00", "00ehvgf00",  // abcde
    "68u888800", "00fhhhf1e", "gguhhhh00", "40c444e00", "20622222c",  // fghij
    "ggikoki00", "c44444e00", "00ullll00", "00uhhhh00", "00ehhhe00",  // klmno
    "00uhhhugg", "00fhhhf11", "00moggg00", "00fge1u00", "88u888600",  // pqrst
    "00hhhhf00", "00hhaa400", "00hllla00", "00ha4ah00", "00hhhhf1e",  // uvwxy
    "00v248v00", "344844300", "444444400", "o44244o00", "008l20000",  // z{|}~
    // clang-format on
};

constexpr bool IsDrawn(char letter) { return letter >= ' ' && letter <= '~'; }

}  // namespace

bool GlyphPixel(char letter, int column, int row) {
  const char digit = kGlyphs[(IsDrawn(letter) ? letter : '?') - ' '][row];
  const int bits = digit <= '9' ? digit - '0' : digit - 'a' + 10;
  return (bits >> (kGlyphColumns - 1 - column) & 1) != 0;
}

std::string AsciiOf(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;  // goes on with a character
    out += IsDrawn(c) ? c : '?';
  }
  return out;
}

}  // namespace penstock::plot
