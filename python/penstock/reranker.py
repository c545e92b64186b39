"""Reranker: scores of documents for queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._backend import Mapped, Pending, load, post
from ._model import Model
from ._order import in_order
from ._progress import Progress
from ._texts import WINDOW_CHARACTERS, WINDOW_TEXTS
from .errors import InvalidArgument, refuse, refuse_unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

UNDER_WAY = 2
Pair = tuple[str, str]


class Reranker(Model):
    """A model that scores a document beside a query, with the methods of sentence_transformers.CrossEncoder."""

    _task = "reranking"

    def predict(
        self,
        pairs: Any,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: None = None,
        apply_softmax: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **unknown: Any,
    ) -> Any:
        """The scores of pairs of a query and a document, through the function that the model names, else a sigmoid.

        pairs: a pair of texts, or an iterable of pairs. convert_to_numpy: False: a list of floats;
        convert_to_tensor: True: a tensor of torch. batch_size has no effect.
        activation_fn and apply_softmax are refused: compute_score gives the numbers before the function.

        Returns float32 [n] in the order of the pairs; for a pair alone its score, a float.
        Raises InvalidArgument with the argument or "pairs[i]" as field, Overloaded, ...
        """
        refuse_unknown(unknown, "predict")
        if activation_fn is not None:
            raise refuse("activation_fn", "compute_score(pairs) gives the scores that a function can be put over")
        if apply_softmax:
            raise refuse("apply_softmax", "there is one score for a pair")
        found, single = as_pairs(pairs)
        scores = self._scores(_windows(found), self._score_call, len(found), show_progress_bar)
        if single:
            return scores[0]
        if convert_to_tensor:
            return import_module("torch").tensor(scores)
        return _array(scores) if convert_to_numpy else scores

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        return_documents: bool = False,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        **unknown: Any,
    ) -> list[dict[str, Any]]:
        """The documents for a query, best first.

        Returns dicts with "corpus_id" (the place among `documents`), "score" and, with
        return_documents, "text"; top_k of them at most. Documents of equal score keep their order.
        """
        refuse_unknown(unknown, "rank")
        texts = list(documents)
        scores = self.predict(
            [(query, text) for text in texts], show_progress_bar=show_progress_bar, convert_to_numpy=False
        )
        best = sorted(range(len(texts)), key=lambda row: -scores[row])[:top_k]
        found = [{"corpus_id": row, "score": scores[row]} for row in best]
        if return_documents:
            for each in found:
                each["text"] = texts[each["corpus_id"]]
        return found

    def compute_score(
        self,
        sentence_pairs: Any,
        batch_size: int = 256,
        max_length: int | None = None,
        normalize: bool = False,
        **unknown: Any,
    ) -> Any:
        """The scores of pairs as the model gives them, without a function; as FlagEmbedding's FlagReranker.

        normalize: a sigmoid over them. batch_size has no effect; max_length is the model's.
        Returns a list of floats, for a pair alone a float.
        """
        refuse_unknown(unknown, "compute_score")
        if max_length is not None:
            raise refuse("max_length", "texts are cut at the limit of the model")
        found, single = as_pairs(sentence_pairs, "sentence_pairs")

        def call(pairs: list[Pair]) -> Pending[list[float]]:
            return self._score_call(pairs, not normalize)

        scores = self._scores(_windows(found), call, len(found), None)
        return scores[0] if single else scores

    def _scores(
        self,
        windows: Iterable[list[Pair]],
        call: Callable[[list[Pair]], Pending[list[float]]],
        rows: int,
        show: bool | None,
    ) -> list[float]:
        scores: list[float] = []
        progress = Progress(rows, show)
        try:
            for part in in_order((call(pairs) for pairs in windows), UNDER_WAY):
                scores += part
                progress.add(len(part))
        finally:
            progress.close()
        return scores

    def _score_call(self, pairs: list[Pair], raw: bool | None = None) -> Pending[list[float]]:
        """Each pair with a query of its own. raw: logits, or through a sigmoid; None: as the model says."""
        body: dict[str, Any] = {"queries": [query for query, _ in pairs], "documents": [text for _, text in pairs]}
        if raw is not None:
            body["raw_scores"] = raw
        return self._call("/score", body, lambda answer: [float(each["score"]) for each in answer["data"]])

    def _call(self, path: str, body: dict[str, Any], change: Callable[[Any], list[float]]) -> Pending[list[float]]:
        backend, name = self._opened()
        return Mapped(backend.call(post(path, {"model": name, **body})), lambda answer: change(load(answer)))


def as_pairs(pairs: Any, argument: str = "pairs") -> tuple[list[Pair], bool]:
    """A pair of texts, or an iterable of pairs, as a list; and whether it was one pair."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidArgument(f"'{argument}' must be a pair of texts, or pairs", field=argument)
    found = list(pairs)
    if len(found) == 2 and all(isinstance(text, str) for text in found):
        return [(found[0], found[1])], True
    return [_pair(pair, f"{argument}[{row}]") for row, pair in enumerate(found)], False


def _pair(pair: Any, field: str) -> Pair:
    found = () if isinstance(pair, str) or not isinstance(pair, Iterable) else tuple(pair)
    if len(found) != 2 or not all(isinstance(text, str) for text in found):
        raise InvalidArgument(f"'{field}' must be a pair of texts", field=field)
    return found[0], found[1]


def _windows(pairs: list[Pair]) -> Iterator[list[Pair]]:
    window: list[Pair] = []
    characters = 0
    for pair in pairs:
        window.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(window) == WINDOW_TEXTS or characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def _array(scores: list[float]) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.array(scores, dtype=np.float32)
