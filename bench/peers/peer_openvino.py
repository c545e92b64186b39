"""OpenVINO: f32 and bf16 by its hint for the precision, int8 by NNCF in both ways it offers."""
import json
import threading

import openvino

import onnx_graphs
from worker import BatchPeer, padded


class Peer(BatchPeer):
    version = openvino.__version__.split("-")[0]

    def variants(self):
        # static: weights and activations in int8, scales from a calibration on other texts.
        # dynamic: weights in int8, scales of activations found as it goes.
        # bf16: what is not in int8, attention above all, in bf16.
        forms = ["dynamic bf16", "static bf16", "dynamic", "static"] if self.dtype == "int8" else ["plain"]
        return {"latency": forms, "throughput": [*forms, *(f + "/2x1" for f in forms[:2])]}

    def graph(self, task):
        path = self.work / f"openvino-{task}-{self.dtype}.onnx"
        onnx_graphs.build(self.folder_for(task), "plain", path, task)
        model = openvino.Core().read_model(path)
        path.unlink()
        return model

    def quantised(self, task, form):
        """Made once: the calibration takes long."""
        form = form.split()[0]
        path = self.work / f"openvino-{task}-{form}.xml"
        if not path.exists():
            import nncf
            model = self.graph(task)
            if form == "static":
                ids = json.loads((self.work / "calibration.json").read_text())["ids"]

                def feed(text):
                    rows, mask = padded([text])
                    return {"input_ids": rows, "attention_mask": mask}

                model = nncf.quantize(model, nncf.Dataset(ids, feed), subset_size=len(ids),
                                      model_type=nncf.ModelType.TRANSFORMER)
            else:
                model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
            openvino.save_model(model, path, compress_to_fp16=False)
        return openvino.Core().read_model(path)

    def load(self, task, form, streams):
        model = self.graph(task) if self.dtype != "int8" else self.quantised(task, form)
        config = {"INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": streams,
                  "INFERENCE_PRECISION_HINT": "bf16" if self.dtype == "bf16" or "bf16" in form else "f32"}
        if form.startswith("dynamic"):
            config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "128"  # larger ones lose accuracy, smaller ones speed
        compiled = openvino.Core().compile_model(model, "CPU", config)
        local = threading.local()

        def call(ids, mask):
            if not hasattr(local, "request"):
                local.request = compiled.create_infer_request()
            return local.request.infer({"input_ids": ids, "attention_mask": mask})[0]

        return call
