"""tools/audit.py: the versions of what the program links, against lists of vulnerabilities that are made up here."""
import json
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, binary, clean_environment

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="dpkg IS NOT HERE: this is not a Debian system")
AUDIT = ROOT / "tools" / "audit.py"


def audit(*args):
    return subprocess.run([sys.executable, AUDIT, "--program", binary(), *map(str, args)], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture(scope="module")
def parts():
    done = audit("--sbom", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def linked_version(parts, source):
    """The version of a source package, as its binary packages have it."""
    for part in parts["components"]:
        properties = {each["name"]: each["value"] for each in part.get("properties", [])}
        if properties.get("debian:source") == source:
            return properties["debian:source-version"]
    raise AssertionError(source)


@pytest.fixture
def listed(tmp_path):
    """listed({...}, ...) is a file with these advisories."""
    def write(*entries):
        file = tmp_path / "advisories.toml"
        file.write_text("".join("[[advisory]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
                                for entry in entries))
        return file
    return write


def entry(fixed, package="openssl", **more):
    return {"id": "CVE-2099-1", "package": package, "fixed": fixed, "source": "https://example.org/1", **more}


def test_the_parts_are_those_that_the_program_links(parts):
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.5")
    names = {part["name"]: part for part in parts["components"]}
    assert {"libc6", "libssl3", "libnghttp2-14", "libsimdjson14", "libcli11-dev", "openvino", "xgrammar"} <= names.keys()
    for part in parts["components"]:
        assert part["version"] and part["purl"].endswith(("?arch=amd64", "?arch=arm64", "?arch=all", part["version"])), part
    assert names["libssl3"]["purl"].startswith("pkg:deb/debian/libssl3@")
    assert names["openvino"]["purl"].startswith("pkg:pypi/openvino@")
    assert names["protobuf"]["purl"].startswith("pkg:github/protocolbuffers/protobuf@v") or "libprotobuf32" in names
    assert names["openvino"]["scope"] == "optional" and names["pytest"]["scope"] == "excluded"
    needed = parts["dependencies"][0]["dependsOn"]
    assert names["libssl3"]["bom-ref"] in needed and names["pytest"]["bom-ref"] not in needed
    assert audit("--sbom", "-").stdout == json.dumps(parts, indent=2) + "\n"


def test_a_version_below_the_fixed_one_fails(parts, listed):
    version = linked_version(parts, "openssl")
    done = audit("--advisories", listed(entry("999:1")))
    assert done.returncode == 1
    assert f"openssl {version}: CVE-2099-1 is fixed in 999:1 (https://example.org/1): VULNERABLE" in done.stderr
    assert "1 advisories, 1 that apply" in done.stdout
    for fixed in (version, "0", version + "~", f"0:{version}"):
        assert audit("--advisories", listed(entry(fixed))).returncode == 0, fixed
    # As Debian orders versions.
    for fixed in (version + "+x", f"1:{version}", version + ".1"):
        assert audit("--advisories", listed(entry(fixed))).returncode == 1, fixed
    assert audit("--advisories", listed(entry("999:1", package="not-linked"))).returncode == 0
    assert audit("--advisories", listed(entry("9999.0", package="pypi:openvino"))).returncode == 1
    assert audit("--advisories", listed(entry("1.0", package="pypi:openvino"))).returncode == 0


def test_what_is_accepted_is_told_and_passes(listed):
    done = audit("--advisories", listed(entry("999:1", accepted="it is not reached"), entry("0")))
    assert done.returncode == 0
    assert "accepted, it is not reached" in done.stdout and "0 that apply, 1 accepted" in done.stdout


def test_faults_are_told(listed, tmp_path):
    for wrong, said in (({**entry("1"), "fixd": "2"}, "fixd"), ({**entry("1"), "kept": "yes"}, "kept"),
                        (entry(""), "'fixed'")):
        done = audit("--advisories", listed(wrong))
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert audit("--advisories", tmp_path / "none").returncode == 2
    no_program = subprocess.run([sys.executable, AUDIT, "--program", tmp_path / "none"], capture_output=True, text=True)
    assert no_program.returncode == 2 and "ldd cannot read" in no_program.stderr


def test_the_list_is_brought_up_to_date(parts, listed, tmp_path):
    """From what Debian's tracker says, which is a file here."""
    release = re.search(r'^VERSION_CODENAME="?([a-z]+)', open("/etc/os-release").read(), re.MULTILINE).group(1)
    of = lambda **facts: {"releases": {release: facts, "sid": {"status": "resolved", "fixed_version": "1"}}}
    tracker = tmp_path / "tracker.json"
    tracker.write_text(json.dumps({
        "openssl": {"CVE-2099-2": of(status="resolved", fixed_version="999:2"), "CVE-2099-3": of(status="open"),
                    "CVE-2001-1": of(status="resolved", fixed_version="999:3"),
                    "CVE-2099-4": of(status="resolved", fixed_version="0"),
                    "CVE-2099-1": of(status="resolved", fixed_version="0.1")},
        "not-linked": {"CVE-2099-5": of(status="resolved", fixed_version="1")}}))
    file = listed(entry("0", kept=True), {**entry("999:9"), "id": "CVE-2099-9"})
    file.write_text("# what stands above stays\n" + file.read_text())
    done = audit("--advisories", file, "--update", "--from", tracker)
    assert done.returncode == 1 and "CVE-2099-2 is fixed in 999:2" in done.stderr and "1 more are open" in done.stdout
    text = file.read_text()
    assert text.startswith("# what stands above stays\n")
    assert re.findall(r'^id = "(.*)"$', text, re.MULTILINE) == ["CVE-2099-1", "CVE-2099-2"]
    assert 'fixed = "0"\n' in text  # that which is kept
    assert audit("--advisories", file, "--update", "--from", tmp_path / "none").returncode == 2


def test_the_list_that_comes_with_the_source_is_read():
    done = audit()
    assert done.returncode in (0, 1), done.stderr
    assert re.search(r"\d+ parts, \d+ advisories", done.stdout)


def test_the_program_links_few_libraries_and_none_of_libcurl(parts):
    """What a stranger's bytes can reach is small: HTTP as a client, too, is the program's own, over OpenSSL."""
    linked = subprocess.run(["ldd", binary()], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(linked) <= 35, linked
    assert not [line for line in linked if "curl" in line or "ldap" in line]
    assert not [part["name"] for part in parts["components"] if "curl" in part["name"]]


def test_no_library_is_opened_to_send_a_request():
    """Where nothing listens; the loader tells which libraries it looks for."""
    done = subprocess.run([binary(), "tokenize", "--url", "http://127.0.0.1:9", "--connect-timeout", "1"], input="a\n",
                          capture_output=True, text=True, env={**clean_environment(), "LD_DEBUG": "libs"}, timeout=60)
    assert done.returncode == 1 and "127.0.0.1:9: no connection" in done.stderr, done.stderr[-2000:]
    assert "find library=libssl" in done.stderr
    assert "curl" not in done.stderr and "ldap" not in done.stderr
