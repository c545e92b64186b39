"""Classifier: labels of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._backend import Mapped, Pending, load, post
from ._model import Model
from ._order import in_order
from ._texts import WINDOW_CHARACTERS, WINDOW_TEXTS
from .errors import InvalidArgument, refuse, refuse_unknown

UNDER_WAY = 2
Input = Any  # a text, or [text, text]


class _NotGiven:
    """What top_k is where it is not given."""

    def __repr__(self) -> str:
        return "1"


_NOT_GIVEN = _NotGiven()


class Classifier(Model):
    """A model that gives labels, called as the text-classification pipeline of transformers."""

    _task = "classification"

    def __call__(
        self,
        texts: Any,
        top_k: int | _NotGiven | None = _NOT_GIVEN,
        function_to_apply: str | None = None,
        **unknown: Any,
    ) -> list[Any]:
        """The labels of texts, best first.

        texts: a text, {"text", "text_pair"} for two that are read together, or a list of those.
        top_k: so many labels; None: all.
        function_to_apply: None: as the model says; "none": the numbers as they are.

        Returns a list with a dict {"label", "score"} for each text; where top_k is given a list of
        such dicts for each text, and for a text alone that list itself.
        Raises InvalidArgument with the argument or "texts[i]" as field, Overloaded, ...
        """
        refuse_unknown(unknown, "Classifier")
        if function_to_apply not in (None, "default", "none"):
            raise refuse("function_to_apply", "the function of the model, or 'none'")
        single = isinstance(texts, (str, Mapping))
        inputs = [_input(each, row) for row, each in enumerate([texts] if single else texts)]
        labels = [each for part in in_order(self._calls(inputs, function_to_apply), UNDER_WAY) for each in part]
        if isinstance(top_k, _NotGiven):
            return [each[0] for each in labels]
        cut = [each[:top_k] for each in labels]
        return cut[0] if single else cut

    def _calls(self, inputs: list[Input], function: str | None) -> Iterator[Pending[list[Any]]]:
        backend, name = self._opened()
        for window in _windows(inputs):
            body = {"model": name, "input": window, "raw_scores": function == "none"}
            yield Mapped(backend.call(post("/v1/classify", body)), _labels)


def _labels(answer: bytes) -> list[Any]:
    return [each["predictions"] for each in load(answer)["data"]]


def _input(value: Any, row: int) -> Input:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and set(value) <= {"text", "text_pair"} and isinstance(value.get("text"), str):
        second = value.get("text_pair")
        return value["text"] if second is None else [value["text"], second]
    raise InvalidArgument(
        f"'texts[{row}]' must be a text, or a dict with 'text' and 'text_pair'", field=f"texts[{row}]"
    )


def _windows(inputs: list[Input]) -> Iterator[list[Input]]:
    window: list[Input] = []
    characters = 0
    for each in inputs:
        window.append(each)
        characters += len(each) if isinstance(each, str) else len(each[0]) + len(each[1])
        if len(window) == WINDOW_TEXTS or characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
