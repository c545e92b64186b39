"""llama.cpp through llama-cpp-python, which was compiled for this processor."""
import ctypes
import time

import llama_cpp
import numpy as np

PASS = 512  # tokens of one pass, as llama.cpp has it


def variants():
    # "as stored": not in the layout for this processor's kernels (AMX, or rows side by side). "in
    # memory": read, not mapped, so that huge pages hold it.
    return ["flash attention", "plain", "flash attention, as stored", "flash attention, as stored, in memory"]


def open_model(file, variant="", vocabulary_only=False):
    llama_cpp.llama_backend_init()
    open_model.silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(open_model.silence, ctypes.c_void_p())
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    params.vocab_only = vocabulary_only
    params.use_extra_bufts = "as stored" not in variant
    params.use_mmap = "in memory" not in variant
    model = llama_cpp.llama_model_load_from_file(file.encode(), params)
    if not model:
        raise RuntimeError("llama.cpp does not load the file")
    return model


def open_context(model, size, threads, variant):
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = -(-size // 256) * 256
    params.n_batch = params.n_ubatch = PASS
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = 1 if "flash" in variant else 0
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise RuntimeError("llama.cpp makes no context")
    return context


class Batch:
    """A llama_batch over numpy arrays; element by element would cost Python's time."""

    def __init__(self, ids, past, logits):
        n = len(ids)
        self.arrays = {"token": np.asarray(ids, np.int32), "pos": np.arange(past, past + n, dtype=np.int32),
                       "n_seq_id": np.ones(n, np.int32), "logits": np.zeros(n, np.int8)}
        self.arrays["logits"][0 if logits == "all" else -1:] = 1
        self.sequence = np.zeros(1, np.int32)
        self.arrays["seq_id"] = np.full(n, self.sequence.ctypes.data, np.uint64)
        self.batch = llama_cpp.llama_batch(n_tokens=n)
        kinds = dict(llama_cpp.llama_batch._fields_)
        for field, array in self.arrays.items():
            setattr(self.batch, field, ctypes.cast(array.ctypes.data, kinds[field]))

    def run(self, context):
        code = llama_cpp.llama_decode(context, self.batch)
        if code:
            raise RuntimeError(f"llama_decode: {code}")


def generate(context, sampler, ids, tokens):
    """Seconds until the first token, seconds of the others together."""
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    start = time.perf_counter()
    for past in range(0, len(ids), PASS):
        Batch(ids[past:past + PASS], past, "last").run(context)
    token = llama_cpp.llama_sampler_sample(sampler, context, -1)
    first = time.perf_counter()
    one = Batch([token], len(ids), "last")
    for _ in range(tokens - 1):
        one.arrays["token"][0] = token
        one.run(context)
        one.arrays["pos"] += 1
        token = llama_cpp.llama_sampler_sample(sampler, context, -1)
    return first - start, time.perf_counter() - first


def measure(file, text, ids, tokens, threads, variant, repeats):
    model = open_model(file, variant)
    context = open_context(model, len(ids) + tokens, threads, variant)
    sampler = llama_cpp.llama_sampler_init_greedy()
    generate(context, sampler, ids[:64], 4)
    out = {"prefill": [], "decode": [], "prompt_tokens": len(ids)}
    for _ in range(repeats):
        first, rest = generate(context, sampler, ids, tokens)
        out["prefill"].append(len(ids) / first)
        if tokens > 1:
            out["decode"].append((tokens - 1) / rest)
    return out


def tokens_of(vocabulary, text):
    data = text.encode()
    room = (llama_cpp.llama_token * (len(data) + 8))()
    count = llama_cpp.llama_tokenize(vocabulary, data, len(data), room, len(room), True, False)
    return list(room[:count])


def prompt(file, text, count=None):
    """Text and ids; cut so that it is `count` tokens."""
    vocabulary = llama_cpp.llama_model_get_vocab(open_model(file, vocabulary_only=True))
    ids = tokens_of(vocabulary, text)
    if count is None or len(ids) == count:
        return {"text": text, "ids": ids}
    for end in range(len(text), 0, -1):
        ids = tokens_of(vocabulary, text[:end])
        if len(ids) == count:
            return {"text": text[:end], "ids": ids}
    raise RuntimeError(f"no beginning of the text is {count} tokens")


def logits(file, ids, threads, out, one_by_one, variant):
    """Writes the logits after each token to the file `out`: [tokens, vocabulary] of f32."""
    model = open_model(file, variant)
    width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    context = open_context(model, len(ids), threads, variant)
    step = 1 if one_by_one else PASS
    with open(out, "wb") as rows:
        for past in range(0, len(ids), step):
            part = ids[past:past + step]
            Batch(part, past, "all").run(context)
            values = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(part), width))
            rows.write(np.ascontiguousarray(values, np.float32).tobytes())
    return {"rows": len(ids), "width": width}
