#!/usr/bin/env python3
"""Writes tests/golden/config_keys.tsv: which keys of config.json transformers knows for each decoder.

The configuration classes are read as source, not run, so neither torch nor transformers is needed:
only their wheels, which are zip files. A line has a family, a key, and what each version takes where
the key is absent, as JSON; "-": that version has no such key, "?": it is computed.

Usage:   pip download --no-deps transformers==4.57.1 transformers==5.23.0 (one by one)
         python tools/make_config_keys.py transformers-4.57.1-*.whl transformers-5.23.0-*.whl
"""

import argparse
import ast
import json
import re
import zipfile
from pathlib import Path

# family: file and class.
FAMILIES = {
    "llama": ("llama", "LlamaConfig"), "mistral": ("mistral", "MistralConfig"),
    "granite": ("granite", "GraniteConfig"), "smollm3": ("smollm3", "SmolLM3Config"),
    "qwen2": ("qwen2", "Qwen2Config"), "qwen3": ("qwen3", "Qwen3Config"),
    "gemma2": ("gemma2", "Gemma2Config"), "gemma3_text": ("gemma3", "Gemma3TextConfig"),
    "phi3": ("phi3", "Phi3Config"),
}
# Values of annotated class attributes that are not settings.
NO_SETTINGS = {"model_type", "keys_to_ignore_at_inference", "base_model_tp_plan", "base_model_pp_plan",
               "base_model_fsdp_plan", "base_model_ep_plan", "default_theta", "attribute_map", "base_config_key",
               "has_no_defaults_at_init", "sub_configs"}


def value_of(node):
    """The default as JSON; a call such as interval(...)(default=x) has it as a keyword."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "default":
                return value_of(keyword.value)
        return "?"
    try:
        return json.dumps(eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}))
    except Exception:
        return "?"


def popped(node):
    """Keys that a function takes from its **kwargs."""
    for call in ast.walk(node):
        if (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("get", "pop")
                and isinstance(call.func.value, ast.Name) and call.func.value.id == "kwargs" and call.args
                and isinstance(call.args[0], ast.Constant)):
            yield call.args[0].value, value_of(call.args[1]) if len(call.args) > 1 else "null"


def keys_of(cls):
    keys = {}
    for node in cls.body:
        named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        if named and "ClassVar" not in ast.unparse(node.annotation):
            keys[node.target.id] = value_of(node.value)
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "__init__":
            names = [argument.arg for argument in node.args.args][1:]
            defaults = ["?"] * (len(names) - len(node.args.defaults)) + [value_of(d) for d in node.args.defaults]
            keys.update(zip(names, defaults))
            keys.update((a.arg, value_of(d) if d else "?") for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults))
        if node.name in ("__init__", "__post_init__", "convert_rope_params_to_dict"):
            for key, value in popped(node):
                keys.setdefault(key, value)
    return {key: value for key, value in keys.items() if key not in NO_SETTINGS and not key.startswith("_")}


def class_named(wheel, path, name):
    tree = ast.parse(wheel.read("transformers/" + path).decode())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return keys_of(node)
    return {}


def version_keys(path):
    """family -> key -> default, with what all configurations share."""
    with zipfile.ZipFile(path) as wheel:
        common = {**class_named(wheel, "configuration_utils.py", "PretrainedConfig"),
                  **class_named(wheel, "configuration_utils.py", "PreTrainedConfig"),
                  **class_named(wheel, "modeling_rope_utils.py", "RotaryEmbeddingConfigMixin")}
        return {family: {**common, **class_named(wheel, f"models/{name}/configuration_{name}.py", cls)}
                for family, (name, cls) in FAMILIES.items()}


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels", nargs="+")
    parser.add_argument("--out", default=str(root / "tests/golden/config_keys.tsv"))
    options = parser.parse_args()
    versions = [re.search(r"transformers-([0-9.]+)-", wheel).group(1) for wheel in options.wheels]
    tables = [version_keys(wheel) for wheel in options.wheels]
    lines = ["# family\tkey\t" + "\t".join("transformers " + version for version in versions)]
    for family in FAMILIES:
        for key in sorted(set().union(*(table[family] for table in tables))):
            lines.append("\t".join([family, key] + [table[family].get(key, "-") for table in tables]))
    Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
