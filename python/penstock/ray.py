"""Penstock on Ray: collections in files, made in shards by tasks, and datasets, embedded batch by batch by actors.

Needs ray; datasets need ray[data] and pyarrow. Each machine embeds in processes of its own with Penstock's threads: give
a task or an actor as many processors as it is to use, best all of a machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .cli import flag_words, program
from .embedder import Embedder as LocalEmbedder
from .errors import Error, InvalidArgument

SKIPPED = 3  # the exit code of `penstock embed` where rows were skipped
PR_SET_PDEATHSIG = 1  # prctl(2)
# Size of a block of embed_dataset. A smaller block makes Ray's overhead visible; a larger one leaves actors idle at
# the end.
BLOCK_CHARACTERS = 1 << 20
SAMPLE_ROWS = 64


class Embedder:
    """What Dataset.map_batches calls: a table of Arrow in, the same with a column of vectors out.

    ds.map_batches(penstock.ray.Embedder, fn_constructor_kwargs={"model": ...}, batch_format="pyarrow", ...)
    """

    def __init__(
        self,
        model: str | None = None,
        text: str = "text",
        output: str = "embedding",
        encode: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        """Loads the model in this actor, with the threads that Ray has given it.

        text, output: the columns. encode: arguments of penstock.Embedder.embed_arrow: prompt_name, prompt,
        normalize_embeddings, truncate_dim. arguments: of penstock.Embedder.
        """
        if "threads" not in arguments:
            arguments["threads"] = 0 if arguments.get("url") else _given_threads()
        self._embedder = LocalEmbedder(model, **arguments)
        self._text, self._output, self._encode = text, output, encode or {}

    def __call__(self, table: Any) -> Any:
        """Raises InvalidArgument where the column is not there, is not of strings, or a row is null."""
        if self._text not in table.column_names:
            raise InvalidArgument(
                f"there is no column '{self._text}'; there are {', '.join(table.column_names)}", field="text"
            )
        vectors = self._embedder.embed_arrow(table.column(self._text), **self._encode)
        if self._output in table.column_names:
            return table.set_column(table.column_names.index(self._output), self._output, vectors)
        return table.append_column(self._output, vectors)


def embed_dataset(
    dataset: Any,
    *,
    model: str | None = None,
    text: str = "text",
    output: str = "embedding",
    actors: int | tuple[int, int] = 1,
    num_cpus: float = 1.0,
    block_rows: int | None = None,
    encode: dict[str, Any] | None = None,
    **arguments: Any,
) -> Any:
    """A dataset with a column of vectors: embed_dataset(ds, model=...).write_parquet(...).

    actors: how many, or the least and the most; one a machine, with num_cpus of it, is fastest. block_rows: rows of a
    block, which is embedded as one; None: by the length of the first texts. encode and arguments as for Embedder.
    An actor or a machine that ends is replaced, and its blocks are embedded again; the same text gives the same vector.
    """
    data = import_module("ray.data")
    rows = block_rows or _block_rows(dataset, text)
    least, most = (actors, actors) if isinstance(actors, int) else actors
    # Ray makes one task of many small files, for which one actor works while the others wait.
    return dataset.repartition(target_num_rows_per_block=rows).map_batches(
        Embedder,
        batch_size=None,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=num_cpus,
        udf_modifying_row_count=False,
        fn_constructor_kwargs={"model": model, "text": text, "output": output, "encode": encode, **arguments},
    )


def embed_files(
    files: str | Sequence[str],
    out: str,
    *,
    model: str | None = None,
    shards: int,
    num_cpus: float = 1.0,
    merge: str | None = None,
    address: str | None = None,
    **flags: Any,
) -> dict[str, int]:
    """Embeds files in shards, a task of Ray each; `penstock embed --shard` and docs/FLEET.md say what is written.

    files, out: paths that all machines see. shards: how many parts; ten a machine or more. num_cpus: of a task, whose
    threads they are. merge: the file that the parts are put together in. address: of a cluster, if there is no
    connection yet. flags: those of `penstock embed`, with "_" for "-".

    Called again, whatever ended the last time, only what is not done is made. A task whose machine ends is run again,
    and goes on where it was. Returns counts: "shards", "made" by this call.
    Raises Error with what `penstock embed` said, and ends the other tasks, where one fails.
    """
    ray = import_module("ray")
    if not ray.is_initialized():
        ray.init(address=address)
    names = [files] if isinstance(files, str) else list(files)
    words = flag_words({"model": model, "output": out, "threads": max(1, int(num_cpus)), "quiet": True, **flags})
    left = [shard for shard in range(shards) if not os.path.exists(_record(out, shard, shards))]
    task = ray.remote(num_cpus=num_cpus, max_retries=-1)(_make_shard)
    waiting = [task.remote([*names, *words, f"--shard={shard}/{shards}"]) for shard in left]
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            ray.get(done)
    except BaseException:
        for each in waiting:
            ray.cancel(each, force=True)
        raise
    if merge is not None:
        _run(["merge", out, f"--output={merge}", "--quiet"])
    return {"shards": shards, "made": len(left)}


def _make_shard(words: list[str]) -> None:
    _run(["embed", *words])


def _run(words: list[str]) -> None:
    """Runs the program, which ends with this process."""
    done = subprocess.run(
        [program(), *words], stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=_end_with_parent
    )
    if done.returncode not in (0, SKIPPED):
        code = "invalid_argument" if done.returncode == 2 else "unavailable"
        raise Error(done.stderr.strip()[-2000:] or f"penstock ended with {done.returncode}", code=code)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _record(out: str, shard: int, shards: int) -> str:
    return os.path.join(out, f"part-{shard:05}-of-{shards:05}.json")


def _given_threads() -> int:
    """The processors that Ray has given this actor; 0 where it says none."""
    ray = import_module("ray")
    if not ray.is_initialized():
        return 0
    try:
        given = ray.get_runtime_context().get_assigned_resources().get("CPU", 0)
    except AssertionError:  # a driver, to which it gives none
        return 0
    return max(1, int(given)) if given else 0


def _block_rows(dataset: Any, text: str) -> int:
    """Rows of about BLOCK_CHARACTERS, by the first ones."""
    lengths = [len(row[text] or "") for row in dataset.take(SAMPLE_ROWS) if text in row]
    if not lengths:
        raise InvalidArgument(f"the dataset has no rows with a column '{text}'", field="text")
    return max(1, BLOCK_CHARACTERS * len(lengths) // max(1, sum(lengths)))
