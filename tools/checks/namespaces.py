"""One namespace a room: what src/kv declares is of penstock::kv, so that no two rooms define one name."""

import re

from checks.source import ROOT, line_of, room_of, without_comments

# What these rooms have is seen everywhere without a prefix; what has no room of its own is of penstock too.
HOMES = dict.fromkeys(("base", "json", "log", "os", "threads"), "penstock") | {"apps": "penstock::cli"}
# Namespaces are not indented, so what stands in the first column is in no class.
NAMESPACE = re.compile(r"^(?:inline )?namespace ?([\w:]*) \{$")
NAMESPACE_END = re.compile(r"^\}  // namespace")
CLASS = re.compile(
    r"^(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (?:alignas\([^)]*\) )?"
    r"(\w+)(?: final)?(?: \{| :(?!:)|$)"
)
BLOCK = re.compile(r"^namespace (penstock(?:::\w+)*) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
DECLARATION = re.compile(r"(?:template <[^;{]*> )?(?:class|struct|enum(?: class)?) \w+(?: : \w+)?;")


def home_of(path):
    """The namespace of a file of src/, apps/ or lab/."""
    room = room_of(path)
    return HOMES.get(room, f"penstock::{room}")


def check_home(path, text):
    """Other rooms' namespaces may be opened to declare a class of theirs, no more."""
    home, code = home_of(path), without_comments(text)
    for block in BLOCK.finditer(code):
        inside = block[1] == home or (home != "penstock" and block[1].startswith(home + "::"))
        if not inside and (block[2] == "" or DECLARATION.sub("", block[2]).strip()):
            yield f"{path.relative_to(ROOT)}:{line_of(code, block.start())}: namespace {block[1]} in a file of {home}"


def classes_of(text):
    """Names, with their namespaces, of the classes that a file defines for others to see."""
    spaces = []
    for line in text.split("\n"):
        if match := NAMESPACE.match(line):
            spaces.append(match.group(1))
        elif NAMESPACE_END.match(line) and spaces:
            spaces.pop()
        elif "" not in spaces and (match := CLASS.match(line)):
            yield "::".join([*spaces, match.group(1)])


def check_classes(classes):
    """classes: {name: [files that define one]}"""
    for name, paths in sorted(classes.items()):
        if len(paths) > 1:
            yield f"{paths[0].relative_to(ROOT)}: {name} is another class in {paths[1].relative_to(ROOT)}"
