"""onnxruntime: f32, and int8 by its dynamic quantisation. Graphs of onnx_graphs.py."""
import onnx
import onnxruntime as ort

import onnx_graphs
from worker import BatchPeer


class Peer(BatchPeer):
    version = ort.__version__

    def variants(self):
        forms = ["fused", "plain"]
        return {"latency": forms, "throughput": [*forms, forms[0] + "/2x1"]}

    def graph(self, task, form):
        path = self.work / f"ort-{task}-{form}-{self.dtype}.onnx"
        onnx_graphs.build(self.folder_for(task), form, path, task)
        if self.dtype == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic
            full = path.rename(path.with_suffix(".f32.onnx"))
            # By channel: as fast as by tensor, and by tensor the vectors are lost (cosine 0.94). The
            # whole range of 8 bits: VNNI adds without saturating.
            quantize_dynamic(full, path, per_channel=True, reduce_range=False,
                             weight_type=QuantType.QInt8,
                             extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
            full.unlink()
        return path

    def load(self, task, form, streams):
        path = self.graph(task, form)
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads // streams
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        path.unlink()
        return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
