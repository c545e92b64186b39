"""`make install`, and the Debian package as far as it goes without a system of its own: `make
check-deb` installs and runs it in one."""
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, binary, clean_environment

NEEDS_DEBIAN = pytest.mark.skipif(not all(map(shutil.which, ("dpkg-buildpackage", "dh"))),
                                  reason="tools/install_deps.sh package installs what it needs")


def install(action, destdir, expected=0, **variables):
    done = subprocess.run([ROOT / "packaging/install.sh", action, binary()], capture_output=True, text=True, timeout=120,
                          env=clean_environment(**{"DESTDIR": str(destdir), **variables}))
    assert done.returncode == expected, done.stderr
    return done.stderr


def files(folder):
    return {"/" + str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def destdir(tmp_path):
    return tmp_path / "a folder's name"


@pytest.mark.parametrize("variables, prefix, etc, units", [
    ({}, "/usr/local", "/usr/local/etc", "/usr/local/lib/systemd/system"),
    ({"PREFIX": "/usr"}, "/usr", "/etc", "/usr/lib/systemd/system"),
    ({"prefix": "/opt/penstock/", "sysconfdir": "/etc/opt", "unitdir": "/etc/systemd/system"},
     "/opt/penstock", "/etc/opt", "/etc/systemd/system")])
def test_installed_files_are_where_the_variables_say(destdir, variables, prefix, etc, units):
    install("install", destdir, **variables)
    there = files(destdir)
    assert {f"{prefix}/bin/penstock", f"{prefix}/lib/penstock/libpenstock.so.1", f"{prefix}/include/penstock.h",
            f"{prefix}/lib/sysusers.d/penstock.conf", f"{etc}/penstock/penstock.toml",
            f"{units}/penstock.service", f"{prefix}/share/doc/penstock/docs/OPERATING.md",
            f"{prefix}/share/doc/penstock/docs/CHAT.md",
            f"{prefix}/share/doc/penstock/examples/penstock.toml", f"{prefix}/share/penstock/install_openvino.py",
            f"{prefix}/share/bash-completion/completions/penstock", f"{prefix}/share/zsh/site-functions/_penstock",
            f"{prefix}/share/fish/vendor_completions.d/penstock.fish"} <= there
    program = destdir / f"{prefix[1:]}/bin/penstock"
    assert program.stat().st_mode & 0o777 == 0o755
    assert (destdir / f"{etc[1:]}/penstock/penstock.toml").stat().st_mode & 0o777 == 0o644
    unit = (destdir / f"{units[1:]}/penstock.service").read_text()
    assert f"ExecStart={prefix}/bin/penstock serve --config {etc}/penstock/penstock.toml\n" in unit
    # OpenVINO makes code at run time: a unit that forbids it can serve no tensor model.
    assert {line for line in unit.splitlines() if line.startswith("MemoryDenyWriteExecute")} <= {
        "MemoryDenyWriteExecute=no"}
    installer = subprocess.run([destdir / f"{prefix[1:]}/share/penstock/install_openvino.py", "--help"],
                               capture_output=True, text=True, timeout=60)
    assert installer.returncode == 0 and "--system" in installer.stdout, installer.stderr
    pages = ("", "-serve", "-embed", "-bench", "-bench-http")
    assert {f"{prefix}/share/man/man1/penstock{command}.1" for command in pages} <= there
    install("uninstall", destdir, **variables)
    assert not files(destdir)


def test_a_config_that_is_there_stays(destdir):
    install("install", destdir)
    config = destdir / "usr/local/etc/penstock/penstock.toml"
    config.write_text("port = 1\n")
    assert "kept" in install("install", destdir)
    assert config.read_text() == "port = 1\n"
    assert "kept" in install("uninstall", destdir)
    assert files(destdir) == {"/usr/local/etc/penstock/penstock.toml"}


def test_make_hands_its_variables_over(destdir):
    """As typed; make -o release does not build what the test was given."""
    path = pathlib.Path(binary())
    environment = {k: v for k, v in clean_environment().items() if not k.startswith("MAKE")}
    for target, there in (("install", True), ("install-strip", True), ("uninstall", False)):
        variables = [f"BUILD={path.parent}", f"DESTDIR={destdir}", "PREFIX=/opt/p", "bindir=/opt/p/sbin"]
        done = subprocess.run(["make", "-o", "release", target, *variables], cwd=ROOT, env=environment,
                              capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert (destdir / "opt/p/sbin/penstock").exists() == there
        if target == "install-strip":
            library = pathlib.Path("libpenstock.so.1")
            assert (destdir / "opt/p/lib/penstock" / library).stat().st_size < (path.parent / library).stat().st_size


def test_cmake_installs_the_same(destdir):
    build = pathlib.Path(binary()).parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("the program is not in the folder of a build")
    for words, etc in ((["--prefix", "/usr", "--strip"], "etc"), ([], "usr/local/etc")):
        done = subprocess.run(["cmake", "--install", build, *words], env=clean_environment(DESTDIR=str(destdir)),
                              capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert (destdir / etc / "penstock/penstock.toml").exists()
    stripped, whole = (destdir / folder / "lib/penstock/libpenstock.so.1" for folder in ("usr", "usr/local"))
    assert stripped.stat().st_size < whole.stat().st_size
    assert "=/usr/bin/penstock " in (destdir / "usr/lib/systemd/system/penstock.service").read_text()


def test_a_program_of_another_machine_is_installed(destdir, tmp_path):
    program = tmp_path / "penstock"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    (tmp_path / "libpenstock.so.1").write_bytes(program.read_bytes())
    done = subprocess.run([ROOT / "packaging/install.sh", "install", program], capture_output=True, text=True,
                          timeout=60, env=clean_environment(DESTDIR=str(destdir)))
    assert done.returncode == 0 and "does not run here" in done.stderr, done.stderr
    assert (destdir / "usr/local/bin/penstock").exists() and not (destdir / "usr/local/share/man").exists()


@pytest.mark.parametrize("prefix", ["relative", "/with a blank", "/a|b", "/a&b"])
def test_a_prefix_that_a_unit_cannot_name_is_refused(destdir, prefix):
    assert prefix in install("install", destdir, expected=2, PREFIX=prefix)
    assert not destdir.exists()


def test_the_shipped_config_is_taken(tmp_path):
    path = ROOT / "packaging/local.toml"
    done = subprocess.run([binary(), "serve", "--config", path, "--print-config"], capture_output=True, text=True,
                          timeout=20, env=clean_environment())
    assert done.returncode == 0, done.stderr
    assert 'host = "127.0.0.1"' in done.stdout


def test_the_program_does_not_say_where_it_was_built():
    for file in (pathlib.Path(binary()), pathlib.Path(binary()).parent / "libpenstock.so.1"):
        program = file.read_bytes()
        if b".debug_info" in program:
            pytest.skip("built for a debugger")
        assert (str(ROOT) + "/").encode() not in program


@NEEDS_DEBIAN
def test_the_debian_package(tmp_path):
    made = []
    for name in ("once", "again"):
        done = subprocess.run([ROOT / "tools/make_deb.sh", binary(), tmp_path / name], capture_output=True, text=True,
                              timeout=300, env=clean_environment())
        assert done.returncode == 0, done.stderr
        made.append(pathlib.Path(done.stdout.strip()))
    assert made[0].read_bytes() == made[1].read_bytes(), "the same program gives the same package"

    field = lambda name: subprocess.run(["dpkg-deb", "-f", made[0], name], capture_output=True, text=True).stdout.strip()
    version = subprocess.run([binary(), "--version"], capture_output=True, text=True).stdout.split()[1]
    assert made[0].name == f"penstock_{version}_{field('Architecture')}.deb"
    linked = set(re.findall(r"lib(nghttp2|simdjson|ssl)", field("Depends")))
    assert len(linked) == 3, field("Depends")
    unlinked = set(re.findall(r"lib(curl|edit|fmt|hiredis|spdlog|tomlplusplus|zstd)", field("Depends")))
    assert not unlinked, field("Depends")

    listed = subprocess.run(["dpkg-deb", "-c", made[0]], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in listed.splitlines())
    paths = {line.split()[5] for line in listed.splitlines()}
    assert {"./usr/bin/penstock", "./usr/lib/penstock/libpenstock.so.1", "./lib/systemd/system/penstock.service", "./etc/penstock/penstock.toml",
            "./usr/lib/sysusers.d/penstock.conf", "./usr/share/man/man1/penstock-serve.1.gz",
            "./usr/share/bash-completion/completions/penstock", "./usr/share/zsh/vendor-completions/_penstock",
            "./usr/share/fish/vendor_completions.d/penstock.fish",
            "./usr/share/penstock/install_openvino.py", "./usr/share/penstock/model_fetch.py", "./usr/share/penstock/package_folder.py",
            "./usr/share/doc/penstock/copyright", "./usr/share/penstock/sbom.cdx.json", "./var/cache/penstock/"} <= paths, paths
    top = {path.split("/")[1] for path in paths} - {""}
    assert top == {"etc", "lib", "usr", "var"}
    subprocess.run(["dpkg-deb", "-e", made[0], tmp_path / "control"], check=True)
    assert (tmp_path / "control/conffiles").read_text() == "/etc/penstock/penstock.toml\n"

    if shutil.which("lintian"):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", made[0]],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
