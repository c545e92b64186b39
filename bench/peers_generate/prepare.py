#!/usr/bin/env python3
"""Makes the environment of `make bench-generate-peers` outside the tree, as ../peers/install.py does.

  prepare.py [CACHE_FOLDER]

Fills CACHE_FOLDER/generate-venv and prints its python. Standard library only.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import install


def main():
    cache = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else install.default_cache()
    folder = cache / "generate-venv"
    missing = install.install(folder, HERE / "requirements.txt")
    missing |= install.install_llama(folder)
    (folder / "missing.json").write_text(json.dumps(missing, indent=1))
    print(folder / "bin/python")


if __name__ == "__main__":
    main()
