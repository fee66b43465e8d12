"""scripts/kubernetes: valid by the schemas of Kubernetes 1.37 and of the custom resources, and consistent with the server: options, paths, metrics.

Custom resources are checked where their definitions are (conftest.py)."""

import http.client
import json
import re
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml
from real_api import program, render

from conftest import DEFINITIONS, MANIFESTS, PATIENCE_S, ROOT, Server, documents, free_ports

VERSION = "1.37"
FILES = sorted(path for path in MANIFESTS.glob("*.yaml") if path.name != "kustomization.yaml")
OBJECTS = [one for path in FILES for one in documents(path)]
NATIVE = [one for one in OBJECTS if "." not in one["apiVersion"].split("/")[0] or one["apiVersion"].startswith(("rbac.", "policy", "autoscaling"))]
CUSTOM = [one for one in OBJECTS if one not in NATIVE]


def name_of(one):
    return f"{one['kind']}-{one['metadata']['name']}"


def find(kind, name="shoal"):
    return next(one for one in OBJECTS if one["kind"] == kind and one["metadata"]["name"] == name)


@pytest.mark.parametrize("one", NATIVE, ids=name_of)
def test_kubernetes_accepts_it(one):
    kubernetes_validate.validate(one, VERSION, strict=True)


def test_a_wrong_field_is_found():
    wrong = json.loads(json.dumps(find("Deployment")))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def closed(schema):
    """The schema with every object that lists its members closed to others, as a strict API server has it."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    new = {name: closed(value) for name, value in schema.items()}
    if isinstance(new.get("properties"), dict) and "additionalProperties" not in new and not new.get("x-kubernetes-preserve-unknown-fields"):
        new["additionalProperties"] = False
    return new


def definition(one):
    """The schema of a custom resource, or None where its definition is not there."""
    group, version = one["apiVersion"].split("/")
    for folder in DEFINITIONS:
        for path in folder.glob(f"{group}_*.yaml"):
            for found in documents(path):
                if found["kind"] == "CustomResourceDefinition" and found["spec"]["names"]["kind"] == one["kind"]:
                    return next(v["schema"]["openAPIV3Schema"] for v in found["spec"]["versions"] if v["name"] == version)
    return None


@pytest.mark.parametrize("one", CUSTOM, ids=name_of)
def test_custom_resources_fit_their_definitions(one):
    schema = definition(one)
    if schema is None:
        pytest.skip(f"no definition of {one['kind']}")
    schema = closed(schema)
    schema["properties"]["metadata"] = {"type": "object"}
    jsonschema.validate(one, schema)


def test_kustomization_names_every_file():
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(listed) == [path.name for path in FILES]


@pytest.mark.skipif(not program("kubectl"), reason="no kubectl")
@pytest.mark.parametrize("folder, image, device", [("gpu", "0.1.0-vulkan", "--device=vulkan"), ("cpu", "0.1.0-cpu", "--device=cpu")])
def test_kustomize_renders_both(folder, image, device):
    rendered = render(MANIFESTS.parent / folder)
    assert {one["metadata"].get("namespace", "shoal") for one in rendered} == {"shoal"}
    container = next(one for one in rendered if one["kind"] == "Deployment" and one["metadata"]["name"] == "shoal")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == f"registry.example/shoal:{image}" and device in container["args"]
    assert ("nvidia.com/gpu" in container["resources"]["limits"]) == (folder == "gpu")
    dashboard = next(one for one in rendered if one["kind"] == "ConfigMap" and one["metadata"]["name"].startswith("shoal-dashboard"))
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1" and "grafana_dashboard.json" in dashboard["data"]
    for one in rendered:
        if one["apiVersion"] in {known["apiVersion"] for known in NATIVE}:
            kubernetes_validate.validate(one, VERSION, strict=True)


# --- with the server -------------------------------------------------------------------------------------------------


def container():
    return find("Deployment")["spec"]["template"]["spec"]["containers"][0]


def argument(name):
    return next(one.split("=", 1)[1] for one in container()["args"] if one.startswith(f"--{name}="))


def test_the_options_are_known():
    text = subprocess.run([ROOT / "build/shoal", "serve", "--help"], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    known = re.findall(r"^  --(\S+)", text, re.M)
    assert container()["args"][0] == "serve"
    assert {one[2:].split("=")[0] for one in container()["args"][1:]} <= set(known)


def test_the_grace_period_covers_a_drain():
    waits = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    assert waits + int(argument("drain-timeout")) < find("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_ports_and_labels_agree():
    labels = find("Deployment")["spec"]["template"]["metadata"]["labels"]
    ports = {one["containerPort"] for one in container()["ports"]}
    pool = find("InferencePool")["spec"]
    assert {one["number"] for one in pool["targetPorts"]} == ports == {int(argument("port"))}
    for chosen in (pool["selector"], find("PodDisruptionBudget")["spec"]["selector"], find("PodMonitor")["spec"]["selector"]):
        assert chosen["matchLabels"].items() <= labels.items()
    picker = find("Service", "endpoint-picker")
    assert pool["endpointPickerRef"]["name"] == picker["metadata"]["name"]
    assert pool["endpointPickerRef"]["port"]["number"] in {one["port"] for one in picker["spec"]["ports"]}
    assert find("PersistentVolumeClaim", "shoal-models")


@pytest.fixture(scope="module")
def page():
    """The server's metrics, after it answered the paths of all probes."""
    port = free_ports(1)[0]
    server = Server("127.0.0.1", port)
    try:
        paths = {container()[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
        paths |= {one["path"] for one in find("PodMonitor")["spec"]["podMetricsEndpoints"]}
        replies = {}
        for path in paths:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", path)
            reply = connection.getresponse()
            assert reply.status == 200, path
            replies[path] = reply.read().decode()
            connection.close()
        return replies["/metrics"]
    finally:
        server.stop()


def test_every_metric_of_autoscaler_and_dashboard_exists(page):
    samples = {re.match(r"[\w:]+", line)[0] for line in page.splitlines() if not line.startswith("#")}
    scaled = {one["pods"]["metric"]["name"] for one in find("HorizontalPodAutoscaler")["spec"]["metrics"]}
    assert scaled == {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} and scaled <= samples
    dashboard = json.loads((MANIFESTS / "grafana_dashboard.json").read_text(encoding="utf-8"))
    shown = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"(?:vllm|shoal)[:_]\w+", target["expr"])}
    assert len(shown) > 10 and shown <= samples, shown - samples
