"""docs/ARCHITECTURE.md beside the sources: its picture of the modules, and the files it names."""
import re

from conftest import ROOT

TEXT = (ROOT / "docs/ARCHITECTURE.md").read_text()


def modules():
    """{module: what it may include}, as CMakeLists.txt says."""
    found = {}
    for line in re.findall(r"^penstock_module\(([^)]*)\)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE):
        name, *words = line.split()
        lists = {"DEPS": [], "LIBS": [], "TEST_DEPS": []}
        kind = "DEPS"
        for word in words:
            if word in lists:
                kind = word
            else:
                lists[kind].append(word)
        found[name] = lists["DEPS"]
    return found


def picture():
    """{module: its line in the picture, counted from the top}"""
    drawn = re.search(r"^```\n(.*?)^```$", TEXT.split("## Modules")[1], re.MULTILINE | re.DOTALL)[1]
    lines = [line.split("|")[0].split() for line in drawn.splitlines()]
    names = [name for line in lines for name in line]
    assert len(names) == len(set(names))
    return {name: at for at, line in enumerate(lines) for name in line}


def test_the_picture_has_every_module():
    assert set(picture()) == {*modules(), "apps"}
    table = TEXT.split("| module | holds |")[1].split("\n\n")[0]
    named = [name for line in table.splitlines() if line.startswith("| `")
             for name in re.findall(r"`(\w+)/`", line.split("|")[1])]
    assert sorted(named) == sorted({*modules(), "apps"})


def test_no_arrow_points_up():
    line_of = picture()
    wrong = [(module, dep) for module, deps in modules().items() for dep in deps
             if line_of[dep] <= line_of[module]]
    assert not wrong


def test_the_files_it_names_are_there():
    named = set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:h|cc|py|md|json|txt|cmake))`", TEXT))
    assert len(named) > 50
    missing = [name for name in sorted(named)
               if "NAME" not in name and not (ROOT / name).is_file() and not (ROOT / "src" / name).is_file()]
    assert not missing
