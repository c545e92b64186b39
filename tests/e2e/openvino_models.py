"""What tests of tensor models share: the driver build/tests/openvino_cases, and cases of onnx."""
import glob
import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
         "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "bfloat16": "BF16",
         "float32": "FP32", "float64": "FP64"}


def driver_path():
    build = pathlib.Path(os.environ.get("PENSTOCK_BIN", ROOT / "build" / "penstock")).parent
    return build / "tests" / "openvino_cases"


def numpy_type(name):
    import ml_dtypes
    return np.dtype(ml_dtypes.bfloat16 if name == "BF16" else next(k for k, v in TYPES.items() if v == name))


class Crashed(Exception):
    """The driver ended before it answered."""


class Driver:
    """The driver's process; after a crash or a time-out the next case gets a new one."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.process = None

    def ask(self, line):
        if self.process is None:
            self.process = subprocess.Popen([driver_path()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self.process.wait()
            self.process = None
            raise Crashed(f"the process ended with {code}")
        return json.loads(answer)

    def run(self, model, inputs, **more):
        """`inputs`: {name: array}. The answer; its outputs have their "values"."""
        described = []
        for i, (name, values) in enumerate(inputs.items()):
            path = self.folder / f"input_{i}"
            path.write_bytes(values.tobytes())
            described.append({"name": name, "type": TYPES.get(values.dtype.name, values.dtype.name),
                              "shape": list(values.shape), "file": str(path)})
        answer = self.ask({"model": str(model), "inputs": described, "output": str(self.folder / "output_"), **more})
        for output in answer.get("outputs", ()):
            data = pathlib.Path(output["file"]).read_bytes()
            output["values"] = np.frombuffer(data, numpy_type(output["type"])).reshape(output["shape"])
        return answer

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def onnx_cases():
    """{name: folder} of the data of the package onnx."""
    import onnx.backend.test
    base = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    return {os.path.relpath(path, base): pathlib.Path(path) for path in sorted(glob.glob(f"{base}/*/test_*"))
            if (pathlib.Path(path) / "model.onnx").is_file()}


def read_tensors(paths):
    """[(name, array)]; None where one is not a tensor."""
    import onnx
    from onnx import numpy_helper
    tensors = []
    for path in paths:
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(path.read_bytes())
            tensors.append((tensor.name, np.asarray(numpy_helper.to_array(tensor))))
        except Exception:  # a sequence or an optional value
            return None
    return tensors


def difference(expected, got):
    """What is wrong with an output, or "". As strict as onnx's own runner of these cases."""
    if got.shape != expected.shape:
        return f"shape {list(got.shape)} instead of {list(expected.shape)}"
    if got.dtype != expected.dtype:
        return f"type {got.dtype} instead of {expected.dtype}"
    if expected.dtype.kind in "iub":
        wrong = got != expected
    else:
        close = np.isclose(got.astype(np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-7, equal_nan=True)
        wrong = ~close
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{np.count_nonzero(wrong)} of {wrong.size} values differ, {list(first)}: {got[first]} instead of {expected[first]}"


def run_case(driver, folder):
    """(kind of failure, reason); "", "": all data sets give their expected outputs.

    Kinds: load, run, values (another output than expected), crash.
    """
    import onnx
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    declared = [value.name for value in model.graph.input]
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = read_tensors(sorted(data.glob("input_*.pb"), key=lambda path: int(path.stem[6:])))
        outputs = read_tensors(sorted(data.glob("output_*.pb"), key=lambda path: int(path.stem[7:])))
        if inputs is None or outputs is None:
            return "load", "inputs or outputs are sequences or optional values"
        arrays = {name: values for name, (_, values) in zip(declared, inputs) if values.dtype != object}
        try:
            answer = driver.run(folder / "model.onnx", arrays)
        except Crashed as error:
            return "crash", str(error)
        if "error" in answer:
            return answer["stage"], answer["message"].replace(f"{folder}/model.onnx: ", "")
        names = [value.name for value in model.graph.output]
        if [output["name"] for output in answer["outputs"]] != names:
            return "values", f"outputs are called {[output['name'] for output in answer['outputs']]}"
        if "bernoulli" in folder.name:  # random numbers
            continue
        for (_, expected), output in zip(outputs, answer["outputs"]):
            if wrong := difference(expected, output["values"]):
                return "values", wrong
    return "", ""
