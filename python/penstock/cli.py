"""The command `penstock`: this process becomes the program."""

from __future__ import annotations

import os
import sys
from typing import Any

PROGRAM_VARIABLE = "PENSTOCK_PROGRAM"


def program() -> str:
    """The path of the program: what PENSTOCK_PROGRAM names, else the one of this package.

    Raises FileNotFoundError where it is not there.
    """
    path = os.environ.get(PROGRAM_VARIABLE) or os.path.join(os.path.dirname(__file__), "bin", "penstock")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"the program of Penstock is not there: {path} ({PROGRAM_VARIABLE} can name another)")
    return path


def flag_words(flags: dict[str, Any]) -> list[str]:
    """Flags as words of a command line: True is the flag alone, False the flag with "no-" before it, a list the flag
    for each, None none; "_" stands for "-"."""
    found: list[str] = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True or each is False:
                found.append(f"--{flag}" if each else f"--no-{flag}")
            elif each is not None:
                found.append(f"--{flag}={each}")
    return found


def main() -> None:
    """Runs the program with the arguments of this process, in its place."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(path, [path, *sys.argv[1:]])
