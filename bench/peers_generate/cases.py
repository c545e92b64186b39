"""What is measured: model files, and for each the prompts."""
import dataclasses
import sys

import peers
import texts

sys.path.insert(0, str(peers.HERE.parents[1] / "tools"))
import make_gguf

ABOUT = {
    "smollm2": "SmolLM2-135M-Instruct, Q4_1 with a Q8_0 embedding: its own weights",
    "q8_0": "the shape of TinyLlama-1.1B, Q8_0 (random weights)",
    "q4_k_m": "the shape of TinyLlama-1.1B, Q4_K with Q6_K where Q4_K_M has it (random weights)",
    "qwen3_q8_0": "the shape of Qwen3-0.6B, Q8_0 (random weights)",
}
# Shape and mix of tools/make_gguf.py.
MADE = {"q8_0": ("tinyllama", "Q8_0"), "q4_k_m": ("tinyllama", "Q4_K_M"), "qwen3_q8_0": ("qwen3-0.6b", "Q8_0")}
TRIAL = {"q8_0": ("tiny", "Q8_0"), "q4_k_m": ("tiny", "Q4_K_M"), "qwen3_q8_0": ("tiny-qwen3", "Q8_0")}


@dataclasses.dataclass
class Case:
    model: str
    kind: str  # prefill or decode
    prompt: int  # tokens; 0: a short text
    tokens: int  # generated; 1: the time of the prompt alone
    repeats: int  # in each turn

    @property
    def name(self):
        return f"{self.kind}{self.prompt or ''}"

    @property
    def label(self):
        if self.kind == "prefill":
            return f"prompt of {self.prompt} tokens"
        return f"{self.tokens} tokens after {self.prompt or 'a few'}"


CASES = [case for model in ("smollm2", "q8_0", "q4_k_m") for case in
         (Case(model, "decode", 0, 128, 2), Case(model, "prefill", 512, 1, 3))]
CASES.append(Case("qwen3_q8_0", "decode", 4096, 128, 1))


def model_file(name, demo, cache, trial):
    """The file; made once."""
    if name == "smollm2":
        return demo
    shape, mix = (TRIAL if trial else MADE)[name]
    path = cache / f"{shape}.{mix}.gguf"
    if not path.exists():
        print(f"making {path}", flush=True)
        make_gguf.write_shape(path, shape, mix)
    return path


def prompt(case, file, log):
    """Text and ids, as llama.cpp cuts it."""
    text = texts.SHORT if not case.prompt else texts.TEXT
    if case.model != "smollm2":
        text = texts.letters(case.prompt or len(texts.SHORT))
    return peers.ask("llama_cpp", log, do="prompt", file=str(file), text=text, count=case.prompt or None)
