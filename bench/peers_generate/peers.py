"""The peers: whether they are there and built for this processor, and their processes."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import machine

HERE = pathlib.Path(__file__).parent
PEERS = ["llama_cpp", "openvino_genai", "ik", "penstock"]
LABELS = {"llama_cpp": "llama.cpp", "openvino_genai": "OpenVINO GenAI", "ik": "ik_llama.cpp",
          "penstock": "**Penstock**"}
ANSWER_S = 1200


class Failed(Exception):
    pass


def libraries(peer):
    """Where a peer that is compiled here has its products."""
    if peer == "llama_cpp":
        return sorted(pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent.glob("lib/libggml-cpu*.so"))
    folder = pathlib.Path(os.environ["PENSTOCK_IK"])
    return sorted(folder.glob("**/libggml*.so")) or [folder / "bin/llama-bench"]


def native_dots(files):
    """How many vpdpbusd they have, the instruction without which int8 products are slow."""
    count = 0
    for file in {file.resolve() for file in files}:
        with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", file], stdout=subprocess.PIPE) as dump:
            count += sum(b"vpdpbusd" in line for line in dump.stdout)
        if dump.returncode:
            raise RuntimeError(f"objdump does not read {file}")
    return count


def check_native(peer):
    """Ends the program where a peer was compiled for a lesser processor than this one."""
    if not any("vnni" in flag for flag in machine.processor_flags()):
        return
    count = native_dots(libraries(peer))
    print(f"{peer}: {count} x vpdpbusd", flush=True)
    if count == 0:
        sys.exit(f"{peer} was built without vpdpbusd, which this processor has: the comparison would be unfair. "
                 "Build it for this processor (GGML_NATIVE=ON, a compiler that knows it).")


def missing(peer, reasons):
    """Why a peer is not here, or None. `reasons`: of what could not be installed."""
    if peer == "ik":
        folder = os.environ.get("PENSTOCK_IK")
        if not folder:
            return "PENSTOCK_IK names no build folder"
        return None if (pathlib.Path(folder) / "bin/llama-bench").exists() else f"no bin/llama-bench in {folder}"
    module = {"llama_cpp": "llama_cpp", "openvino_genai": "openvino_genai"}.get(peer)
    if module and importlib.util.find_spec(module) is None:
        return "not installed: " + reasons.get(module.replace("_", "-"), reasons.get("llama-cpp-python", ""))
    return None


def ask(peer, log, **task):
    """The answer of worker.py."""
    # Penstock asks for huge pages itself; what a peer allocates gets them so.
    environment = dict(os.environ, OMP_NUM_THREADS=str(task.get("threads", 1)), HF_HUB_OFFLINE="1",
                       GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    with open(log, "a") as errors:
        errors.write(json.dumps({"peer": peer, **{k: v for k, v in task.items() if k not in ("ids", "text")}}) + "\n")
        errors.flush()
        try:
            done = subprocess.run([sys.executable, HERE / "worker.py", peer], input=json.dumps(task), text=True,
                                  stdout=subprocess.PIPE, stderr=errors, timeout=ANSWER_S, env=environment)
        except subprocess.TimeoutExpired:
            raise Failed(f"no answer within {ANSWER_S} s") from None
    if not done.stdout:
        raise Failed(f"ended ({done.returncode})")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise Failed(answer["error"].splitlines()[0].removeprefix("RuntimeError: ")[:160])
    return answer
