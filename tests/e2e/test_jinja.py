"""Chat templates against Python's jinja2, as tests/parity/jinja_parity.py compares them: a small part."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jinja2", reason="NO JINJA2: pip install jinja2")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("PENSTOCK_JINJA_PARITY", ROOT / "build" / "tests" / "jinja_parity"))


@pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason=f"NO PROGRAM at {PROGRAM}: build jinja_parity")
@pytest.mark.parametrize("part", [["--only", "features"], ["--only", "random", "--random", "3000"]])
def test_templates_render_as_in_jinja2(part):
    script = ROOT / "tests" / "parity" / "jinja_parity.py"
    done = subprocess.run([sys.executable, script, "--program", PROGRAM, *part], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
