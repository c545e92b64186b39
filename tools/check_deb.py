#!/usr/bin/env python3
"""Checks a Debian package of Penstock in a new Debian that is made for it and removed again.

lintian finds nothing; apt installs the package; the unit's own command line, user and environment
start the server, which tells a service manager that it is ready and answers a first embedding;
ExecReload reads a new key; SIGTERM ends it with 0; an upgrade keeps a config that was changed; a
purge leaves nothing but the locked user; the package can be installed again. Where systemd-nspawn
can start a system, systemd itself starts, reloads, upgrades and stops the service, too.

Usage: tools/check_deb.py PACKAGE.deb     (root; tools/install_deps.sh check-deb)
The new Debian has the release and the mirrors of this machine's apt.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/golden/models/bert_mean_normalize"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIG = "etc/penstock/penstock.toml"
# Run by the systemd of the new Debian; check_boot reads its output.
BOOT = """#!/bin/bash
exec > /srv/told 2>&1
post() {
  exec 3<> /dev/tcp/127.0.0.1/PORT
  body='{"input": "That is a happy person"}'
  printf 'POST /v1/embeddings HTTP/1.0\\r\\nX-API-Key: first\\r\\nContent-Type: application/json\\r\\n' >&3
  printf 'Content-Length: %d\\r\\n\\r\\n%s' ${#body} "$body" >&3
  head -n 1 <&3 | tr -d '\\r'
}
show() { systemctl show --property="$1" penstock; }
systemctl enable --now penstock; show ActiveState; post
systemctl reload penstock; echo "reload $?"; post
before=$(show MainPID)
apt-get -qq -y --reinstall install /srv/penstock.deb
[[ $(show MainPID) == "$before" ]] || echo 'another process'
show ActiveState; post
systemctl stop penstock; show Result
echo 'prot = 1' >> /CONFIG
systemctl start penstock; sleep 1; show Result; show ExecMainStatus; show NRestarts
echo end
systemctl poweroff --force
"""
TOLD = ["ActiveState=active", "HTTP/1.1 200 OK", "reload 0", "HTTP/1.1 200 OK", "another process", "ActiveState=active",
        "HTTP/1.1 200 OK", "Result=success", "Result=exit-code", "ExecMainStatus=2", "NRestarts=0", "end"]
UNITS = ("usr/lib/systemd/system/penstock.service", "lib/systemd/system/penstock.service")
# Files of the package managers, the linker and the user database; all others must be as before.
FOREIGN = re.compile(r"/(proc|sys|dev|run|tmp)/|/var/lib/(dpkg|apt|systemd)/|/var/cache/(apt|debconf|ldconfig)/"
                     r"|/var/log/|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/etc/ld.so.cache$|/srv/")


def say(text):
    print(f"check_deb: {text}", flush=True)


def check(condition, what):
    if not condition:
        raise SystemExit(f"check_deb: FAILED: {what}")
    say(what)


class Debian:
    """A folder with a minimal Debian; commands run in it with chroot."""

    def __init__(self, root):
        self.root = root
        codename = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)[1]
        told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                               "Created-By: Packages"], check=True, capture_output=True, text=True).stdout
        sources = [line.split() for line in dict.fromkeys(told.splitlines())]
        sources = [s for s in sources if s[1].split("-")[0] == codename]
        mirror = next(s[0] for s in sources if s[1] == codename and s[2] == "main")
        say(f"debootstrap {codename}")
        done = subprocess.run(["debootstrap", "--variant=minbase", codename, root, mirror], capture_output=True, text=True)
        check(done.returncode == 0, "a new Debian" + ("" if done.returncode == 0 else done.stdout[-2000:] + done.stderr))
        apt = root / "etc/apt"
        (apt / "sources.list").write_text("".join(f"deb {' '.join(s)}\n" for s in sources))
        settings = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True).stdout
        (apt / "apt.conf.d/90acquire").write_text(
            "".join(f"{line}\n" for line in settings.splitlines() if "IndexTargets" not in line))
        for name in ("hosts", "resolv.conf"):
            shutil.copy(f"/etc/{name}", root / "etc" / name)
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        self.run("apt-get", "-qq", "update")

    def run(self, *words, expected=0):
        done = subprocess.run(["chroot", self.root, *words], capture_output=True, text=True, timeout=600,
                              stdin=subprocess.DEVNULL,
                              env={"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})
        if done.returncode != expected:
            raise SystemExit(f"check_deb: FAILED: {' '.join(words)}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr}")
        return done.stdout

    def apt(self, *words):
        return self.run("apt-get", "-qq", "-y", "--no-install-recommends", *words)

    def files(self):
        """{file: kind, mode, owner, size} of each file but those that others write."""
        listed = self.run("find", "/", "-xdev", "-printf", "%p\\t%y %m %u %g %s\\n")
        lines = dict(line.split("\t") for line in listed.splitlines())
        return {path: what if what[0] == "f" else what.rsplit(" ", 1)[0]
                for path, what in lines.items() if not FOREIGN.search(path + ("/" if what[0] == "d" else ""))}


class Service:
    """The server as the installed unit starts it: its words, its user, its environment, no more."""

    def __init__(self, debian):
        self.debian = debian
        path = next(debian.root / name for name in UNITS if (debian.root / name).is_file())
        self.unit = dict(re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE))
        (debian.root / "run/notify").unlink(missing_ok=True)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(debian.root / "run/notify"))
        (debian.root / "run/notify").chmod(0o777)
        self.manager.settimeout(60)
        self.log = open(debian.root / "tmp/log", "w+")
        name, value = self.unit["Environment"].split("=", 1)
        self.process = subprocess.Popen(
            ["chroot", debian.root, "setpriv", f"--reuid={self.unit['User']}", f"--regid={self.unit['Group']}",
             "--init-groups", "--no-new-privs", *shlex.split(self.unit["ExecStart"])],
            env={"PATH": PATH, "NOTIFY_SOCKET": "/run/notify", name: value}, stdout=self.log, stderr=self.log)
        self.told("READY=1")
        port = re.search(r"^port = (\d+)", (debian.root / CONFIG).read_text(), re.MULTILINE)[1]
        self.url = f"http://127.0.0.1:{port}"

    def told(self, word):
        try:
            got = self.manager.recv(4096).decode()
        except TimeoutError:
            got = "nothing: " + pathlib.Path(self.log.name).read_text()
        check(got == word, f"the service manager is told {word}" + ("" if got == word else f", not {got}"))

    def ask(self, route, body=None, key="first"):
        request = urllib.request.Request(self.url + route, json.dumps(body).encode() if body else None,
                                         {"X-API-Key": key, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, None

    def reload(self):
        self.debian.run(*shlex.split(self.unit["ExecReload"].replace("$MAINPID", str(self.process.pid))))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        check(code == 0, f"SIGTERM ends it with 0 (got {code})")
        self.told("STOPPING=1")
        self.manager.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configure(debian):
    """What an administrator does after the installation."""
    shutil.copytree(MODEL, debian.root / "srv/model", dirs_exist_ok=True)
    config = debian.root / CONFIG
    text = re.sub(r"^model = .*$", 'model = ["embed=/srv/model"]', config.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^port = .*$", f"port = {free_port()}", text, flags=re.MULTILINE)
    config.write_text(text + 'api-key-file = ["/etc/penstock/api-keys"]\ndtype = ["f32"]\n')
    return config.read_text()


def check_service(debian):
    keys = debian.root / "etc/penstock/api-keys"
    keys.write_text("first\n")
    debian.run("chgrp", "penstock", "/etc/penstock/api-keys")
    keys.chmod(0o640)
    service = Service(debian)
    check(service.ask("/readyz")[0] == 200, "/readyz says 200")
    golden = json.loads((MODEL / "expected.json").read_text())["texts"][0]
    status, answer = service.ask("/v1/embeddings", {"input": golden["text"]})
    vector = answer["data"][0]["embedding"]
    far = max(abs(a - b) for a, b in zip(vector, golden["embedding"], strict=True))
    check(status == 200 and far < 1e-4, "a first embedding is right")
    check(service.ask("/info", key="second")[0] == 401, "a key that is not there is refused")
    keys.write_text("first\nsecond\n")
    service.reload()
    deadline = time.monotonic() + 10
    while service.ask("/info", key="second")[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    check(service.ask("/info", key="second")[0] == 200, "ExecReload reads a key that was added")
    service.stop()


def check_installed(debian):
    check(debian.run("stat", "-c", "%a %U:%G", "/etc/penstock", "/var/cache/penstock").split("\n")[:2] ==
          ["750 root:penstock", "750 penstock:penstock"], "its folders are its own")
    user = debian.run("getent", "passwd", "penstock").strip()
    check(user.endswith(":/var/cache/penstock:/usr/sbin/nologin"), "the user cannot log in")
    enabled = debian.run("systemctl", "is-enabled", "penstock", expected=1).strip()
    check(enabled == "disabled", "the service waits for its administrator")
    debian.run("penstock", "serve", "--config", "/" + CONFIG, "--print-config")
    debian.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "penstock.service")
    score = debian.run("systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", "penstock.service")
    say(score.strip().splitlines()[-1].replace("\u2192", "").strip())


def check_boot(debian):
    """By systemd itself: the unit's hardening, its reload and restart, and what the package does with it."""
    if not shutil.which("systemd-nspawn"):
        say("systemd-nspawn is not here: the service was not started by systemd")
        return
    port = re.search(r"^port = (\d+)", (debian.root / CONFIG).read_text(), re.MULTILINE)[1]
    script = debian.root / "srv/boot.sh"
    script.write_text(BOOT.replace("PORT", port).replace("CONFIG", CONFIG))
    script.chmod(0o755)
    units = debian.root / "etc/systemd/system"
    (units / "check.service").write_text("[Service]\nType=simple\nExecStart=/srv/boot.sh\n")
    (units / "default.target.wants").mkdir(exist_ok=True)
    (units / "default.target.wants/check.service").symlink_to("../check.service")
    told = debian.root / "srv/told"
    subprocess.run(["umount", debian.root / "proc"], check=True)  # systemd mounts its own
    try:
        done = subprocess.run(["systemd-nspawn", "--quiet", f"--directory={debian.root}", "--boot", "--register=no",
                               "--keep-unit", "--console=pipe"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        check(False, "the system ends: " + (told.read_text() if told.exists() else ""))
    if not told.exists():
        say("systemd-nspawn cannot start a system here: " + done.stderr.decode(errors="replace")[-500:])
        return
    lines = [line for line in told.read_text().splitlines() if line in TOLD]
    check(lines == TOLD, "systemd starts, reloads, upgrades and stops it; mistakes in the settings are not tried again"
          + ("" if lines == TOLD else ":\n" + told.read_text()))


def next_version(package, folder):
    """The package with a higher version and another config of its own."""
    tree = folder / "next"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+next", control.read_text(), flags=re.MULTILINE))
    with open(tree / CONFIG, "a") as config:
        config.write("# A line of the next version.\n")
    target = folder / "next.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, target], check=True, capture_output=True)
    return target


def check_package(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package], capture_output=True, text=True)
    check(done.returncode == 0, "lintian has no errors and no warnings" + done.stdout + done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file() and not path.is_symlink() and str(ROOT).encode() in path.read_bytes():
                check(False, f"{path.relative_to(folder)} names the folder it was built in")


def check_in(debian, package, folder):
    shutil.copy(package, debian.root / "srv/penstock.deb")
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, capture_output=True, text=True).stdout
    debian.apt("satisfy", depends.strip())
    before = debian.files()

    debian.apt("install", "/srv/penstock.deb")
    say("installed")
    check_installed(debian)
    written = configure(debian)
    check_service(debian)

    shutil.copy(next_version(package, folder), debian.root / "srv/next.deb")
    debian.apt("-o", "Dpkg::Options::=--force-confold", "install", "/srv/next.deb")
    check("+next" in debian.run("dpkg-query", "-W", "penstock"), "upgraded")
    check((debian.root / CONFIG).read_text() == written, "the upgrade kept the config that was changed")
    check_service(debian)

    (debian.root / "var/cache/penstock/model").write_text("downloaded")
    debian.apt("remove", "penstock")
    check((debian.root / CONFIG).read_text() == written and (debian.root / "var/cache/penstock/model").exists(),
          "a removal keeps config, keys and models")
    debian.apt("purge", "penstock")
    after = debian.files()
    differing = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    check(not differing, f"a purge leaves nothing behind {differing or ''}")

    debian.apt("install", "/srv/penstock.deb")
    check_installed(debian)
    configure(debian)
    check_service(debian)
    check_boot(debian)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("check_deb: chroot and debootstrap need root")
    if not args.inside:
        # Namespaces of its own: mounts and processes end with it.
        os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                              sys.executable, __file__, "--inside", args.package.resolve()])
    check_package(args.package)
    with tempfile.TemporaryDirectory(prefix="penstock-deb-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        debian = Debian(folder / "debian")
        try:
            check_in(debian, args.package, folder)
        finally:
            if os.path.ismount(debian.root / "proc"):
                subprocess.run(["umount", debian.root / "proc"], check=False)
    say("passed")


if __name__ == "__main__":
    main()
