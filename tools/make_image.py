#!/usr/bin/env python3
"""Makes the container image of a build, without a container tool: FOLDER/penstock-VERSION-ARCH.image.tar.

Usage: tools/make_image.py [--build build] [--out build-image] [--load]

From scratch: the program, the libraries that it loads, certificates of authorities, one user (10001), /tmp and a
folder for models; no shell. `docker load -i`, `podman load -i` and `ctr images import` take the file. --load hands it
to buildah, so that `podman images` lists it. The same build gives the same bytes: files are sorted, and their time is
that of SOURCE_DATE_EPOCH, or else of the commit. Beside it goes FOLDER/penstock-VERSION-ARCH.tar, program and libraries
for a machine without containers: unpack it anywhere, start bin/penstock.
"""

import argparse
import hashlib
import io
import json
import pathlib
import platform
import re
import shutil
import sys
import tarfile
import time

from packing import ROOT, Failure, licenses, run, shipped_parts, source_time, stripped, version

CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER = 10001
CACHE = "var/cache/penstock"
# What every Linux system has. The image has them from here, the tar leaves them to the system.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s))\.so.*")
PROBE = ["CMD", "/usr/bin/penstock", "health"]
SECOND = 1_000_000_000


def libraries(build):
    """Paths of the libraries that the program loads, but for its own."""
    told = run("ldd", build / "penstock")
    paths = set(re.findall(r"(/\S+) \(0x", told))
    return sorted(path for path in paths if not pathlib.Path(path).name.startswith("libpenstock"))


def put(tree, path, data, mode=0o644):
    tree[path] = (data, mode)


def program_files(build, prefix, library_folder):
    """The program, its library and the list of its parts; by path."""
    tree = {}
    put(tree, f"{prefix}bin/penstock", stripped(build / "penstock"), 0o755)
    put(tree, f"{library_folder}/libpenstock.so.1", stripped(build / "libpenstock.so.1"))
    for name, data in licenses(build).items():
        put(tree, f"{prefix}share/penstock/licenses/{name}", data)
    put(tree, f"{prefix}share/penstock/sbom.cdx.json", shipped_parts(build).encode())
    return tree


def image_files(build):
    """All files of the image."""
    found = libraries(build)
    # Where the loader looks by itself: the program's own path is not known without /proc.
    folder = next(pathlib.Path(path).parent for path in found if pathlib.Path(path).name.startswith("libc.so"))
    tree = program_files(build, "usr/", str(folder).lstrip("/"))
    for path in found:
        put(tree, path.lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)
    if not CERTIFICATES.is_file():
        raise Failure(f"there is no {CERTIFICATES}: install ca-certificates")
    put(tree, str(CERTIFICATES).lstrip("/"), CERTIFICATES.read_bytes())
    put(
        tree,
        "etc/passwd",
        f"root:x:0:0:root:/:/sbin/nologin\npenstock:x:{USER}:{USER}::/{CACHE}:/sbin/nologin\n".encode(),
    )
    put(tree, "etc/group", f"root:x:0:\npenstock:x:{USER}:\n".encode())
    put(tree, "etc/nsswitch.conf", b"hosts: files dns\n")
    return tree


def tar_files(build):
    """All files of the tar: libraries that a system may lack lie beside ours."""
    tree = program_files(build, "", "lib/penstock")
    for path in libraries(build):
        if not SYSTEM.fullmatch(pathlib.Path(path).name):
            put(tree, f"lib/penstock/{pathlib.Path(path).name}", pathlib.Path(path).read_bytes(), 0o755)
    for name in ("README.md", "CHANGELOG.md"):
        put(tree, name, (ROOT / name).read_bytes())
    return tree


def entry(name, seconds, kind=tarfile.REGTYPE, mode=0o644, size=0, owner=0):
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.size, made.mtime = kind, mode, size, seconds
    made.uid = made.gid = owner
    return made


def pack(tree, seconds, top="", folders=()):
    """A tar whose bytes the files alone decide. `folders`: more of them, as (path, mode, owner)."""
    parents = {str(parent) for path in tree for parent in pathlib.PurePosixPath(path).parents if str(parent) != "."}
    more = {path: (mode, owner) for path, mode, owner in folders}
    for path in more:
        parents |= {str(parent) for parent in pathlib.PurePosixPath(path).parents if str(parent) != "."}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted({*tree, *parents, *more}):
            if path in tree:
                data, mode = tree[path]
                archive.addfile(entry(top + path, seconds, mode=mode, size=len(data)), io.BytesIO(data))
            else:
                mode, owner = more.get(path, (0o755, 0))
                archive.addfile(entry(top + path, seconds, tarfile.DIRTYPE, mode, owner=owner))
    return out.getvalue()


def config_of(layer, seconds):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    settings = {
        "User": f"{USER}:{USER}",
        "ExposedPorts": {"8080/tcp": {}},
        "Env": [
            "PATH=/usr/bin",
            f"HOME=/{CACHE}",
            f"SSL_CERT_FILE={CERTIFICATES}",
            "PENSTOCK_HOST=0.0.0.0",
            "PENSTOCK_LOG_FORMAT=json",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ],
        "Entrypoint": ["/usr/bin/penstock", "serve"],
        "Volumes": {f"/{CACHE}": {}},
        "WorkingDir": f"/{CACHE}",
        "Healthcheck": {"Test": PROBE, "Interval": 10 * SECOND, "Timeout": 3 * SECOND, "StartPeriod": 300 * SECOND},
        "Labels": {"org.opencontainers.image.title": "penstock", "org.opencontainers.image.licenses": "Apache-2.0"},
    }
    return {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "tools/make_image.py"}],
    }


def image(build, seconds):
    """The image as `docker save` would write it."""
    layer = pack(image_files(build), seconds, folders=[("tmp", 0o1777, 0), (CACHE, 0o755, USER)])
    config = json.dumps(config_of(layer, seconds), sort_keys=True).encode()
    name = hashlib.sha256(config).hexdigest()
    folder = hashlib.sha256(layer).hexdigest()
    manifest = [
        {"Config": f"{name}.json", "RepoTags": [f"localhost/penstock:{version()}"], "Layers": [f"{folder}/layer.tar"]}
    ]
    return pack(
        {
            f"{name}.json": (config, 0o644),
            f"{folder}/layer.tar": (layer, 0o644),
            "manifest.json": (json.dumps(manifest).encode(), 0o644),
        },
        seconds,
    ), name


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build-image", help="folder for the files")
    parser.add_argument("--load", action="store_true", help="hand the image to buildah, where it is installed")
    options = parser.parse_args()
    stem = f"penstock-{version()}-{platform.machine()}"
    try:
        seconds = source_time()
        options.out.mkdir(parents=True, exist_ok=True)
        data, identity = image(options.build, seconds)
        target = options.out / f"{stem}.image.tar"
        target.write_bytes(data)
        plain = options.out / f"{stem}.tar"
        plain.write_bytes(pack(tar_files(options.build), seconds, top=f"penstock-{version()}/"))
        for path in (target, plain):
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
        print(f"image id {identity}")
        if options.load:
            if shutil.which("buildah") is None:
                raise Failure("there is no buildah to load the image; docker load -i takes the file")
            run("buildah", "pull", "-q", f"docker-archive:{target}")
    except Failure as failure:
        print(f"make_image: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
