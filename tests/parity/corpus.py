"""The texts that parity.py runs: the same for the same seed, size and machine.

Real text (C headers, Python's library, and the prose of the test data where it is present), every
code point of the planes that hold any, and everything known to trip tokenizers. A text is `bytes`
because some are not valid UTF-8.
"""

import csv
import json
import os
import random
import sysconfig

SCRIPTS = [  # (first, last) code points of blocks that people write in
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x2B0, 0x2FF), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F),
    (0x750, 0x77F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F), (0xA80, 0xAFF),
    (0xB00, 0xB7F), (0xB80, 0xBFF), (0xC00, 0xC7F), (0xC80, 0xCFF), (0xD00, 0xD7F), (0xD80, 0xDFF),
    (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x1780, 0x17FF),
    (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F),
    (0x20A0, 0x20CF), (0x2100, 0x214F), (0x2150, 0x218F), (0x2190, 0x21FF), (0x2200, 0x22FF),
    (0x2460, 0x24FF), (0x2500, 0x257F), (0x2600, 0x26FF), (0x2700, 0x27BF), (0x2E80, 0x2EFF),
    (0x3000, 0x303F), (0x3040, 0x309F), (0x30A0, 0x30FF), (0x3130, 0x318F), (0x3200, 0x32FF),
    (0x3300, 0x33FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F),
    (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x10300, 0x1034F), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
    (0x1F100, 0x1F1FF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF),
]

EMOJI = [
    "👨\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "👩🏽\u200d💻", "👍🏿", "🇫🇷🇯🇵🇺", "☺️", "☺︎", "1️⃣", "#️⃣*️⃣", "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
    "❤️\u200d🔥", "🧑🏻\u200d🤝\u200d🧑🏿", "😀😃😄", "\u200d", "\ufe0f", "🏽", "🇦", "👁️\u200d🗨️",
]

ODD = [
    "", " ", "  ", "\n", "\r\n", "\t", "\0", "a\0b", "\x01\x02\x1f\x7f\x80\x9f", "\u00a0", "\u2009x\u3000y\u2028z\u2029",
    "\u200b\u200c\u200d\ufeff", "\ufffd", "\ufffe\uffff", "\U0010ffff", "\u202ea\u202c\u2066b\u2069", "İstanbul ıI", "ß ẞ SS",
    "ΣΑΣ ΟΔΥΣΣΕΥΣ", "ﬁ ﬂ ﬃ ﬅ", "Å Å Å", "q̣̇ q̣̇", "½ ² ³ ① ⑴ Ⅷ", "㌔ ㍿ ﷺ", "가 각 가 각 ᄀ가ᅡᆨᆨ ㄱㅏ", "e\u0301\u0302\u0303" * 20,
    "can't won't I'd I'LL they'Ve 'S 's'T 'ſ", "don 't do n't .., ! ?", "a.b,c;d:e", "__init__ CamelCaseWords snake_case",
    "1234567890123", "1,234.56 0x1F 1e-9", "٠١٢٣٤ ०१२३ ①②③ ⅣⅤ", "  leading", "trailing  ", "a  b   c    d", "\n\n\na\n\n", "a\n \n b\r\r\n\tc",
    "▁ ▁▁a ▁b▁ _", "Ġ Ċ ĉ â", "<0x41><0x0A> <0xE2>", "##ing ##", "[UNK] [CLS]", "<s></s><unk><pad><mask>", "<|endoftext|>", "a<|endoftext|>b",
    "中文字符english混合", "日本語のテキスト。、「」", "ｱｲｳ ｶﾞ ﾊﾟ ＡＢＣ １２３", "ไทยไม่มีวรรค", "हिन्दी क्षत्रिय", "العَرَبِيَّة ﻻ", "שָׁלוֹם", "Việt Nam tiếng Việt",
    "𝓗𝓮𝓵𝓵𝓸 𝟘𝟙", "\ue000\uf8ff\U000f0000", "\u0378\u0379\U000E0080", "\u0300", "\u0300a", " \u0300", "\u0f71\u0f72\u0f73\u0f74\u0f75",
    "\u1e9b\u0323", "\u0344\u0345 \u0390", "\ud7ff\ue000", "ǅ ǈ ǋ ʰ ˠ ª º", "\u2126 \u212a \u212b", "\u0958\u0959 \u2adc", "\u115f\u1160\u3164\uffa0",
]

INVALID = [
    b"\x80", b"\xbf\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2a", b"\xdf\xc2\xa0", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe0\xa0", b"\xe0\xa0a",
    b"\xe1\x80", b"\xe2\x82", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xef\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90", b"\xf0\x90\x80", b"\xf0\x9f\x98", b"\xf1\x80\x80\xe1\x80", b"\xf4\x8f\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80",
    b"\xfc\x84\x80\x80\x80\x80", b"\xfe", b"\xff\xff\xfe", b"\xc3\xa9\xc3", b"\xe4\xbd\xa0\xe5\xa5", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xf0\xc2\xa0", b"\xe1\xf0\x90\x80\x80",
]


def _files(root, suffixes, limit, rng):
    found = []
    for folder, dirs, names in os.walk(root):
        dirs.sort()
        found += [os.path.join(folder, n) for n in sorted(names) if n.endswith(suffixes)]
    rng.shuffle(found)
    out, total = [], 0
    for path in found:
        if total >= limit:
            break
        try:
            with open(path, "rb") as f:
                data = f.read(60_000)
        except OSError:
            continue
        out.append(data)
        total += len(data)
    return out


def cut(data, rng, limit):
    """Cuts one long text into pieces of very different lengths: 1 character to 20 kB."""
    if isinstance(data, bytes):
        data = data.decode("utf-8", "replace")
    out, at, total = [], 0, 0
    while at < len(data) and total < limit:
        n = int(10 ** rng.uniform(0, 3.7)) if rng.random() < 0.97 else rng.randrange(5000, 20000)
        out.append(data[at:at + n].encode())
        total += len(out[-1])
        at += n
    return out


def _prose(testdata, limit, rng):
    """Texts of the test data folder, those that are there, in turn."""
    sources = []
    def path(*parts):
        return os.path.join(testdata, *parts)
    folder = path("google-deepmind__xquad")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                sources.append([p["context"].encode() for a in json.load(f)["data"] for p in a["paragraphs"]])
    folder = path("PhilipMay__stsb-multi-mt")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".csv"):
            with open(os.path.join(folder, name), encoding="utf-8", newline="") as f:
                sources.append([cell.encode() for row in csv.reader(f) for cell in row[:2]])
    for parts in (("google__sentencepiece", "botchan.txt"), ("google__sentencepiece", "wagahaiwa_nekodearu.txt"),
                  ("ollama__ollama", "war-and-peace.txt"), ("michaelfeil__infinity", "multilingual_calibration.utf8")):
        if os.path.exists(path(*parts)):
            with open(path(*parts), "rb") as f:
                sources.append(cut(f.read(), rng, limit))
    out = []
    for texts in sources:
        total, share = 0, limit / len(sources)
        for text in texts:
            if total >= share:
                break
            out.append(text)
            total += len(text)
    return out


def _sweep(rng, share):
    """Every code point of planes 0 to 3 and of the tags, in two orders and several contexts.

    share < 1 takes that part of the code points instead."""
    every = [c for c in range(0x40000) if not 0xD800 <= c <= 0xDFFF] + list(range(0xE0000, 0xE0200))
    every += rng.sample(range(0x40000, 0x110000), 3000)
    if share < 1:
        every = rng.sample(every, int(len(every) * share))
    out = []
    shuffled = every[:]
    rng.shuffle(shuffled)
    at = 0
    while at < len(shuffled):
        n = rng.choice([1, 3, 10, 50, 300, 1000])
        glue = rng.choice(["", "", " ", "a", "\u0301", "-"])
        out.append(glue.join(map(chr, shuffled[at:at + n])).encode())
        at += n
    low = sorted(c for c in every if c < 0x20000)
    for i in range(0, len(low), 256):
        out.append(" ".join(map(chr, low[i:i + 256])).encode())
    return out


def _mixtures(rng, limit):
    out, total = [], 0
    marks = [chr(c) for c in range(0x300, 0x370)] + ["\u20d0", "\u3099", "\u309a", "\u064b", "\u0651", "\u05b0", "\u0e48", "\u0f71", "\U0001d165"]
    spaces = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2003"]
    while total < limit:
        parts = []
        for _ in range(int(10 ** rng.uniform(0, 2.3))):
            kind = rng.random()
            if kind < 0.55:
                a, b = rng.choice(SCRIPTS)
                parts.append("".join(chr(rng.randint(a, b)) for _ in range(rng.randint(1, 9))))
            elif kind < 0.63:
                parts.append(rng.choice(EMOJI))
            elif kind < 0.70:
                parts.append(rng.choice("aeocAπд가क") + "".join(rng.choice(marks) for _ in range(rng.choice([1, 2, 3, 30]))))
            elif kind < 0.75:
                parts.append("".join(chr(rng.randint(0x1100, 0x11FF)) for _ in range(rng.randint(1, 6))))
            elif kind < 0.82:
                parts.append(rng.choice(ODD))
            elif kind < 0.86:
                parts.append("".join(rng.choice("0123456789.,-+e") for _ in range(rng.randint(1, 12))))
            elif kind < 0.90:
                parts.append("".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randint(1, 8))))
            else:
                parts.append("".join(chr(rng.randrange(0x20)) if rng.random() < 0.3 else rng.choice("abcXYZ") for _ in range(5)))
            if rng.random() < 0.6:
                parts.append(rng.choice(spaces))
        out.append("".join(parts).encode())
        total += len(out[-1])
    return out


def _broken(rng, count):
    out = list(INVALID)
    for bad in INVALID:
        out += [b"a" + bad, bad + b"z", b" " + bad + " é ".encode() + bad, bad * 3, "中".encode() + bad + b"\n" + bad]
    for _ in range(count):
        kind = rng.random()
        if kind < 0.4:
            out.append(bytes(rng.randrange(256) for _ in range(rng.randint(1, 80))))
        elif kind < 0.7:
            good = bytearray("Ünïcödé text 中文 😀 words ".encode() * 2)
            for _ in range(rng.randint(1, 5)):
                good[rng.randrange(len(good))] = rng.randrange(256)
            out.append(bytes(good))
        else:
            good = "naïve 日本 😀👍🏽 e\u0301".encode() * 3
            a = rng.randrange(len(good))
            out.append(good[a:a + rng.randint(1, 30)] + rng.choice(INVALID))
    return out


def _long(rng):
    out = []
    for n in (99, 100, 101, 1_000, 10_000, 100_000):
        out += [b"a" * n, bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(n))]
    for n in (3, 17, 1_000, 20_000):
        for c in (" ", "\n", "\t", "0", "7", "!", ".", "-", "=", "\r\n", " \n", "é", "中", "▁", "\u0301", "😀", "'", "\u00a0", "\0", "\x01"):
            out += [(c * n).encode(), ("x" + c * n + "y").encode()]
    out += ["".join(rng.choice("あいうえお漢字カタカナ") for _ in range(10_000)).encode(),
            "".join(rng.choice("абвгд") for _ in range(10_000)).encode(),
            "".join(rng.choice("AaBb1 '\n") for _ in range(20_000)).encode(),
            ("Ab" * 10_000).encode(), ("e\u0301" * 5_000).encode(), ("가" * 5_000).encode()]
    return out


def build(size, seed, testdata):
    """Texts of about `size` bytes in all."""
    rng = random.Random(seed)
    out = [t.encode() for t in ODD + EMOJI]
    out += _broken(rng, 1500)
    out += _long(rng)
    out += _sweep(rng, min(1.0, size / 4_000_000))
    out += _mixtures(rng, size // 10)
    left = size - sum(map(len, out))
    prose = _prose(testdata, max(left * 0.5, size * 0.2), rng) if os.path.isdir(testdata) else []
    out += prose
    left = max(size - sum(map(len, out)), size // 10)
    code = _files("/usr/include", (".h", ".hpp"), left * 0.6, rng)
    code += _files(sysconfig.get_paths()["stdlib"], (".py",), left * 0.6, rng)
    total = 0
    for data in code:
        pieces = cut(data, rng, left)
        out += pieces
        total += sum(map(len, pieces))
        if total >= left * 1.2:
            break
    return out


def special_texts(tokens, words, rng, count):
    """Texts full of the tokenizer's own added tokens, whole, broken, and with all neighbours."""
    tokens = [t for t in tokens if t]
    if not tokens:
        return []
    glue = ["", "", " ", "  ", "\n", "\t", "\u00a0", "a", "Z", "1", ".", "_", "é", "中", "\u0301", "\u200d", "\x00", "\x01", "▁"]
    out = []
    for token in tokens[:400]:
        out += [token, f" {token} ", f"a{token}b", f"a {token} b", token * 2, token.upper(), token.lower(), token[:-1], token[1:], f"  {token}  {token}  ", f"{token}\n", f"\u3000{token}\u0301"]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            kind = rng.random()
            if kind < 0.5:
                parts.append(rng.choice(tokens))
            elif kind < 0.58:
                token = rng.choice(tokens)
                a = rng.randrange(len(token))
                parts.append(token[:a] + rng.choice(["", " ", "x"]) + token[a:])
            else:
                parts.append(rng.choice(words))
            parts.append(rng.choice(glue))
        out.append("".join(parts))
    return [t.encode("utf-8", "replace") for t in out]


WORDS = ["hello", "World", "the", "tokenizer", "naïve", "中文", "日本", "don't", "I'LL", "42", "3.14", "!!", "...", "e\u0301", "Ω", "\u200b", "x_y", "##ing", "▁a", "Ġb", "é"]


def escape(text):
    """One line of ASCII that Python reads back: b'...' for bytes that are not valid UTF-8."""
    try:
        return ascii(text.decode())
    except UnicodeDecodeError:
        return repr(text)
