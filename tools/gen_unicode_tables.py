#!/usr/bin/env python3
"""Writes src/unicode/unicode_tables.cc: the character classes that Hugging Face `tokenizers` uses.

The package is built on several crates, each with the tables of another Unicode version
(normalisation is Unicode 9, for example). A tokenizer is exact only with the same tables, so
this script asks the installed package about every code point and writes down the answers.

Usage: tools/gen_unicode_tables.py > src/unicode/unicode_tables.cc     (needs: pip install tokenizers)
"""
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, CODE_POINTS))

# Must match the constants in src/unicode/unicode.h.
CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd",
              "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl",
              "Zp", "Zs"]
BIT_RX_SPACE, BIT_RX_WORD, BIT_HAN = 5, 6, 7
BIT_BERT_REMOVED, BIT_BERT_SPACE, BIT_SPACE, BIT_PUNCT = 8, 9, 10, 11
BIT_MN, BIT_MARK, BIT_NUMERIC, BIT_WORD = 12, 13, 14, 15
SHIFT_GCB = 16  # 4 bits
BIT_PICTOGRAPH, SHIFT_INCB = 20, 21  # 1 bit, 2 bits
(GCB_OTHER, GCB_CR, GCB_LF, GCB_CONTROL, GCB_EXTEND, GCB_ZWJ, GCB_RI, GCB_PREPEND, GCB_SPACING,
 GCB_L, GCB_V, GCB_T, GCB_LV, GCB_LVT) = range(14)
INCB_CONSONANT, INCB_LINKER = 1, 2

props = dict.fromkeys(CODE_POINTS, 0)


def matches_of(pre_tokenizer):
    """Code points that `pre_tokenizer`, which removes what it matches, takes out of ALL."""
    kept = set()
    for _, (begin, end) in pre_tokenizer.pre_tokenize_str(ALL):
        kept.update(range(begin, end))
    return [c for i, c in enumerate(CODE_POINTS) if i not in kept]


def regex_matches(pattern):
    return matches_of(pre_tokenizers.Split(Regex(pattern), "removed"))


def set_bit(code_points, bit):
    for c in code_points:
        props[c] |= 1 << bit


def probe_classes():
    for index, name in enumerate(CATEGORIES):
        if name in ("Cn", "Cs"):
            continue
        for c in regex_matches("\\p{%s}" % name):
            props[c] |= index
    set_bit(regex_matches("\\s"), BIT_RX_SPACE)
    set_bit(regex_matches("\\w"), BIT_RX_WORD)
    set_bit(regex_matches("\\p{Han}"), BIT_HAN)
    set_bit(matches_of(pre_tokenizers.WhitespaceSplit()), BIT_SPACE)
    set_bit(matches_of(pre_tokenizers.Punctuation("removed")), BIT_PUNCT)

    # A digit is the middle one of three pieces.
    for c in CODE_POINTS:
        pieces = pre_tokenizers_digits.pre_tokenize_str("a" + chr(c) + "a")
        if len(pieces) == 3:
            props[c] |= 1 << BIT_NUMERIC
    whitespace = pre_tokenizers.Whitespace()
    for c in CODE_POINTS:
        if whitespace.pre_tokenize_str(chr(c) + "a")[0][1] == (0, 2):
            props[c] |= 1 << BIT_WORD

    clean = normalizers.BertNormalizer(True, False, False, False)
    accents = normalizers.BertNormalizer(False, False, True, False)
    marks = normalizers.StripAccents()
    for c in CODE_POINTS:
        got = clean.normalize_str(chr(c))
        if got == "":
            props[c] |= 1 << BIT_BERT_REMOVED
        elif got == " " and c != 0x20:
            props[c] |= 1 << BIT_BERT_SPACE
        if accents.normalize_str(chr(c)) == "":
            props[c] |= 1 << BIT_MN
        if marks.normalize_str(chr(c)) == "":
            props[c] |= 1 << BIT_MARK


pre_tokenizers_digits = pre_tokenizers.Digits(False)


def grapheme_counter():
    """A Precompiled normalizer that turns a grapheme of under 6 bytes, or else each character,
    into one X. Its double array holds every single byte as a key."""
    units = [0] * 512
    units[0] = 256 << 10
    for byte in range(1, 256):
        units[256 + byte] = (256 << 10) | (1 << 8) | byte
    blob = struct.pack("<I", 4 * len(units)) + struct.pack("<512I", *units) + b"X\0"
    normalizer = normalizers.Precompiled(blob)
    return lambda text: len(normalizer.normalize_str(text))


def probe_graphemes():
    count = grapheme_counter()
    fixed = {0x0D: GCB_CR, 0x0A: GCB_LF, 0x200D: GCB_ZWJ, 0: GCB_CONTROL}
    for first, last, value in [(0x1F1E6, 0x1F1FF, GCB_RI), (0x1100, 0x115F, GCB_L),
                               (0xA960, 0xA97C, GCB_L), (0x1160, 0x11A7, GCB_V),
                               (0xD7B0, 0xD7C6, GCB_V), (0x11A8, 0x11FF, GCB_T),
                               (0xD7CB, 0xD7FB, GCB_T), (0xAC00, 0xD7A3, GCB_LVT)]:
        for c in range(first, last + 1):
            fixed[c] = value
    for c in range(0xAC00, 0xD7A4, 28):
        fixed[c] = GCB_LV
    for c in CODE_POINTS:
        s = chr(c)
        gcb = GCB_OTHER
        if c in fixed:
            gcb = fixed[c]
        elif count("a" + s) == 1:
            joined = count("\u00a9" + s + "\u200d\u00a9\u0300") == 5
            gcb = GCB_EXTEND if joined else GCB_SPACING
        elif count(s + "a") == 1:
            gcb = GCB_PREPEND
        elif count(s + "\u0300\u0300") == 2:
            # The marks stand alone after a control character, as one grapheme of 4 bytes;
            # joined to another character they are 5 bytes (counts 1) or more (counts 3).
            gcb = GCB_CONTROL
        props[c] |= gcb << SHIFT_GCB
        if gcb == GCB_OTHER:
            if count("\u00a9\u200d" + s + "\u0300") == 4:
                props[c] |= 1 << BIT_PICTOGRAPH
            if len(s.encode()) == 3 and count("\u0915\u094d" + s + "\u0300") == 4:
                props[c] |= INCB_CONSONANT << SHIFT_INCB
        elif gcb == GCB_EXTEND and len(s.encode()) == 3 and count("\u0915" + s + "\u0915\u0300") == 4:
            props[c] |= INCB_LINKER << SHIFT_INCB


def runs(value_of):
    out, last = [], None
    for c in range(0x110000):
        value = value_of(c)
        if value != last:
            out.append((c, value))
            last = value
    return out


def probe_lower():
    lower = normalizers.Lowercase()
    return [(c, low) for c in CODE_POINTS if (low := lower.normalize_str(chr(c))) != chr(c)]


def is_hangul(c):
    return 0xAC00 <= c <= 0xD7A3


def probe_decompositions():
    nfd, nfkd, nfc = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC()
    canonical, compatible = {}, {}
    for c in CODE_POINTS:
        if is_hangul(c):
            continue
        s = chr(c)
        d, k = nfd.normalize_str(s), nfkd.normalize_str(s)
        if d != s:
            canonical[c] = d
        if k != d:
            compatible[c] = k
    pairs = []
    for c, d in canonical.items():
        if len(d) < 2 or nfc.normalize_str(chr(c)) != chr(c):
            continue
        head = nfc.normalize_str(d[:-1])
        if len(head) == 1 and nfc.normalize_str(head + d[-1]) == chr(c):
            pairs.append((ord(head), ord(d[-1]), c))
        else:
            sys.exit("no pair composes to U+%04X" % c)
    return canonical, compatible, pairs


def probe_combining_class(canonical):
    nfd = normalizers.NFD()
    low, high = "\u0334", "\u0345"  # the lowest and the highest class

    def moves(s):
        return nfd.normalize_str(s + low) != s + low or nfd.normalize_str(high + s) != high + s

    references = {}
    for c in CODE_POINTS:
        cls = unicodedata.combining(chr(c))
        if cls and c not in canonical and moves(chr(c)):  # unknown to the package: never moves
            references.setdefault(cls, chr(c))
    out = {}
    for c in CODE_POINTS:
        s = chr(c)
        if c in canonical or is_hangul(c):
            continue
        if not moves(s):
            continue
        found = [cls for cls, r in references.items()
                 if nfd.normalize_str(s + r) == s + r and nfd.normalize_str(r + s) == r + s]
        if len(found) != 1:
            sys.exit("combining class of U+%04X is not clear: %r" % (c, found))
        out[c] = found[0]
    return out


def probe_case_folds():
    """Characters past ASCII that the regex (?i:x) matches for a letter x."""
    out = []
    for letter in "abcdefghijklmnopqrstuvwxyz":
        for c in regex_matches("(?i:%s)" % letter):
            if c > 0x7F:
                out.append((ord(letter), c))
    return out


def emit(name, type_name, values, per_line):
    print("const %s %s[] = {" % (type_name, name))
    for i in range(0, len(values), per_line):
        print("    " + " ".join(v + "," for v in values[i:i + per_line]))
    print("};")
    print("const size_t %sCount = %d;\n" % (name, len(values)))


def periodic_runs(property_runs):
    """Takes upper and lower case by turns, and Hangul, whose every 28th syllable has no final
    consonant, out of the runs: (start, end, period, value at each period's begin, other value)."""
    starts = [start for start, _ in property_runs] + [0x110000]
    kept, periodic, at = [], [], 0
    while at < len(property_runs):
        start, value = property_runs[at]
        period = starts[min(at + 2, len(property_runs))] - start
        end = at
        while (period in (2, 28) and end + 1 < len(property_runs)
               and property_runs[end][1] == value
               and property_runs[end + 1][1] == property_runs[at + 1][1]
               and starts[end + 1] == starts[end] + 1
               and starts[end + 2] == starts[end] + period):
            end += 2
        if end - at >= 6:
            periodic.append((start, starts[end], period, value, property_runs[at + 1][1]))
            at = end
        else:
            kept.append((start, value))
            at += 1
    return kept, periodic


def emit_properties(property_runs):
    values = sorted({value for _, value in property_runs})
    kept, periodic = periodic_runs(property_runs)
    emit("kPropertyValues", "uint32_t", ["0x%X" % v for v in values], 12)
    emit("kPropertyRuns", "Run", ["{0x%X,%d}" % (c, values.index(v)) for c, v in kept], 8)
    emit("kPeriodicRuns", "PeriodicRun",
         ["{0x%X,0x%X,%d,%d,%d}" % (c, end, period, values.index(v), values.index(other))
          for c, end, period, v, other in periodic], 4)


def rising_block(mapping, first):
    """The longest block from `first` on in which characters either stay or rise with the code
    point: (code points, step, bits of the characters that rise)."""
    best = ([first], 1, 0)
    for step in (1, 2):
        block, rise = [first], None
        while len(mapping.get(block[-1] + step, "")) == len(mapping[first]):
            last, following = mapping[block[-1]], mapping[block[-1] + step]
            by = [ord(b) - ord(a) for a, b in zip(last, following)]
            if any(x not in (0, step) for x in by) or rise not in (None, by):
                break
            rise = by
            block.append(block[-1] + step)
        if len(block) > len(best[0]):
            best = (block, step, sum(1 << i for i, x in enumerate(rise) if x))
    return best


def emit_mapping(name, mapping):
    """Blocks, see unicode_tables.h."""
    left, words, plain = dict(mapping), [], {}
    while left:
        first = min(left)
        block, step, rise = rising_block(left, first)
        if len(block) < 3:
            plain[first] = left.pop(first)
            continue
        words += ["0x%X" % first, str(len(block)), str(len(left[first])), str(step), str(rise)]
        words += ["0x%X" % ord(x) for x in left[first]]
        for c in block:
            del left[c]
    while plain:
        first = last = min(plain)
        while len(plain.get(last + 1, "")) == len(plain[first]):
            last += 1
        words += ["0x%X" % first, str(last - first + 1), str(len(plain[first])), "0"]
        for c in range(first, last + 1):
            words += ["0x%X" % ord(x) for x in plain.pop(c)]
    emit(name, "uint32_t", words, 14)


def emit_composition(pairs):
    words = []
    for second in sorted({s for _, s, _ in pairs}):
        of_second = sorted((first, composed) for first, s, composed in pairs if s == second)
        words += ["0x%X" % second, str(len(of_second))]
        words += ["0x%X" % c for pair in of_second for c in pair]
    emit("kComposition", "uint32_t", words, 14)


def emit_all(property_runs, combining_runs, lower, canonical, compatible, pairs, folds):
    print("// Generated by tools/gen_unicode_tables.py from the answers of tokenizers %s. Do not edit."
          % tokenizers.__version__)
    print("// clang-format off")
    print('#include "unicode/unicode_tables.h"\n')
    print("namespace penstock::unicode::tables {\n")
    emit_properties(property_runs)
    emit("kCombiningRuns", "Run", ["{0x%X,%d}" % r for r in combining_runs], 8)
    emit_mapping("kLowercase", lower)
    composed = {c for _, _, c in pairs}
    emit_mapping("kCanonical", {c: d for c, d in canonical.items() if c not in composed})
    emit_mapping("kCompatible", compatible)
    emit_composition(pairs)
    emit("kCaseFold", "Run", ["{0x%X,0x%X}" % p for p in folds], 8)
    print("}  // namespace penstock::unicode::tables")


def main():
    probe_classes()
    probe_graphemes()
    canonical, compatible, pairs = probe_decompositions()
    ccc = probe_combining_class(canonical)
    emit_all(runs(lambda c: props.get(c, 0)), runs(lambda c: ccc.get(c, 0)), dict(probe_lower()),
             canonical, compatible, pairs, probe_case_folds())


if __name__ == "__main__":
    main()
