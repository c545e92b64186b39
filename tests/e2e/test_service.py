"""What a service manager relies on: the word that the server is ready, the unit, the alerts."""
import json
import os
import re
import shutil
import socket
import subprocess

import grpc
import pytest

from conftest import EMBED, GOLDEN, ROOT, clean_environment, model_args

PACKAGING = ROOT / "packaging"
DEPLOY = ROOT / "deploy"
OPERATING = (ROOT / "docs/OPERATING.md").read_text()


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(start, tmp_path, abstract):
    name = f"@penstock-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(20)
        server = start(env=clean_environment(NOTIFY_SOCKET=name))
        assert manager.recv(4096) == b"READY=1"
        assert server.get("/readyz").status_code == 200
        assert server.stop() == 0
        assert manager.recv(4096) == b"STOPPING=1"


@pytest.mark.parametrize("name", ["/no/such/socket", "relative", "/" + "x" * 200])
def test_a_socket_that_is_wrong_is_only_a_warning(start, name):
    server = start(env=clean_environment(NOTIFY_SOCKET=name))
    assert server.get("/readyz").status_code == 200
    assert server.stop() == 0
    assert any("service manager" in line or "NOTIFY_SOCKET" in line for line in server.log)


def unit_with_files_that_exist(tmp_path):
    """The unit with a program that is here, for what looks whether it is."""
    text = (PACKAGING / "penstock.service").read_text()
    unit = tmp_path / "penstock.service"
    unit.write_text(text.replace("ExecStart=/usr/bin/penstock", f"ExecStart={shutil.which('true')}"))
    return unit


def test_the_unit_is_well_formed_and_hardened(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    unit = unit_with_files_that_exist(tmp_path)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit], capture_output=True, timeout=60)
    said = [line for line in done.stderr.decode().splitlines() if "penstock.service" in line]
    assert not said, said
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", unit],
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()


def test_the_unit_lets_openvino_make_code():
    """systemd's answer to memory that is written and then run would end every tensor model."""
    settings = dict(line.split("=", 1) for line in (PACKAGING / "penstock.service").read_text().splitlines()
                    if "=" in line and not line.startswith("#"))
    assert settings.get("MemoryDenyWriteExecute", "no") == "no"


def test_the_command_of_the_unit_starts_the_server_with_the_config(start, tmp_path):
    """Its words and the config that is shipped, with paths of this machine."""
    unit = (PACKAGING / "penstock.service").read_text()
    words = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
    assert words[:3] == ["/usr/bin/penstock", "serve", "--config"]
    config = (PACKAGING / "penstock.toml").read_text()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    for name in ("api-keys", "bulk-api-keys", "admin-api-keys"):
        (tmp_path / name).write_text(f"{name}-1\n")
    config = re.sub(r"^model = .*$", f'model = ["embed={GOLDEN / EMBED}"]', config, flags=re.MULTILINE)
    config = re.sub(r"^host = .*$", 'host = "127.0.0.1"', config, flags=re.MULTILINE)
    config = config.replace("/etc/penstock/tls/", f"{tmp_path}/").replace("/etc/penstock/", f"{tmp_path}/")
    config = config.replace("fullchain.pem", "cert.pem").replace("privkey.pem", "key.pem")
    path = tmp_path / "penstock.toml"
    path.write_text(config)
    server = start(*words[2:3], path, model=False, env=clean_environment())
    assert server.url.startswith("https")
    get = lambda route, k=None: server.get(route, verify=False, headers={"X-API-Key": k} if k else {}).status_code
    assert get("/readyz") == 200 and get("/info") == 401 and get("/info", "api-keys-1") == 200
    assert get("/metrics", "api-keys-1") == 403 and get("/metrics", "admin-api-keys-1") == 200
    assert server.stop() == 0
    assert all(line.startswith("{") for line in server.log), server.log


def test_the_documents_files_are_the_shipped_ones():
    """docs/OPERATING.md prints the config, the unit, the container file and the alerts as they are."""
    for name in ("penstock.toml", "local.toml", "penstock.service", "Containerfile"):
        assert (PACKAGING / name).read_text() in OPERATING, name
    for name in ("prometheus.yml", "alerts.yml"):
        assert (DEPLOY / name).read_text() in OPERATING, name


def promtool():
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not found:
        pytest.skip("promtool is not here")
    return found


def test_alerts_are_rules_of_prometheus(tmp_path):
    tool = promtool()
    done = subprocess.run([tool, "check", "rules", DEPLOY / "alerts.yml"], capture_output=True, timeout=60)
    rules = (DEPLOY / "alerts.yml").read_text().count("- alert:")
    assert done.returncode == 0 and f"{rules} rules found" in done.stdout.decode(), done.stdout + done.stderr
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    (tmp_path / "penstock-key").write_text("k")
    config = (DEPLOY / "prometheus.yml").read_text().replace("/etc/prometheus/", f"{tmp_path}/")
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "prometheus.yml").write_text(config)
    done = subprocess.run([tool, "check", "config", "--syntax-only", tmp_path / "prometheus.yml"],
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([tool, "test", "rules", DEPLOY / "alerts_test.yml"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def series_of(text):
    return set(re.findall(r"\b(?:penstock|process)_\w+", text))


def test_alerts_and_dashboard_name_series_that_there_are(start):
    server = start(*model_args(("embed", EMBED)), "--model", f"text={GOLDEN.parent / 'decoders' / 'llama'}",
                   "--model", "echo=builtin:identity?shape=1", "--result-cache-bytes", "1MiB", "--grpc-port", "0")
    server.post("/embed", {"inputs": "a"})
    port = re.search(r"listening on grpc://[^:]+:(\d+)", "".join(server.log)).group(1)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:  # an empty message asks for the whole server
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
    server.post("/v1/completions", {"model": "text", "prompt": "a", "max_tokens": 4})
    names = {name.split("{")[0] for name in server.metrics()}
    used = series_of(re.sub(r"#.*", "", (DEPLOY / "alerts.yml").read_text()))
    assert used and used <= names, used - names
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 20
    used = series_of("\n".join(expressions))
    assert used <= names, used - names
    labels = {name: set() for name in names}
    for full in server.metrics():
        labels[full.split("{")[0]].update(re.findall(r'(\w+)="', full))
    for expression in expressions:  # and only labels that these have
        for name, inside in re.findall(r"(penstock_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]", inside)) <= {*labels[name], "instance", "job"}, expression


def test_the_dashboard_can_be_imported():
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${DS_PROMETHEUS}"


def test_the_files_of_a_container_are_there():
    text = (PACKAGING / "Containerfile").read_text()
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
        assert (ROOT / source).exists(), source
    words = re.search(r'^(?:CMD|ENTRYPOINT) \[(.*)\]', text, re.MULTILINE).group(1)
    assert "penstock" in words


def test_the_fields_of_logs_are_documented(start):
    from conftest import wait_for
    from test_operations import json_lines
    server = start("--access-log", "--log-format", "json", "--api-key", "k", "--slow-request-ms", "1")
    server.post("/embed", {"inputs": ["a dog"] * 500}, headers={"X-API-Key": "k"})
    assert wait_for(lambda: json_lines(server, "request"))
    fields = set(json_lines(server, "request")[0])
    table = set(re.findall(r"^\| `([^|]*)` \|", OPERATING.split("## Logs")[1].split("\n## ")[0], re.MULTILINE))
    documented = {name for cell in table for name in re.split(r"`, `", cell)}
    assert fields <= documented, fields - documented
