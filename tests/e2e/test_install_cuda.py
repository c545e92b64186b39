"""tools/install_cuda.py with wheels made here: nothing is downloaded."""

import hashlib
import pathlib
import platform
import subprocess
import sys
import zipfile

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
FILES = {
    "nvidia_cuda_nvcc": ("bin/nvcc", "bin/nvcc.profile", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink"),
    "nvidia_nvvm": ("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc", "lib/libnvvm.so.4"),
    "nvidia_cuda_crt": ("include/crt/host_config.h",),
    "nvidia_cuda_runtime": ("include/cuda_runtime.h", "lib/libcudart.so.13"),
}


@pytest.fixture
def wheels(tmp_path):
    """A folder of wheels, and the table of packages that has their digests."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    table = []
    for name, files in FILES.items():
        path = folder / f"{name}-1.2-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                archive.writestr(f"nvidia/cu13/{file}", file)
            archive.writestr(f"{name}-1.2.dist-info/licenses/License.txt", "terms")
        table.append((name.replace("_", "-"), "1.2", hashlib.sha256(path.read_bytes()).hexdigest()))
    return folder, table


def install(folder, wheels, table):
    code = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import install_cuda as script;"
        f"script.PACKAGES = {{{platform.machine()!r}: {table!r}}}; script.main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "--folder", folder, "--wheels", wheels], capture_output=True, text=True, timeout=60
    )


def test_takes_the_compiler_alone_and_prints_the_folder(wheels, tmp_path):
    folder = tmp_path / "cuda"
    done = install(folder, *wheels)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder)
    assert (folder / "bin/nvcc").stat().st_mode & 0o777 == 0o755
    assert (folder / "nvvm/bin/cicc").stat().st_mode & 0o777 == 0o755
    assert (folder / "licenses/nvidia_nvvm-License.txt").read_text() == "terms"
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert not {"bin/nvlink", "lib/libnvvm.so.4", "lib/libcudart.so.13"} & kept
    before = (folder / "bin/nvcc").stat().st_ino
    assert install(folder, *wheels).returncode == 0
    assert (folder / "bin/nvcc").stat().st_ino == before, "running it again changes nothing"


def test_another_digest_is_refused(wheels, tmp_path):
    folder, table = wheels
    done = install(tmp_path / "cuda", folder, [*table[:3], (*table[3][:2], "0" * 64)])
    assert done.returncode == 1 and "expected 000" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "cuda").exists()


def test_a_missing_wheel_or_file_is_named(wheels, tmp_path):
    folder, table = wheels
    done = install(tmp_path / "cuda", folder, table[:3])
    assert done.returncode == 1 and "have no include/cuda_runtime.h" in done.stderr
    next(folder.glob("nvidia_nvvm*")).unlink()
    done = install(tmp_path / "cuda", folder, table)
    assert done.returncode == 1 and "0 wheels of nvidia-nvvm 1.2" in done.stderr
    assert not (tmp_path / "cuda").exists()
