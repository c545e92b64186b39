"""Plain sentences: words that comments and messages do without, counted for each room.

A sentence has a subject, a verb and an object. What code does is said of the code: "the caller", "a thread",
"nullopt", not of people. Only comments count in tests; in the program also the texts of messages.
"""

import re

from checks.source import ROOT, is_product, prose_of, room_of

FOLDERS = ("src", "apps", "library", "lab", "bench", "tests", "tools")
IDIOMS = "|".join(
    "more longer less fewer later earlier better worse greater smaller other one need way room place limit such matter "
    "doubt use".split()
)
PATTERNS = {
    "begins with 'Of'": (
        re.compile(r"(?:^|[.:;!?] )Of (?!course\b)[a-z]"),
        "say what it is of first: 'The bytes of a row'",
    ),
    "is no": (
        re.compile(rf"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!(?:{IDIOMS})\b)[a-z]", re.ASCII),
        "'is not a ...'",
    ),
    "Nothing:": (
        re.compile(r"(?:^|[.,;:(] )(?:[Nn]othing|[Nn]one): [a-z]"),
        "name the value: 'nullopt: ...', 'null: ...', 'empty: ...'",
    ),
    "people": (
        re.compile(
            r"\b(?:[Nn]obody|[Ss]omebody)\b"
            r"|(?<!user )(?<!users )(?<!person )(?<!people )(?<!client )(?<!clients )(?<!administrator )\b[Ww]ho\b"
        ),
        "name the thread, the caller or the class",
    ),
    "so many": (
        re.compile(r"\bso many\b(?! that)|\bas many\b(?!.{0,60}\bas\b)"),
        "name the number: 'count rows'",
    ),
}
ORPHAN_WORDS_MAX = 2
FULL_LINE = 85
BEGIN_COLUMN_MAX = 5  # where the formatter puts what it cut off


def broken_tables(path, text):
    """Lines of one or two words that a formatter cut off the line above, in a comment with columns."""
    lines = text.split("\n")
    column = [len(line) - len(line.lstrip(" /")) if line.lstrip().startswith("//") else 0 for line in lines]
    for at in range(1, len(lines) - 1):
        words = lines[at].strip(" /").split()
        if (
            0 < len(words) <= ORPHAN_WORDS_MAX
            and column[at - 1]
            and 0 < column[at] <= BEGIN_COLUMN_MAX
            and column[at] < column[at + 1] - 3
            and len(lines[at - 1]) >= FULL_LINE
            and lines[at][-1] not in ".:;"
        ):
            yield f"{path.relative_to(ROOT)}:{at + 1}: a line of a table in a comment is cut: '{lines[at].strip()}'"


def check(files, ratchets):
    """files: [(path, text)]"""
    found = {name: {} for name in PATTERNS}
    for path, text in files:
        if path.relative_to(ROOT).parts[0] not in FOLDERS or path.name == "wording.py":
            continue
        product, room = is_product(path), room_of(path)
        yield from broken_tables(path, text)
        for line, prose, is_comment in prose_of(path, text):
            if not is_comment and not product:
                continue
            for name, (pattern, _) in PATTERNS.items():
                match = pattern.search(prose)
                if match and not (path.suffix == ".py" and "None:" in match[0]):  # a value of Python
                    place = f"{path.relative_to(ROOT)}:{line}: {prose.strip()[:100]}"
                    found[name].setdefault(room, []).append(place)
    for name, (_, advice) in PATTERNS.items():
        yield from ratchets.check(f"wording, {name}", found[name], advice)
