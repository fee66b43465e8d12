"""A real kube-apiserver with the definitions of the custom resources: it takes scripts/kubernetes as a dry run and for real, keeps every field, and
refuses what is wrong."""

import copy
import json

import pytest
from real_api import NAMESPACE, program, render

from conftest import MANIFESTS

FOLDERS = [MANIFESTS, MANIFESTS.parent / "cpu"]


def rendered(folder):
    return render(folder) if program("kubectl") else []


def find(objects, kind, name="shoal"):
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def lost(wrote, has, path=""):
    """The places of a written value that the server's object does not have."""
    if isinstance(wrote, dict):
        return [place for name, value in wrote.items()
                for place in (lost(value, has.get(name), f"{path}.{name}") if isinstance(has, dict) else [f"{path}.{name}"])]
    if isinstance(wrote, list):
        if not isinstance(has, list) or len(wrote) != len(has):
            return [path]
        return [place for i, (one, other) in enumerate(zip(wrote, has)) for place in lost(one, other, f"{path}[{i}]")]
    return [] if wrote == has else [path]


def place_of(server, one):
    """The object as the server has it."""
    group, kind = one["apiVersion"].split("/")[0] if "/" in one["apiVersion"] else "", one["kind"]
    namespace = [] if kind == "Namespace" else ["--namespace", NAMESPACE]
    return json.loads(server.kubectl("get", f"{kind}.{group}" if group else kind, one["metadata"]["name"], *namespace, "-o", "json").stdout)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_dry_run_takes_the_manifests(kubernetes, folder):
    """With strict validation: an unknown field is an error."""
    said = kubernetes.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", folder).stdout
    assert said.count("(server dry run)") == len(rendered(folder)) >= 17


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_field_is_kept(kubernetes, folder):
    """Fields that a definition does not know would be removed, silently without strict validation."""
    kubernetes.kubectl("apply", "--validate=strict", "-k", folder)
    for one in rendered(folder):
        assert not lost(one, place_of(kubernetes, one)), one["kind"]


def test_pods_keep_to_the_restricted_standard(kubernetes):
    """Kubernetes' strictest admission policy for pods takes the servers and the picker, and refuses a pod that may gain rights."""
    kubernetes.kubectl("create", "namespace", "strict")
    kubernetes.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    for name in ("default", "endpoint-picker"):
        kubernetes.kubectl("create", "serviceaccount", name, "--namespace", "strict")
    for name in ("shoal", "endpoint-picker"):
        template = find(rendered(MANIFESTS), "Deployment", name)["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": copy.deepcopy(template["spec"])}
        kubernetes.kubectl("create", "--namespace", "strict", "-f", "-", given=json.dumps(pod))
        pod["metadata"]["name"] += "-weak"
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        ended = kubernetes.kubectl("create", "--namespace", "strict", "-f", "-", given=json.dumps(pod), check=False)
        assert ended.returncode != 0 and 'violates PodSecurity "restricted' in ended.stderr, ended.stderr


WRONG = [("Deployment", ("spec", "template", "spec", "containers", 0, "livenesProbe"), {}, "unknown field"),
         ("InferencePool", ("spec", "targetPorts", 0, "number"), 0, "greater than or equal to 1"),
         ("InferencePool", ("spec", "endpointPickerRef", "failureMod"), "FailOpen", "unknown field"),
         ("HTTPRoute", ("spec", "rules", 0, "timeouts", "request"), "600", "spec.rules[0].timeouts.request"),
         ("HorizontalPodAutoscaler", ("spec", "maxReplicas"), 1, "must be greater than or equal to `minReplicas`"),
         ("PodDisruptionBudget", ("spec", "minAvailable"), 1, "minAvailable and maxUnavailable cannot be both set")]


@pytest.mark.parametrize("kind, path, value, words", WRONG, ids=lambda one: str(one))
def test_wrong_values_are_refused(kubernetes, kind, path, value, words):
    one = copy.deepcopy(find(rendered(MANIFESTS), kind))
    at = one
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    ended = kubernetes.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=json.dumps(one), check=False)
    assert ended.returncode != 0 and words in ended.stderr, ended.stderr


def test_the_picker_may_read_its_pool_and_nothing_else(kubernetes, tmp_path):
    kubernetes.kubectl("apply", "-k", MANIFESTS)
    config = kubernetes.kubeconfig(tmp_path / "picker", kubernetes.account_token("endpoint-picker"))

    def may(verb, what, namespace=NAMESPACE):
        ended = kubernetes.kubectl("auth", "can-i", verb, what, "--namespace", namespace, "--kubeconfig", config, check=False)
        return ended.stdout.strip() == "yes"
    for what in ("pods", "inferencepools.inference.networking.k8s.io", "inferenceobjectives.inference.networking.x-k8s.io"):
        assert may("watch", what) and may("list", what)
        assert not may("delete", what) and not may("list", what, "default")
    assert not may("get", "secrets") and not may("create", "pods")
