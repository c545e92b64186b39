#!/usr/bin/env python3
"""Checks what a compiler does not: layers, lengths, paths. Prints one line a finding.

- A file of src/MODULE may include "MODULE/..." and the modules on the DEPS line of
  penstock_module(MODULE ...) in CMakeLists.txt; its tests and benchmarks also those of TEST_DEPS.
  apps/ may include every module, library/ and lab/ apps/ as well; of the modules nothing includes these.
- No cycle among the modules.
- No module is named on a DEPS or TEST_DEPS line that nothing there includes.
- A source file has at most 800 lines (generated ones, which say so on top, may have more), a function
  at most 70, or its comment says "Long: why".
- The picture of the modules in docs/ARCHITECTURE.md has every module, in lines that use lower ones
  only; so has the table below it. Files that the page names, and CONTRIBUTING.md under "Adding",
  exist.
- A header begins with a comment that says what it is for, and has #pragma once (x-inl.h is
  included once per instruction set and has not).
- No table of texts by a hash that everybody can compute: std::hash of a text, and unordered maps and
  sets of texts, stand in tests only; base/seeded_hash.h has SeededMap and SeededSet.
- Tests make folders by TempFolder (base/temp_folder_test_util.h), whose names are unique.
- Nothing compares what a model's family is called with a text: families/list.cc finds families, and their
  descriptors say what is asked of them. Tests may.
- A sleep in a test has its reason in a comment beside it, on its line or the one above.
- A file of src/MODULE declares in namespace penstock::MODULE (src/base, json, log, os and threads in penstock, apps/ in penstock::cli, lab/ in penstock::lab); of
  other namespaces of ours it may declare a class, no more (checks/namespaces.py).
- No two classes of the program have one name in one namespace: the linker would take one of the two
  for both. (`make odr` compares the definitions of all files.)
- No absolute path of a developer's machine in any file under version control.
- Numbers that only fall, kept in tools/ratchets.json (checks/ratchet.py): wordings to avoid in comments
  and messages, for each room (checks/wording.py); comparisons with names of families, number types and
  dialects outside their own files, enums that many files switch on, twins, lines of the headers between
  rooms and of each room (checks/forms.py). A number that rose is a finding, and so is one that fell until
  --lower writes it down. --write takes all as they are, for a merge.

With --headers also compiles every header of src/ alone.
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import re
import subprocess
import sys

from checks import forms, namespaces, wording
from checks.ratchet import Ratchets
from checks.source import ROOT, tracked_files

LINES_MAX = 800
FUNCTION_LINES_MAX = 70
SOURCES = {".cc", ".h", ".cu", ".py"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
MODULE = re.compile(r"^penstock_module\(([^)]*)\)", re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.:/~$}-])/(?:root|work|home/[a-z_][\w-]*)/")
TEXT_BYTES_MAX = 1 << 20
# The first line of a function's body, as clang-format leaves it: a parameter list, then the brace.
# Class members stand two columns in.
BODY_BEGIN = re.compile(r"^( {0,2}| {4,})[^#\s/].*\)(?: const| noexcept| override| final| mutable|\s*->.*)* \{$")
CONTROL = re.compile(r"^\s*(if|for|while|switch|else|do|catch|}|return|EXPECT|ASSERT)\b|^\s*}")
ADDING = re.compile(r"^## Adding.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^## Modules$.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\| module \| holds \|$.*?(?=\n\n)", re.MULTILINE | re.DOTALL)
# A hash of texts whose seed is known; `using` and template parameters go through it all the same.
KNOWN_HASH = re.compile(r"\bstd::hash<\s*(?:const\s+)?std::(?:\w+::)?(?:basic_)?(?:u8|u16|u32|w)?string(?:_view)?\b"
                        r"|\bunordered_(?:multi)?(?:map|set)<\s*(?:const\s+)?std::(?:\w+::)?"
                        r"(?:basic_)?(?:u8|u16|u32|w)?string(?:_view)?\b")
# A family's name beside a text, as in `config.model_type == "bert"` and `from.Is("gemma3")`.
FAMILY_NAME = re.compile(r'\b(?:architecture|model_type)\)?\s*[!=]=\s*"|\bIs\("')
SLEEP = re.compile(r"\bsleep_(?:for|until)\(|\bu?sleep\(|\bnanosleep\(")
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:h|cc|cmake|py|md|json|txt))`")

Module = collections.namedtuple("Module", "deps test_deps")


def read_modules():
    modules = {}
    for match in MODULE.finditer((ROOT / "CMakeLists.txt").read_text()):
        words = match.group(1).split()
        lists = {"DEPS": [], "TEST_DEPS": [], "LIBS": []}
        current = None
        for word in words[1:]:
            if word == "FAST":
                continue
            if word in lists:
                current = lists[word]
            else:
                current.append(word)
        modules[words[0]] = Module(lists["DEPS"], lists["TEST_DEPS"])
    return modules


def check_cycles(modules):
    """The lines stand bottom-up: a module names only modules above its own line."""
    seen = set()
    for name, module in modules.items():
        for dep in module.deps:
            if dep not in modules:
                yield f"CMakeLists.txt: module {name} depends on unknown module {dep}"
            elif dep not in seen:
                yield f"CMakeLists.txt: module {name} depends on {dep}, which stands below it"
        seen.add(name)


def allowed_for(path, modules):
    """The modules a file may include, and its own folder's name."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "src":
        module = modules.get(parts[1])
        if module is None:
            return None
        allowed = {parts[1], *module.deps}
        if path.stem.endswith(("_test", "_bench")):
            allowed.update(module.test_deps)
        return allowed
    over = {"library": {"library", "apps"}, "lab": {"lab", "apps"}, "bench": {"lab", "apps"}}
    return {*modules, *over.get(parts[0], ())}


def check_includes(path, text, modules):
    name = path.relative_to(ROOT)
    allowed = allowed_for(path, modules)
    if allowed is None:
        yield f"{name}: src/{name.parts[1]} has no penstock_module line in CMakeLists.txt"
        return
    for match in INCLUDE.finditer(text):
        include = match.group(1)
        line = text.count("\n", 0, match.start()) + 1
        first = include.split("/")[0]
        if (path.parent / include).is_file() and name.parts[0] != "src":
            continue
        if "/" not in include or include.startswith("."):
            yield f'{name}:{line}: "{include}" must be written as "module/file.h"'
        elif first not in modules and first not in allowed:
            yield f'{name}:{line}: "{include}" is of no module; third-party headers go in <>'
        elif first not in allowed:
            yield f"{name}:{line}: may not include {first}/ (allowed: {', '.join(sorted(allowed))})"
        elif not (ROOT / "src" / include).is_file() and not (first not in modules and (ROOT / include).is_file()):
            yield f'{name}:{line}: there is no src/{include}'


def check_shape(path, text):
    name = path.relative_to(ROOT)
    lines = text.count("\n")
    generated = "generated" in "\n".join(text.split("\n", 8)[:8]).lower()
    if lines > LINES_MAX and not generated:
        yield f"{name}: {lines} lines, at most {LINES_MAX}"
    if path.suffix == ".h" and name.parts[0] == "src" and not path.stem.endswith("-inl"):
        if "#pragma once" not in text:
            yield f"{name}: no #pragma once"
        if not text.startswith("//"):
            yield f"{name}: a header begins with a comment that says what it is for"


def check_functions(path, text):
    """Bodies that begin at column 0 or 2, to the brace in the column of their first line."""
    lines = text.split("\n")
    begin = 0  # of the declaration whose body comes
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("}", "  }")) or not line.strip() or (line.endswith((";", ":", "{")) and not BODY_BEGIN.match(line)):
            begin = at + 1
        if BODY_BEGIN.match(line) and not CONTROL.match(line):
            comment = begin
            while begin < at and lines[begin].lstrip().startswith("//"):
                begin += 1
            indent = len(lines[begin]) - len(lines[begin].lstrip()) if begin <= at else 0
            if indent in (0, 2):
                close = " " * indent + "}"
                end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(close)), at)
                length = end - begin + 1
                if length > FUNCTION_LINES_MAX and not any("// Long: " in one for one in lines[comment:begin]):
                    yield (f"{path.relative_to(ROOT)}:{begin + 1}: a function of {length} lines, at most "
                           f"{FUNCTION_LINES_MAX} without a comment 'Long: why'")
                at = begin = end
                begin += 1
        at += 1


def check_hashes(path, text):
    """Keys of requests and of files come from strangers: a client could make them all collide."""
    name = path.relative_to(ROOT)
    if re.search(r"_(?:test|test_util|bench)$", path.stem) or name.parts[0] == "tests":
        return
    for match in KNOWN_HASH.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: {match.group(0)}: texts are hashed with a seed (base/seeded_hash.h)"


def check_families(path, text):
    """What differs between families is in their files, where the next family finds it."""
    name = path.relative_to(ROOT)
    if re.search(r"_(?:test|test_util)$", path.stem) or name.parts[0] not in ("src", "apps", "library", "lab"):
        return
    for match in FAMILY_NAME.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: {match.group(0)}: families are told apart by their descriptors (families/list.h)"


def check_test_folders(path, text):
    """Tests run side by side, those of other checkouts too: a fixed name is written by two of them at once."""
    name = path.relative_to(ROOT)
    if not re.search(r"_(?:test|test_util)$", path.stem) or path.stem == "temp_folder_test_util":
        return
    for match in re.finditer(r"\bmkdtemp\b|\btesting::TempDir\b|\btemp_directory_path\b", text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: {match.group(0)}: a test's files lie in a TempFolder (base/temp_folder_test_util.h)"


def check_sleeps(path, text):
    """A test that sleeps is slow, and wrong on a machine that is slower: it waits for what it wants instead."""
    if not re.search(r"_test$|_test_util$|^fake_", path.stem) and path.relative_to(ROOT).parts[0] != "tests":
        return
    comment = "#" if path.suffix == ".py" else "//"
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if SLEEP.search(line) and comment not in line and not lines[at - 1].lstrip().startswith(comment):
            yield (f"{path.relative_to(ROOT)}:{at + 1}: a sleep without a reason: wait for what the test wants (Eventually in "
                   "base/eventually_test_util.h, wait_for in tests/e2e/conftest.py), or say why in a comment beside it")


def check_unused(modules, used):
    for name, module in modules.items():
        for dep in module.deps:
            if dep not in used[name, False]:
                yield f"CMakeLists.txt: {name} names {dep} in DEPS and does not include it"
        for dep in module.test_deps:
            if dep not in used[name, True]:
                yield f"CMakeLists.txt: {name} names {dep} in TEST_DEPS and no test includes it"


def check_picture(modules):
    """ARCHITECTURE's picture and table beside the modules there are; apps and lab have no penstock_module line."""
    document = "docs/ARCHITECTURE.md"
    text = (ROOT / document).read_text()
    picture, table = PICTURE.search(text), TABLE.search(text)
    if not picture or not table:
        yield f"{document}: no picture, or no table, of the modules"
        return
    lines = [line.split("|")[0].split() for line in picture[1].splitlines()]
    line_of = {name: at for at, line in enumerate(lines) for name in line}
    rows = [line.split("|")[1] for line in table[0].splitlines() if line.startswith("| `")]
    every = sorted({*modules, "apps", "lab", "library"})
    for name, drawn in (("picture", sorted(itertools.chain.from_iterable(lines))), ("table", sorted(re.findall(r"`(\w+)/`", " ".join(rows))))):
        if drawn != every:
            yield f"{document}: the {name} of the modules differs in {sorted(set(drawn) ^ set(every)) or 'names twice'}"
    for name, module in modules.items():
        for dep in module.deps:
            if line_of.get(dep, len(lines)) <= line_of.get(name, -1):
                yield f"{document}: {name} uses {dep}, which is no lower line of the picture"


def check_named_files():
    """A name may be relative to src/, or a mere file name."""
    names = {path.name for path in tracked_files()}
    for document, sections in (("docs/ARCHITECTURE.md", re.compile(r".+", re.DOTALL)), ("CONTRIBUTING.md", ADDING)):
        for section in sections.findall((ROOT / document).read_text()):
            for name in NAMED_FILE.findall(section):
                if re.search(r"NAME|_x\b|[a-z]+_x[-.]|\*", name):
                    continue
                found = (ROOT / name).exists() or (ROOT / "src" / name).exists() or ("/" not in name and name in names)
                if not found:
                    yield f"{document}: names {name}, which is not there"


def check_paths(path):
    if path.stat().st_size > TEXT_BYTES_MAX:
        return
    data = path.read_bytes()
    if b"\0" in data:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if match := MACHINE_PATH.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: path of a machine: {match.group(0)}..."


def check_header(path):
    command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", ROOT / "src",
               "-DSPDLOG_FMT_EXTERNAL=1", '-DPENSTOCK_VERSION="0"', "-Wno-pragma-once-outside-header",
               path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        first = next((line for line in done.stderr.split("\n") if "error" in line), "?")
        yield f"{path.relative_to(ROOT)}: does not compile alone: {first}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headers", action="store_true", help="compile every header of src/ alone")
    parser.add_argument("--lower", action="store_true", help="lower the numbers of tools/ratchets.json that fell")
    parser.add_argument("--write", action="store_true", help="write tools/ratchets.json anew, as things are")
    arguments = parser.parse_args()

    modules = read_modules()
    findings = list(check_cycles(modules))
    headers, texts = [], []
    used = collections.defaultdict(set)  # (module, by tests): modules
    classes = collections.defaultdict(list)  # name: files that define one
    for path in sorted(tracked_files()):
        findings += check_paths(path)
        if path.suffix not in SOURCES:
            continue
        text = path.read_text()
        texts.append((path, text))
        findings += check_shape(path, text)
        findings += check_sleeps(path, text)
        top = path.relative_to(ROOT).parts[0]
        if path.suffix != ".py" and top in ("src", "apps", "library", "lab", "bench", "tests"):
            findings += check_includes(path, text, modules)
            findings += check_hashes(path, text)
            findings += check_families(path, text)
            findings += check_test_folders(path, text)
            findings += check_functions(path, text)
        if top in ("src", "apps", "library", "lab") and path.suffix != ".py" and not re.search(r"_test|_bench$|-inl$", path.stem):
            findings += namespaces.check_home(path, text)
            for name in namespaces.classes_of(text):
                classes[name].append(path)
        if top == "src" and path.suffix != ".py":
            by_tests = path.stem.endswith(("_test", "_bench"))
            used[path.relative_to(ROOT).parts[1], by_tests].update(
                include.split("/")[0] for include in INCLUDE.findall(text))
        if path.suffix == ".h" and top == "src" and not path.stem.endswith("-inl"):
            headers.append(path)
    findings += check_unused(modules, used)
    findings += namespaces.check_classes(classes)
    findings += check_picture(modules)
    findings += check_named_files()
    ratchets = Ratchets()
    over = [*wording.check(texts, ratchets), *forms.check(texts, ratchets)]
    if arguments.write or arguments.lower:
        ratchets.write(only_lower=arguments.lower and not arguments.write)
        over = []
    findings += over
    if arguments.headers:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda header: list(check_header(header)), headers):
                findings += found
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(f"check_layers: {len(findings)} findings")
    print(f"check_layers: {len(modules)} modules, no findings")


if __name__ == "__main__":
    main()
