"""CTranslate2's encoder: f32, int8, bf16 where the package computes it on this processor."""
import json

import ctranslate2
import numpy as np

from onnx_graphs import Weights
from worker import BatchPeer

COMPUTE = {"f32": "float32", "bf16": "bfloat16", "int8": "int8"}


class Peer(BatchPeer):
    version = ctranslate2.__version__

    def __init__(self, folder, dtype, threads, work):
        super().__init__(folder, dtype, threads, work)
        offered = ctranslate2.get_supported_compute_types("cpu")
        if COMPUTE[dtype] not in offered:
            raise RuntimeError(f"no {COMPUTE[dtype]} on this processor (it offers {', '.join(sorted(offered))})")
        model_type = json.loads((folder / "config.json").read_text())["model_type"]
        if model_type == "modernbert":
            raise RuntimeError("no conversion for modernbert")

    def variants(self):
        return {"latency": ["bert"], "throughput": ["bert", "bert/2x1"]}

    def load(self, task, form, streams):
        # The reranker's encoder is the same; its head is worked out here.
        path = self.work / f"ctranslate2-{COMPUTE[self.dtype]}"
        if not path.exists():
            ctranslate2.converters.TransformersConverter(str(self.folder)).convert(
                str(path), quantization=None if self.dtype == "f32" else COMPUTE[self.dtype])
        encoder = ctranslate2.Encoder(str(path), "cpu", compute_type=COMPUTE[self.dtype], inter_threads=streams,
                                      intra_threads=self.threads // streams)
        w = Weights(self.folder_for("logits"))

        def call(ids, mask):
            lengths = mask.sum(1).astype(np.int32)
            # Ids are 0-padded rows; it leaves out what is beyond a text's length.
            output = encoder.forward_batch(ctranslate2.StorageView.from_array(ids.astype(np.int32)),
                                           ctranslate2.StorageView.from_array(lengths))
            hidden = np.array(output.last_hidden_state)
            if hidden.dtype != np.float32:
                hidden = np.array(output.last_hidden_state.to(ctranslate2.DataType.float32))
            if task == "pooled":
                weights = mask[:, None, :].astype(np.float32) / lengths[:, None, None].astype(np.float32)
                return (weights @ hidden)[:, 0]
            pooled = np.tanh(hidden[:, 0] @ w["pooler.dense.weight"].T + w["pooler.dense.bias"])
            return pooled @ w["classifier.weight"].T + w["classifier.bias"]

        return call
