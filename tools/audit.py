#!/usr/bin/env python3
"""Lists the libraries that the program is made of, and compares them with known vulnerabilities.

Usage: tools/audit.py [--program build/penstock] [--advisories tools/advisories.toml] [--sbom FILE [--shipped]]
       tools/audit.py --update [--from URL-OR-FILE] [--since YEAR]

Listed are the Debian packages of all libraries that the program links (ldd, dpkg), those of which it
carries archives or headers, the sources of protobuf and XGrammar that became a part of it, and the packages
of PyPI that are named with their version: the runtime of tensor models, and what tests use. --sbom writes the list as a CycloneDX document
("-": standard output), with the SHA-256 of shared libraries; with --shipped without what tests use.

advisories.toml has for each known vulnerability the Debian source package (or pypi:NAME), the first
version without it, and where that is said. A version below it ends with status 1, unless the entry
says why it is `accepted`. No network is used, but by --update, which takes what Debian's security
tracker says of the packages here into the file; entries with `kept = true` stay as they are.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRACKER = "https://security-tracker.debian.org/tracker/data/json"
# Headers and archives, which become a part of libpenstock.so or of the program.
CARRIED = ("libboost-dev", "libboost1.74-dev", "libbsd-dev", "libcli11-dev", "libedit-dev", "libfmt-dev", "libhiredis-dev",
           "libmd-dev", "libncurses-dev", "libspdlog-dev", "libstdc++-*-dev", "libtomlplusplus-dev", "libxxhash-dev",
           "libzstd-dev")
OURS = "libpenstock.so.1"
FIELDS = {"id": str, "package": str, "fixed": str, "source": str, "title": str, "accepted": str, "kept": bool}


class Failure(Exception):
    """What is told instead of a result."""


def ask(*command):
    """Standard output of a command; None where it fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not here: this needs a Debian system") from None
    return done.stdout if done.returncode == 0 else None


def linked_files(program):
    """Paths of the libraries that the program links, those of libraries included."""
    text = ask("ldd", program)
    if text is None:
        raise Failure(f"ldd cannot read {program}: build it first, or name it with --program")
    missing = re.findall(r"(\S+) => not found", text)
    if missing:
        raise Failure(f"{program} links libraries that are not here: {', '.join(missing)}")
    return sorted(set(re.findall(r"(/\S+) \(0x", text)))


def packages_of(paths):
    """The Debian package of each file that is of one. Debian knows some files by /lib, some by /usr/lib."""
    spellings = {}
    for path in paths:
        for name in (path, os.path.realpath(path)):
            spellings[name] = path
            spellings[name.removeprefix("/usr") if name.startswith("/usr/lib") else "/usr" + name] = path
    # Its status is 1 where it does not know one of them.
    said = subprocess.run(["dpkg", "-S", *sorted(spellings)], capture_output=True, text=True).stdout
    packages = {}
    for line in said.splitlines():
        owners, _, name = line.rpartition(": ")
        if name in spellings and not owners.startswith("diversion "):
            packages[spellings[name]] = owners.split(",")[0]
    return packages


def debian_package(name):
    """What dpkg knows of an installed package; None: it is not installed."""
    form = "${binary:Package}\t${Version}\t${source:Package}\t${source:Version}\t${Architecture}\t${db:Status-Status}\n"
    said = ask("dpkg-query", "-W", f"-f={form}", name)
    for line in (said or "").splitlines():
        package, version, source, source_version, architecture, state = line.split("\t")
        if state == "installed":
            return {"name": package.split(":")[0], "version": version, "source": source, "source_version": source_version,
                    "architecture": architecture, "scope": "required"}
    return None


def pinned_version(script):
    return re.search(r'^VERSION = "([^"]+)"', (ROOT / "tools" / script).read_text(), re.MULTILINE).group(1)


def compiled_protobuf():
    """protobuf of the sources that tools/install_protobuf.py installs; Debian's advisories are held against it."""
    version = pinned_version("install_protobuf.py")
    return {"name": "protobuf", "version": version, "source": "protobuf", "source_version": version, "scope": "required",
            "purl": f"pkg:github/protocolbuffers/protobuf@v{version}"}


def pypi_packages():
    """Those named with one version, for all that the program opens at run time and for tests."""
    found = {"openvino": (pinned_version("install_openvino.py"), "optional"),
             "xgrammar": (pinned_version("install_xgrammar.py"), "required")}
    for file in sorted((ROOT / "tests" / "e2e").glob("requirements*.txt")):
        for line in file.read_text().splitlines():
            pinned = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([A-Za-z0-9_.+!-]+)", line)
            if pinned:
                found.setdefault(pinned.group(1).lower(), (pinned.group(2), "excluded"))
    return [{"name": name, "version": version, "source": f"pypi:{name}", "source_version": version, "scope": scope}
            for name, (version, scope) in sorted(found.items())]


def parts_of(program):
    """All parts, by name; and the files that no package has."""
    parts, strays = {}, []
    files = linked_files(program)
    packages = packages_of(files)
    for path in files:
        known = debian_package(packages[path]) if path in packages else None
        if known:
            parts.setdefault(known["name"], known).setdefault("files", []).append(path)
        elif pathlib.Path(path).name != OURS:
            strays.append(path)
    if not any(pathlib.Path(path).name.startswith("libprotobuf.so") for path in files):
        parts["protobuf"] = compiled_protobuf()
    for name in CARRIED:
        known = debian_package(name)
        if known:
            parts.setdefault(known["name"], known)
    return [parts[name] for name in sorted(parts)] + pypi_packages(), strays


def read_advisories(path):
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Failure(f"{path}: {error}") from None
    entries = document.get("advisory", [])
    for number, entry in enumerate(entries, 1):
        for key, value in entry.items():
            if not isinstance(value, FIELDS.get(key, ())):
                raise Failure(f"{path}: entry {number}: '{key}' is unknown or of the wrong type")
        for key in ("id", "package", "fixed", "source"):
            if not entry.get(key):
                raise Failure(f"{path}: entry {number} has no '{key}'")
    return entries


def is_below(version, fixed, pypi):
    if pypi:
        numbers = lambda text: [int(part) if part.isdigit() else 0 for part in re.split(r"[.+!-]", text)]
        return numbers(version) < numbers(fixed)
    said = subprocess.run(["dpkg", "--compare-versions", version, "lt", fixed], capture_output=True, text=True)
    if said.returncode > 1 or said.stderr:
        raise Failure(f"dpkg cannot compare {version} with {fixed}: {said.stderr.strip()}")
    return said.returncode == 0


def audit(parts, entries):
    """(part, entry) of each entry that a part is below, one for a source package."""
    of_source = {}
    for part in parts:
        of_source.setdefault(part["source"], part)
    found = []
    for entry in entries:
        part = of_source.get(entry["package"])
        if part and is_below(part["source_version"], entry["fixed"], entry["package"].startswith("pypi:")):
            found.append((part, entry))
    return found


def sbom(parts, strays):
    """CycloneDX 1.5, the same for the same versions."""
    version = re.search(r"project\(penstock VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)

    def component(part):
        pypi = part["source"].startswith("pypi:")
        debian = "architecture" in part
        purl = (f"pkg:pypi/{part['name']}@{part['version']}" if pypi else
                f"pkg:deb/debian/{part['name']}@{part['version']}?arch={part['architecture']}" if debian else part["purl"])
        properties = [] if not debian else [{"name": "debian:source", "value": part["source"]},
                                      {"name": "debian:source-version", "value": part["source_version"]}]
        properties += [{"name": f"sha256:{pathlib.Path(path).name}",
                        "value": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()} for path in part.get("files", ())]
        return {"type": "library", "bom-ref": purl, "name": part["name"], "version": part["version"],
                "scope": part["scope"], "purl": purl, "properties": properties}
    components = [component(part) for part in parts]
    components += [{"type": "file", "bom-ref": f"file:{path}", "name": pathlib.Path(path).name} for path in strays]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": {"type": "application", "bom-ref": "penstock", "name": "penstock", "version": version}},
            "components": components,
            "dependencies": [{"ref": "penstock", "dependsOn": [each["bom-ref"] for each in components
                                                               if each.get("scope") != "excluded"]}]}


def codename():
    text = pathlib.Path("/etc/os-release").read_text()
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)', text, re.MULTILINE)
    if not found:
        raise Failure("/etc/os-release names no release")
    return found.group(1)


def load_tracker(source):
    try:
        if pathlib.Path(source).is_file():
            return json.loads(pathlib.Path(source).read_text())
        with urllib.request.urlopen(source, timeout=120) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:
        raise Failure(f"{source}: {error}") from None


def from_tracker(tracker, sources, release, since):
    """Entries of what is resolved in that release, and the number of what is open there."""
    entries, still_open = [], 0
    for package in sorted(sources):
        for id, facts in sorted(tracker.get(package, {}).items()):
            year = re.match(r"CVE-(\d{4})-", id)
            here = facts.get("releases", {}).get(release)
            if not year or int(year.group(1)) < since or not here:
                continue
            still_open += here.get("status") == "open" and here.get("urgency") != "unimportant"
            if here.get("status") == "resolved" and here.get("fixed_version", "0") != "0":
                entries.append({"id": id, "package": package, "fixed": here["fixed_version"],
                                "source": f"https://security-tracker.debian.org/tracker/{id}"})
    return entries, still_open


def write_advisories(path, entries):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []
    lines = [*head, ""]
    for entry in sorted(entries, key=lambda each: (each["package"], each["id"])):
        lines.append("[[advisory]]")
        lines += [f"{key} = {json.dumps(entry[key], ensure_ascii=False)}" for key in FIELDS if key in entry]
        lines.append("")
    path.write_text("\n".join(lines))


def update(path, parts, source, since):
    kept = [entry for entry in read_advisories(path)
            if entry.get("kept") or entry.get("accepted") or entry["package"].startswith("pypi:")]
    known = {(entry["id"], entry["package"]) for entry in kept}
    sources = {part["source"] for part in parts if not part["source"].startswith("pypi:")}
    entries, still_open = from_tracker(load_tracker(source), sources, codename(), since)
    entries = [entry for entry in entries if (entry["id"], entry["package"]) not in known]
    write_advisories(path, kept + entries)
    print(f"{path}: {len(entries)} entries of {source}, {len(kept)} kept; {still_open} more are open in this release")


def report(parts, strays, entries, quiet):
    found = audit(parts, entries)
    bad = [each for each in found if not each[1].get("accepted")]
    for part, entry in found:
        state = "accepted, " + entry["accepted"] if entry.get("accepted") else "VULNERABLE"
        print(f"{part['source']} {part['source_version']}: {entry['id']} is fixed in {entry['fixed']} "
              f"({entry['source']}): {state}", file=sys.stderr if not entry.get("accepted") else sys.stdout)
    for path in strays:
        print(f"{path} is of no package: nothing is known of it", file=sys.stderr)
    if not quiet:
        print(f"{len(parts)} parts, {len(entries)} advisories, {len(bad)} that apply"
              + (f", {len(found) - len(bad)} accepted" if len(found) > len(bad) else ""))
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "penstock", type=pathlib.Path)
    parser.add_argument("--advisories", default=ROOT / "tools" / "advisories.toml", type=pathlib.Path)
    parser.add_argument("--sbom", metavar="FILE", help="write the list of parts; - is standard output; nothing is compared")
    parser.add_argument("--shipped", action="store_true", help="leave out of that list what only tests use")
    parser.add_argument("--update", action="store_true", help="take what Debian's security tracker says into the list")
    parser.add_argument("--from", dest="source", default=TRACKER, metavar="URL-OR-FILE")
    parser.add_argument("--since", type=int, default=2023, metavar="YEAR", help="of CVEs that --update takes")
    flags = parser.parse_args()
    try:
        parts, strays = parts_of(flags.program)
        if flags.sbom:
            if flags.shipped:
                parts = [part for part in parts if part["scope"] != "excluded"]
            text = json.dumps(sbom(parts, strays), indent=2) + "\n"
            if flags.sbom == "-":
                sys.stdout.write(text)
            else:
                pathlib.Path(flags.sbom).write_text(text)
            return 0
        if flags.update:
            update(flags.advisories, parts, flags.source, flags.since)
        return report(parts, strays, read_advisories(flags.advisories), quiet=False)
    except Failure as failure:
        print(f"audit.py: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
