"""The command `penstock`: this process becomes the program."""

from __future__ import annotations

import os
import sys

PROGRAM_VARIABLE = "PENSTOCK_PROGRAM"


def program() -> str:
    """The path of the program: what PENSTOCK_PROGRAM names, else the one of this package.

    Raises FileNotFoundError where it is not there.
    """
    path = os.environ.get(PROGRAM_VARIABLE) or os.path.join(os.path.dirname(__file__), "bin", "penstock")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"the program of Penstock is not there: {path} ({PROGRAM_VARIABLE} can name another)")
    return path


def main() -> None:
    """Runs the program with the arguments of this process, in its place."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(path, [path, *sys.argv[1:]])
