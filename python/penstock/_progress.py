"""A progress bar by tqdm, where it is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# So many texts take long enough to be watched.
SHOWN_FROM = 10_000


class Progress:
    """Counts rows. Shows nothing unless asked to, or where many rows come and stderr is a terminal."""

    def __init__(self, rows: int, show: bool | None) -> None:
        """show: True, False, or None for the rule above."""
        self._bar: Any = None
        if show is None:
            show = rows >= SHOWN_FROM and sys.stderr is not None and sys.stderr.isatty()
        if not show:
            return
        try:
            self._bar = import_module("tqdm.auto").tqdm(total=rows, unit="texts")
        except ImportError:
            return

    def add(self, rows: int) -> None:
        if self._bar is not None:
            self._bar.update(rows)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
