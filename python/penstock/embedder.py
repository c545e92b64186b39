"""Embedder: texts to vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ._backend import EmbedRequest, Mapped, Pending
from ._encode import Form, check_cut, check_device, form_of, row_form
from ._model import TIMEOUT_S, Model
from ._order import ain_order, in_order
from ._texts import WINDOW_TEXTS, StringTexts, Texts, as_strings, check_string, windows
from .errors import Error, InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._backend import Vectors

# While one call is worked on, the next one waits behind it, so the processor is never without work.
UNDER_WAY = 2
# Smaller windows where the first vectors are wanted soon.
LAZY_WINDOW_TEXTS = 512
ROW = re.compile(r"(?:inputs?|texts)\[(\d+)\]")


class Embedder(Model):
    """A model of embeddings, with the methods of sentence_transformers.SentenceTransformer."""

    _task = "embedding"

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | None = None,
        dtype: str = "auto",
        threads: int = 0,
        device: Any = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_S,
        similarity_fn_name: str | None = None,
        **flags: Any,
    ) -> None:
        """As Model; similarity_fn_name: "cosine", "dot", "euclidean" or "manhattan"; None: the model's."""
        self._similarity = similarity_fn_name
        super().__init__(
            model,
            url=url,
            dtype=dtype,
            threads=threads,
            device=device,
            api_key=api_key,
            timeout=timeout,
            **flags,
        )

    def encode(
        self,
        sentences: Any = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool | None = None,
        truncate_dim: int | None = None,
        **more: Any,
    ) -> Any:
        """Embeds a text, or texts.

        sentences: a text or an iterable of texts (also named inputs).
        prompt_name, prompt: what goes before each text: a prompt of the model by its name, or this one.
        show_progress_bar: None: for many texts, where stderr is a terminal.
        precision: "float32", "int8", "uint8", "binary" or "ubinary", see quantize.quantize_embeddings.
        convert_to_numpy: False: a list of arrays, one a text. convert_to_tensor: True: a tensor of torch.
        normalize_embeddings: True: vectors of length 1; False and None: as the model gives them, which
        is of length 1, too, where the model normalizes.
        truncate_dim: keeps the first dimensions alone.
        batch_size has no effect; output_value and device are for what there is: "sentence_embedding",
        and the device of the model.

        Returns float32 [dimensions] for a text and [n, dimensions] for texts, in their order.
        Raises InvalidArgument with the argument or "sentences[i]" as field, Overloaded, ...
        """
        check_device(device, self._device())
        form = form_of(
            prompt_name=prompt_name,
            prompt=prompt,
            batch_size=batch_size,
            show_progress_bar=show_progress_bar,
            output_value=output_value,
            precision=precision,
            convert_to_numpy=convert_to_numpy,
            convert_to_tensor=convert_to_tensor,
            normalize_embeddings=normalize_embeddings,
            truncate_dim=truncate_dim,
            **_without_inputs(more),
        )
        strings, single = as_strings(_given(sentences, more), "sentences")
        return form.finish(self._vectors(_pieces(strings), len(strings), form), single)

    def encode_query(self, sentences: Any = None, **arguments: Any) -> Any:
        """As encode, with the model's prompt for queries, if it has one."""
        return self.encode(sentences, **{"input_type": "query", **arguments})

    def encode_document(self, sentences: Any = None, **arguments: Any) -> Any:
        """As encode, with the model's prompt for documents, if it has one."""
        return self.encode(sentences, **{"input_type": "document", **arguments})

    async def aencode(self, sentences: Any = None, **arguments: Any) -> Any:
        """As encode, with its arguments by name. A task that is cancelled cancels the calls."""
        check_device(arguments.pop("device", None), self._device())
        form = form_of(**_without_inputs(arguments))
        strings, single = as_strings(_given(sentences, arguments), "sentences")
        return form.finish(await self._avectors(strings, form), single)

    def embed(self, texts: Iterable[str], **arguments: Any) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors of texts, in their order, as they are made.

        Lazy: texts are read a little ahead of the vectors that are taken, so their number has no
        bound. The arguments are prompt_name, prompt, normalize_embeddings and truncate_dim of encode.
        """
        form = row_form(arguments, "embed")
        if isinstance(texts, str):
            texts = [texts]
        checked = (check_string(text, "texts", row) for row, text in enumerate(texts))
        return self._lazily((StringTexts(each) for each in windows(checked, LAZY_WINDOW_TEXTS)), form)

    def embed_arrow(self, column: Any, **arguments: Any) -> Any:
        """Embeds a column of strings of pyarrow: an Array or a ChunkedArray.

        In this process the texts are not copied. The arguments are prompt_name, prompt,
        normalize_embeddings and truncate_dim of encode. Returns a FixedSizeListArray of float32.
        Raises InvalidArgument where a row is null, with "column[row]" as field.
        """
        from ._arrow import column_windows, vectors_column

        form = row_form(arguments, "embed_arrow")
        return vectors_column(self._vectors(column_windows(column), len(column), form, "column"))

    @property
    def similarity_fn_name(self) -> str:
        """The similarity that the model is made for."""
        if self._similarity is None:
            self._opened()
        return self._similarity or str(self._facts.get("similarity") or "cosine")

    def similarity(self, a: Any, b: Any) -> npt.NDArray[np.float32]:
        """Each vector of `a` [n, d] beside each of `b` [m, d]: float32 [n, m]; larger is more similar."""
        from .similarity import similarity

        return similarity(self.similarity_fn_name, a, b)

    def similarity_pairwise(self, a: Any, b: Any) -> npt.NDArray[np.float32]:
        """Each vector of `a` [n, d] beside its own of `b` [n, d]: float32 [n]."""
        from .similarity import similarity_pairwise

        return similarity_pairwise(self.similarity_fn_name, a, b)

    def get_sentence_embedding_dimension(self) -> int:
        """The length of a vector."""
        self._opened()
        if not self._facts.get("dimensions"):
            # A server tells once it has loaded the model, which the first text makes it do.
            self._facts["dimensions"] = len(self.encode("a"))
        return int(self._facts["dimensions"])

    get_embedding_dimension = get_sentence_embedding_dimension

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text that are read; what is longer is cut."""
        self._opened()
        return int(self._facts["max_tokens"])

    def tokenize(self, texts: Any) -> list[list[int]]:
        """The ids of the tokens of each text, as the model reads them."""
        strings, _ = as_strings(texts, "texts")
        answer = self._ask("/tokenize", {"inputs": strings}) if strings else []
        return [[token["id"] for token in each] for each in answer]

    def _device(self) -> str | None:
        device: str | None = self._arguments["flags"].get("device")
        return device

    def _calls(self, texts: Iterable[Texts], form: Form, argument: str, bulk: bool) -> Iterator[Pending[Vectors]]:
        """`bulk`: what others ask for meanwhile goes first."""
        backend, name = self._opened()
        options = {**form.options, "model": name, **({"priority": "bulk"} if bulk else {})}
        first = 0
        for each in texts:
            call = backend.embed(EmbedRequest(each, options))
            yield Mapped(call, lambda vectors: _cut(vectors, form), _Rename(argument, first))
            first += len(each)

    def _vectors(self, texts: Iterable[Texts], rows: int, form: Form, argument: str = "sentences") -> Vectors:
        """All vectors; those of a single call in the memory where they were made."""
        gathered = _Gathered(rows, form)
        try:
            for vectors in in_order(self._calls(texts, form, argument, rows > WINDOW_TEXTS), UNDER_WAY):
                gathered.add(vectors)
        finally:
            gathered.close()
        return gathered.whole(self)

    async def _avectors(self, strings: list[str], form: Form) -> Vectors:
        gathered = _Gathered(len(strings), form)
        try:
            calls = self._calls(_pieces(strings), form, "sentences", len(strings) > WINDOW_TEXTS)
            async for vectors in ain_order(calls, UNDER_WAY):
                gathered.add(vectors)
        finally:
            gathered.close()
        return gathered.whole(self)

    def _lazily(self, texts: Iterable[Texts], form: Form) -> Iterator[npt.NDArray[np.float32]]:
        for vectors in in_order(self._calls(texts, form, "texts", True), UNDER_WAY, eager=True):
            yield from vectors

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "similarity": self._similarity}

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        self._similarity = arguments.pop("similarity")
        super().__setstate__(arguments)


class _Gathered:
    """Vectors of several calls, put together."""

    def __init__(self, rows: int, form: Form) -> None:
        from ._progress import Progress

        self._rows = rows
        self._form = form
        self._have = 0
        self._all: Vectors | None = None
        self._progress = Progress(rows, form.progress)

    def add(self, vectors: Vectors) -> None:
        import numpy as np

        count = len(vectors)
        if self._all is None and count == self._rows:
            self._all = vectors
        else:
            if self._all is None:
                self._all = np.empty((self._rows, vectors.shape[1]), dtype=np.float32)
            self._all[self._have : self._have + count] = vectors
        self._have += count
        self._progress.add(count)

    def whole(self, embedder: Embedder) -> Vectors:
        """All of them; [0, dimensions] where there was no text."""
        import numpy as np

        if self._all is not None:
            return self._all
        dimensions = embedder.get_sentence_embedding_dimension()
        check_cut(self._form.cut, dimensions)
        wanted = self._form.cut or self._form.options.get("dimensions") or dimensions
        return np.empty((0, wanted), dtype=np.float32)

    def close(self) -> None:
        self._progress.close()


class _Rename:
    """Gives an error that names a field or a row of a request the argument, and the row of the whole."""

    def __init__(self, argument: str, first: int) -> None:
        self._argument = argument
        self._first = first

    def __call__(self, error: Error) -> None:
        found = ROW.match(error.field)
        if error.field == "dimensions":
            error.field = "truncate_dim"
        elif found:
            row = self._first + int(found.group(1))
            error.field = f"{self._argument}[{row}]{error.field[found.end() :]}"


def _cut(vectors: Vectors, form: Form) -> Vectors:
    if form.cut is None:
        return vectors
    check_cut(form.cut, vectors.shape[1])
    return vectors[:, : form.cut]


def _pieces(strings: list[str]) -> Iterator[StringTexts]:
    return (StringTexts(each) for each in windows(strings))


def _given(sentences: Any, more: dict[str, Any]) -> Any:
    """The texts, which may also be named inputs."""
    if "inputs" in more and sentences is None:
        return more["inputs"]
    if sentences is None or "inputs" in more:
        raise InvalidArgument("'sentences' must be given, once", field="sentences")
    return sentences


def _without_inputs(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "inputs"}
