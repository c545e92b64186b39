"""Tensor models through Penstock's side of OpenVINO: the cases of the package onnx, and magika's model.

Runs in an environment of its own (requirements-tensors.txt); tools/run_tests.sh makes it where
OpenVINO is installed. openvino_exceptions.txt lists the cases that do not give what onnx expects,
each with the reason; `python test_openvino_models.py --write` writes it anew. The kind `varies` is
set by hand and kept: those values depend on the processor's instruction set.
"""
import importlib.util
import pathlib
import sys
import tempfile

import numpy as np
import pytest

from openvino_models import Driver, driver_path, onnx_cases, run_case

EXCEPTIONS = pathlib.Path(__file__).parent / "openvino_exceptions.txt"
REASON_BYTES_MAX = 110

pytest.importorskip("onnx", reason="NOT TESTED: the package onnx is in requirements-tensors.txt")
if not driver_path().is_file():
    pytest.skip(f"NOT TESTED: {driver_path()} is not built", allow_module_level=True)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = Driver(tmp_path_factory.mktemp("tensors"))
    answer = driver.run("nowhere.onnx", {})
    if "tensor models need OpenVINO" in answer["message"]:
        pytest.skip("NOT TESTED: " + answer["message"])
    yield driver
    driver.close()


def exceptions():
    """{name: (kind, reason)}"""
    lines = [line for line in EXCEPTIONS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: (kind, reason) for name, kind, reason in (line.split(": ", 2) for line in lines)}


def as_known(known, kind):
    """Whether a case ended as its exception says. kind: of its failure; "" it gave what onnx expects."""
    return kind in ("", "values") if known == "varies" else kind == known


def test_cases_of_onnx(driver):
    known, cases = exceptions(), onnx_cases()
    assert len(cases) > 1700 and not set(known) - set(cases)
    results = {name: run_case(driver, folder) for name, folder in cases.items()}
    unexpected = {name: result for name, result in results.items()
                  if not as_known(known.get(name, ("", ""))[0], result[0])}
    assert not unexpected  # {name: ("", "")}: it no longer differs, so its exception goes
    assert not any(kind == "crash" for kind, _ in known.values())


def magika_model():
    spec = importlib.util.find_spec("magika")
    return next((pathlib.Path(spec.origin).parent / "models").glob("standard_*/model.onnx"))


@pytest.mark.parametrize("threads,batch", [(1, 0), (1, 8), (2, 8)])
def test_magika_equals_onnxruntime(driver, threads, batch):
    import onnxruntime
    session = onnxruntime.InferenceSession(magika_model(), providers=["CPUExecutionProvider"])
    # 256 stands for places beyond a file's end.
    tokens = np.random.default_rng(5).integers(0, 257, (8, 2048), np.int32)
    tokens[3, 500:] = 256
    answer = driver.run(magika_model(), {"bytes": tokens}, threads=threads, batch=batch)
    assert "error" not in answer, answer
    assert answer["inputs"] == [{"name": "bytes", "type": "INT32", "shape": "[-1,2048]"}]
    (expected,) = session.run(None, {"bytes": tokens})
    got = answer["outputs"][0]["values"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    # A row has the same result whatever else is in its batch.
    alone = driver.run(magika_model(), {"bytes": tokens[3:4]}, threads=threads)
    np.testing.assert_allclose(alone["outputs"][0]["values"], got[3:4], rtol=1e-5, atol=1e-7)


def test_strings_are_told_and_refused(driver):
    model = onnx_cases()["node/test_equal_string"] / "model.onnx"
    answer = driver.run(model, {})
    assert answer["stage"] == "load" and answer["error"] == "unsupported", answer


def write_exceptions():
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(folder)
        lines, varying = [], {name: known for name, known in exceptions().items() if known[0] == "varies"}
        for name, case in onnx_cases().items():
            kind, reason = varying.get(name) or run_case(driver, case)
            if kind:
                for noise in ("FrontEnd API failed with OpConversionFailure; ", "Model wasn't fully converted.", "; Summary;",
                              " Failed operations detailed log;"):
                    reason = reason.replace(noise, "")
                lines.append(f"{name}: {kind}: {' '.join(reason.split())[:REASON_BYTES_MAX].strip()}\n")
        driver.close()
    EXCEPTIONS.write_text(
        "# Cases of onnx 1.21.0 that OpenVINO 2026.4.1 on a CPU does not load or run, or whose values differ\n"
        "# from those that onnx expects. Written by `test_openvino_models.py --write`.\n" + "".join(lines))


if __name__ == "__main__" and "--write" in sys.argv:
    write_exceptions()
