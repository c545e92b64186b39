"""deploy/helm: the chart by Helm's own SDK; what it renders by the schemas of Kubernetes and of custom resources.

    make check-chart

PENSTOCK_CRDS names a folder of CustomResourceDefinitions as JSON; without it those kinds are rendered and not checked.
"""

import os
import subprocess
import warnings

import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment

helm = pytest.importorskip("helm_python", reason="HELM'S SDK IS NOT HERE (make check-chart)")

import kubernetes_validate
import yaml

import crds

CHART = ROOT / "deploy" / "helm" / "penstock"
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
KINDS = crds.load(os.environ["PENSTOCK_CRDS"]) if os.environ.get("PENSTOCK_CRDS") else {}


def render(values):
    """The objects by kind, and the notes."""
    found = helm.Chart.load(str(CHART)).render(values, name="demo", namespace="ai")
    notes = next(text for path, text in found.items() if path.endswith("NOTES.txt"))
    objects = [
        each for path, text in found.items() if path.endswith(".yaml") for each in yaml.safe_load_all(text) if each
    ]
    kinds = {each["kind"]: each for each in objects}
    assert len(kinds) == len(objects)
    return kinds, notes


def check(kinds):
    for one in kinds.values():
        if one["apiVersion"].split("/")[0] in ("v1", "apps", "batch", "policy", "autoscaling", "networking.k8s.io"):
            for version in VERSIONS:
                kubernetes_validate.validate(one, version, strict=True)
        elif KINDS:
            assert crds.errors(KINDS[one["apiVersion"], one["kind"]], one) == []
        else:
            warnings.warn(f"{one['kind']} IS NOT CHECKED: PENSTOCK_CRDS is not set", stacklevel=2)


def container(kinds):
    (one,) = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def pod(kinds):
    return kinds["Deployment"]["spec"]["template"]["spec"]


def volumes(kinds):
    return {each["name"]: each for each in pod(kinds)["volumes"]}


ALWAYS = {"Deployment", "Service", "PodDisruptionBudget"}
# Values, the kinds beside those there always are, and what must hold.
CASES = {
    "nothing": (
        {},
        set(),
        lambda k: (
            k["Deployment"]["spec"]["replicas"] == 2
            and "emptyDir" in volumes(k)["cache"]
            and pod(k)["terminationGracePeriodSeconds"] == 45
            and "initContainers" not in pod(k)
        ),
    ),
    "an image": (
        {"image": {"repository": "registry.example/penstock", "tag": "1"}, "imagePullSecrets": [{"name": "s"}]},
        set(),
        lambda k: (
            container(k)["image"] == "registry.example/penstock:1" and pod(k)["imagePullSecrets"] == [{"name": "s"}]
        ),
    ),
    "models": (
        {
            "models": [
                {"name": "e", "reference": "a/b", "dtype": "int8"},
                {"name": "c", "reference": "d/e:Q4_K_M", "task": "generation"},
            ]
        },
        set(),
        lambda k: (
            {"--model=e=a/b", "--dtype=e=int8", "--model=c=d/e:Q4_K_M", "--task=c=generation"}
            <= set(container(k)["args"])
        ),
    ),
    "flags": (
        {"flags": {"access-log": True, "auto-pull": False, "max-batch-tokens": 4096, "log-level": "warn"}},
        set(),
        lambda k: (
            {"--access-log", "--no-auto-pull", "--max-batch-tokens=4096", "--log-level=warn"}
            <= set(container(k)["args"])
        ),
    ),
    "keys": (
        {"apiKeys": {"secret": "keys"}},
        set(),
        lambda k: (
            "--api-key-file=/etc/penstock/keys/keys" in container(k)["args"]
            and volumes(k)["keys"]["secret"]["secretName"] == "keys"
        ),
    ),
    "a token of the hub": (
        {"hubToken": {"secret": "hub"}, "initPull": True},
        set(),
        lambda k: (
            container(k)["env"][0]["name"] == "HF_TOKEN"
            and pod(k)["initContainers"][0]["env"] == container(k)["env"]
            and "--no-auto-pull" in container(k)["args"]
        ),
    ),
    "TLS": (
        {"tls": {"secret": "cert"}, "serviceMonitor": {"enabled": True}},
        {"ServiceMonitor"},
        lambda k: (
            container(k)["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
            and "--tls-cert=/etc/penstock/tls/tls.crt" in container(k)["args"]
            and k["ServiceMonitor"]["spec"]["endpoints"][0]["scheme"] == "https"
        ),
    ),
    "a claim": (
        {"cache": {"type": "pvc", "size": "5Gi", "storageClass": "fast", "accessMode": "ReadWriteMany"}},
        {"PersistentVolumeClaim"},
        lambda k: (
            volumes(k)["cache"]["persistentVolumeClaim"]["claimName"] == k["PersistentVolumeClaim"]["metadata"]["name"]
            and k["PersistentVolumeClaim"]["spec"]["storageClassName"] == "fast"
        ),
    ),
    "a claim that is there": (
        {"cache": {"type": "pvc", "existingClaim": "mine"}},
        set(),
        lambda k: volumes(k)["cache"]["persistentVolumeClaim"]["claimName"] == "mine",
    ),
    "a path of the node": (
        {"cache": {"type": "hostPath", "hostPath": "/models"}},
        set(),
        lambda k: volumes(k)["cache"]["hostPath"]["path"] == "/models",
    ),
    "gRPC": (
        {"grpc": {"enabled": True, "port": 9001}, "networkPolicy": {"enabled": True}},
        {"NetworkPolicy"},
        lambda k: (
            "--grpc-port=9001" in container(k)["args"]
            and k["Service"]["spec"]["ports"][1]["port"] == 9001
            and [port["port"] for port in k["NetworkPolicy"]["spec"]["ingress"][0]["ports"]] == ["http", "grpc"]
        ),
    ),
    "peers": (
        {"networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]}},
        {"NetworkPolicy"},
        lambda k: "namespaceSelector" in k["NetworkPolicy"]["spec"]["ingress"][0]["from"][0],
    ),
    "an end without delay": (
        {"shutdown": {"delaySeconds": 0, "timeoutSeconds": 5}},
        set(),
        lambda k: pod(k)["terminationGracePeriodSeconds"] == 10 and "--shutdown-delay-s=0" in container(k)["args"],
    ),
    "no budget": ({"podDisruptionBudget": {"enabled": False}}, {"-PodDisruptionBudget"}, lambda k: True),
    "hpa": (
        {"autoscaling": {"type": "hpa", "maxReplicas": 7, "demand": 0.6}},
        {"HorizontalPodAutoscaler"},
        lambda k: (
            "replicas" not in k["Deployment"]["spec"]
            and k["HorizontalPodAutoscaler"]["spec"]["maxReplicas"] == 7
            and k["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["target"]["averageValue"] == "0.6"
        ),
    ),
    "keda": (
        {"autoscaling": {"type": "keda"}},
        {"ScaledObject"},
        lambda k: (
            k["ScaledObject"]["spec"]["triggers"][0]["metadata"]["query"]
            == 'sum(rate(penstock_demand_seconds_total{class="interactive",namespace="ai",pod=~"demo-penstock-.*"}[1m]))'
        ),
    ),
    "monitoring": (
        {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prom"}},
            "prometheusRule": {"enabled": True},
            "apiKeys": {"secret": "k"},
        },
        {"ServiceMonitor", "PrometheusRule"},
        lambda k: (
            k["ServiceMonitor"]["metadata"]["labels"]["release"] == "prom"
            and "authorization" in k["ServiceMonitor"]["spec"]["endpoints"][0]
            and k["PrometheusRule"]["spec"]["groups"][0]["rules"][0]["expr"] == 'up{job="demo-penstock"} == 0'
            and len(k["PrometheusRule"]["spec"]["groups"][0]["rules"])
            == len(yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"][0]["rules"])
        ),
    ),
    "a pool": (
        {"inferencePool": {"enabled": True, "endpointPicker": {"name": "epp"}}},
        {"InferencePool"},
        lambda k: (
            k["InferencePool"]["spec"]["endpointPickerRef"]["name"] == "epp"
            and k["Deployment"]["spec"]["template"]["metadata"]["labels"]["llm-d.ai/engine-type"] == "penstock"
        ),
    ),
    "where it runs": (
        {
            "nodeSelector": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "spreadOver": "",
            "podAnnotations": {"x": "y"},
            "podLabels": {"l": "m"},
            "runtimeClassName": "nvidia",
            "extraEnv": [{"name": "A", "value": "b"}],
            "extraVolumes": [{"name": "m", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "m", "mountPath": "/m"}],
            "service": {"type": "NodePort", "port": 80, "annotations": {"q": "r"}},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        },
        set(),
        lambda k: (
            "topologySpreadConstraints" not in pod(k)
            and pod(k)["nodeSelector"] == {"a": "b"}
            and container(k)["env"] == [{"name": "A", "value": "b"}]
            and k["Service"]["spec"]["ports"][0]["port"] == 80
            and pod(k)["runtimeClassName"] == "nvidia"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered(name):
    values, more, holds = CASES[name]
    kinds, notes = render(values)
    wanted = (ALWAYS | {kind for kind in more if not kind.startswith("-")}) - {
        kind[1:] for kind in more if kind.startswith("-")
    }
    assert set(kinds) == wanted
    check(kinds)
    assert holds(kinds), yaml.safe_dump(list(kinds.values()))
    assert "was not\napplied to an API server" in notes
    # The program takes the words of the container.
    done = subprocess.run(
        [binary(), "serve", *container(kinds)["args"], "--print-config"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_value_has_a_case():
    def paths(values, before=""):
        for key, value in values.items():
            if isinstance(value, dict) and value and key != "resources":
                yield from paths(value, f"{before}{key}.")
            else:
                yield before + key

    def has(values, path):
        head, _, rest = path.partition(".")
        return isinstance(values, dict) and head in values and (not rest or has(values[head], rest))

    left_alone = {
        "image.pullPolicy",
        "replicas",
        "apiKeys.key",
        "hubToken.key",
        "podDisruptionBudget.maxUnavailable",
        "autoscaling.minReplicas",
        "autoscaling.queueSeconds",
        "autoscaling.prometheus",
        "serviceMonitor.interval",
        "prometheusRule.labels",
        "inferencePool.endpointPicker.port",
    }
    known = set(paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    missing = {path for path in known if not any(has(values, path) for values, _, _ in CASES.values())}
    assert missing <= left_alone, missing - left_alone


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 1},
        {"replicas": -1},
        {"models": []},
        {"models": [{"name": "e"}]},
        {"models": [{"name": "a b", "reference": "x"}]},
        {"models": [{"name": "e", "reference": "x", "task": "embed"}]},
        {"flags": {"Not A Flag": 1}},
        {"flags": {"x": [1]}},
        {"cache": {"type": "nfs"}},
        {"cache": {"size": "lots"}},
        {"cache": {"hostPath": "models"}},
        {"autoscaling": {"type": "vpa"}},
        {"autoscaling": {"demand": 0}},
        {"service": {"port": 70000}},
        {"shutdown": {"delaySeconds": "10s"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"tls": "cert"},
        {"grpc": {"port": 0}},
    ],
)
def test_bad_values_are_refused(values):
    with pytest.raises(helm.HelmError):
        render(values)


def test_a_pool_needs_its_picker():
    with pytest.raises(helm.HelmError, match=r"endpointPicker\.name"):
        render({"inferencePool": {"enabled": True}})


def test_the_chart_is_linted():
    report = helm.lint(str(CHART), {}, strict=True)
    assert not report["errors"], report
    assert not [each for each in report["messages"] if each["severity"] >= 3], report


def example(name):
    objects = list(yaml.safe_load_all((ROOT / "deploy/kubernetes" / name).read_text()))
    return {one["kind"]: one for one in objects}


def test_a_job_of_shards(tmp_path):
    kinds = example("shards-job.yaml")
    check(kinds)
    (one,) = kinds["Job"]["spec"]["template"]["spec"]["containers"]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'"dog {i}"\n' for i in range(200)))
    words = [word.replace("/shared", str(tmp_path)) for word in one["args"] if not word.startswith("--model")]
    done = subprocess.run(
        [binary(), one["command"][1], f"--model={GOLDEN / EMBED}", *words],
        capture_output=True,
        text=True,
        env=clean_environment(JOB_COMPLETION_INDEX="63"),
        timeout=60,
    )
    assert done.returncode == 0 and "shard 63 of 64 is done" in done.stderr, done.stderr


def test_a_runtime_of_kserve():
    kinds = example("kserve.yaml")
    check(kinds)
    (one,) = kinds["ClusterServingRuntime"]["spec"]["containers"]
    words = [word.replace("{{.Name}}", "embed") for word in one["args"]]
    done = subprocess.run(
        [binary(), "serve", *words, "--print-config"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def spoil(kinds, kind, *path, value):
    one = kinds[kind]
    for key in path[:-1]:
        one = one[key]
    one[path[-1]] = value
    return kinds


@pytest.mark.parametrize(
    "values, kind, path, value",
    [
        ({}, "Deployment", ("spec", "replicas"), "two"),
        ({}, "Deployment", ("spec", "template", "spec", "containerz"), []),
        ({}, "Service", ("spec", "ports", 0, "port"), "http"),
        ({"autoscaling": {"type": "hpa"}}, "HorizontalPodAutoscaler", ("spec", "maxReplicaz"), 3),
        ({"autoscaling": {"type": "keda"}}, "ScaledObject", ("spec", "triggers", 0, "type"), 3),
        ({"serviceMonitor": {"enabled": True}}, "ServiceMonitor", ("spec", "endpoints", 0, "scheme"), "gopher"),
        ({"prometheusRule": {"enabled": True}}, "PrometheusRule", ("spec", "groups", 0, "rules", 0, "for"), "soon"),
        (
            {"inferencePool": {"enabled": True, "endpointPicker": {"name": "e"}}},
            "InferencePool",
            ("spec", "endpointPickerRef", "port"),
            None,
        ),
    ],
)
def test_what_is_spoilt_is_found(values, kind, path, value):
    kinds, _ = render(values)
    if kind in ("ScaledObject", "ServiceMonitor", "PrometheusRule", "InferencePool") and not KINDS:
        pytest.skip("PENSTOCK_CRDS IS NOT SET")
    with pytest.raises((AssertionError, kubernetes_validate.ValidationError)):
        check(spoil(kinds, kind, *path, value=value))
