"""sentence-transformers on torch: f32, and bf16 as the model's type. Texts in, vectors out."""
import os

import numpy as np
import sentence_transformers
import torch


class Peer:
    version = f"{sentence_transformers.__version__} (torch {torch.__version__})"
    takes = "texts"

    def __init__(self, folder, dtype, threads, work):
        if dtype == "int8":
            raise RuntimeError("no int8 of its own; its ONNX and OpenVINO backends are the runtimes above")
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        torch.set_num_threads(threads)
        self.folder = folder
        self.type = torch.bfloat16 if dtype == "bf16" else torch.float32
        self.loaded = None

    def variants(self):
        return {"latency": ["torch"], "throughput": ["torch"]}

    def prepare(self, task, variant):
        if self.loaded == task:
            return
        kwargs = {"device": "cpu", "local_files_only": True, "model_kwargs": {"dtype": self.type}}
        if task == "pooled":
            self.model = sentence_transformers.SentenceTransformer(str(self.folder), **kwargs)
        else:
            folder = self.folder.with_name(self.folder.name + "-rerank")
            self.model = sentence_transformers.CrossEncoder(
                str(folder), num_labels=1, max_length=512, activation_fn=torch.nn.Identity(), **kwargs)
        self.loaded = task

    def run(self, data, batch):
        if self.loaded == "pooled":
            return self.model.encode(data["texts"], batch_size=batch, show_progress_bar=False)
        rows = self.model.predict([tuple(p) for p in data["pairs"]], batch_size=batch, show_progress_bar=False)
        return np.asarray(rows).reshape(-1, 1)

    def one(self, data, i):
        return self.model.encode([data["texts"][i]], show_progress_bar=False)
