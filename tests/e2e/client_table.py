"""The table of docs/CLIENTS.md, of tests that are marked: @pytest.mark.client(package, calls).

PENSTOCK_WRITE_CLIENTS=1 has a test run write the rows of the tests that it ran; the others stay.
"""
import fcntl
import importlib.metadata
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "CLIENTS.md"
BEGIN, END = "<!-- table: written by the tests -->", "<!-- end of table -->"
HEAD = ["| client | version | calls | result |", "|---|---|---|---|"]

_outcomes = {}  # (package, calls): whether every test of it passed


def key_of(item):
    mark = item.get_closest_marker("client")
    return mark.args if mark else None


def note(item, passed):
    key = key_of(item)
    if key:
        _outcomes[key] = passed and _outcomes.get(key, True)


def read():
    """{(package, calls): (version, result)}"""
    rows = {}
    table = PATH.read_text().split(BEGIN)[1].split(END)[0]
    for line in table.strip().splitlines()[len(HEAD):]:
        package, version, calls, result = (cell.strip() for cell in line.strip("|").split("|"))
        rows[package.strip("`"), calls] = version, result
    return rows


def write():
    if not _outcomes:
        return
    with PATH.open(encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # tests of other processes write their rows as well
        _write_rows()


def _write_rows():
    rows = read()
    ran = {package for package, _ in _outcomes}
    for package, calls in list(rows):
        # Rows of a client that ran go if they are of another version of it.
        if package in ran and rows[package, calls][0] != importlib.metadata.version(package):
            del rows[package, calls]
    for (package, calls), passed in _outcomes.items():
        rows[package, calls] = importlib.metadata.version(package), "passes" if passed else "fails"
    lines = [f"| `{package}` | {version} | {calls} | {result} |"
             for (package, calls), (version, result) in sorted(rows.items())]
    text = PATH.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PATH.write_text("\n".join([before + BEGIN, *HEAD, *lines, END + after]))
