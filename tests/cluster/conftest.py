"""Two servers, an endpoint picker, and the pods that it reads, in a stand-in for the Kubernetes API and in a real one. Tests whose programs are not
there are skipped: PICKER names a checkout of github.com/kubernetes-sigs/gateway-api-inference-extension (v1.5.0) with its program `epp` built at the
top; KUBERNETES a folder with kube-apiserver, and with etcd and kubectl if they are not on the PATH; GATEWAY_API and PROMETHEUS_OPERATOR the folders of
the modules sigs.k8s.io/gateway-api and github.com/prometheus-operator/prometheus-operator, for their definitions."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "build/cluster-python"), str(pathlib.Path(__file__).parent)]

import yaml  # noqa: E402
from cluster_api import NAMESPACE, ClusterApi, is_ready  # noqa: E402
from real_api import ApiServer, RealApi, is_there  # noqa: E402
from small_gateway import Gateway  # noqa: E402

MODEL = ROOT / "tests/model/demo"
PATIENCE_S = 300
MANIFESTS = ROOT / "scripts/kubernetes/gpu"
PICKER, GATEWAY_API, PROMETHEUS_OPERATOR = (
    pathlib.Path(os.environ.get(name) or "/nonexistent") for name in ("PICKER", "GATEWAY_API", "PROMETHEUS_OPERATOR"))
DEFINITIONS = [PICKER / "config/crd/bases", GATEWAY_API / "config/crd/standard", PROMETHEUS_OPERATOR / "example/prometheus-operator-crd"]
ADDRESSES = {"shoal-a": "127.0.0.1", "shoal-b": "127.0.0.2"}


yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)  # the word `=`, in enums of definitions


def documents(path):
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def free_ports(count, address="127.0.0.1"):
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((address, 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.02)


class Server:
    """A server of the demo model on an address of its own."""

    def __init__(self, address, port, *options):
        self.process = subprocess.Popen(
            [ROOT / "build/shoal", "serve", "--model", MODEL, "--device", "cpu", "--threads", "1", "--host", address, "--port", str(port),
             "--log-level", "warn", *options], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self.process.stdout.readline().decode()
        assert re.fullmatch(rf"listening on http://{re.escape(address)}:{port}\n", line), line
        wait_until(lambda: is_ready(address, port), "the server to be ready")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class Picker:
    """The endpoint picker with the pool and the plugins of scripts/kubernetes."""

    def __init__(self, api, folder):
        self.port, health, metrics = free_ports(3)
        plugins = next(one for one in documents(MANIFESTS / "endpoint_picker.yaml") if one["kind"] == "ConfigMap")["data"]["plugins.yaml"]
        (folder / "plugins.yaml").write_text(plugins, encoding="utf-8")
        self.log = (folder / "picker.log").open("w+b")
        self.process = subprocess.Popen(
            [PICKER / "epp", "--pool-name", "shoal", "--pool-namespace", NAMESPACE, "--grpc-port", str(self.port),
             "--grpc-health-port", str(health), "--metrics-port", str(metrics), "--secure-serving=false", "--metrics-endpoint-auth=false",
             "--enable-pprof=false", "--tracing=false", "--zap-encoder", "json", "-v", "5", "--config-file", folder / "plugins.yaml"],
            env={**os.environ, "KUBECONFIG": str(api.kubeconfig(folder / "kubeconfig"))},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def log_text(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()


class Cluster:
    """Both servers have one port and an address each, as pods have."""

    def __init__(self, stack, folder, kubernetes):
        self.port, self.servers = free_ports(1)[0], {}
        for address in ADDRESSES.values():
            self.servers[f"{address}:{self.port}"] = server = Server(address, self.port)
            stack.callback(server.stop)
        pool, *objectives = documents(MANIFESTS / "inference_pool.yaml") + documents(MANIFESTS / "inference_objectives.yaml")
        pool["spec"]["targetPorts"] = [{"number": self.port}]
        if kubernetes:
            template = next(one for one in documents(MANIFESTS / "deployment.yaml") if one["kind"] == "Deployment")["spec"]["template"]
            api = RealApi(kubernetes, ADDRESSES, self.port, template, [pool, *objectives])
        else:
            api = ClusterApi(ADDRESSES, self.port, pool["spec"]["selector"]["matchLabels"], [pool, *objectives])
        self.api = stack.enter_context(api)
        self.picker = Picker(self.api, folder)
        stack.callback(self.picker.stop)
        self.gateway = Gateway(self.picker.port)
        stack.callback(self.gateway.close)
        wait_until(lambda: self.scraped().keys() == set(self.servers), "the picker to scrape both servers")

    def scraped(self):
        """{endpoint: what the picker read last from its metrics}"""
        found = {}
        for line in self.picker.log_text().splitlines():
            if "Refreshed metrics" in line:
                entry = json.loads(line)
                found[f"{ADDRESSES[entry['endpoint']['name'].removesuffix('-rank-0')]}:{self.port}"] = entry["updated"]
        return found

    def name(self, endpoint):
        """The pod's."""
        return next(name for name, address in ADDRESSES.items() if endpoint == f"{address}:{self.port}")

    def metrics(self, endpoint):
        with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=PATIENCE_S) as reply:
            return reply.read().decode()

    def prefix_hits(self, endpoint):
        return float(re.search(r"^vllm:prefix_cache_hits_total\{[^}]*\} (\S+)", self.metrics(endpoint), re.M)[1])

    def chat(self, content, **fields):
        """(endpoint, text, endpoints that failed before)"""
        endpoint, answer, failed = self.gateway.post("/v1/chat/completions", {
            "model": "demo", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": content}], **fields})
        return endpoint, answer["choices"][0]["message"]["content"], failed


@pytest.fixture(scope="session", name="kubernetes")
def start_kubernetes(tmp_path_factory):
    """A cluster with the definitions of custom resources and the manifests' namespace with its account, which a controller would make."""
    if not is_there():
        pytest.skip("KUBERNETES names no folder with kube-apiserver, or etcd or kubectl is not there")
    for folder in DEFINITIONS:
        if not folder.is_dir():
            pytest.skip("PICKER, GATEWAY_API or PROMETHEUS_OPERATOR names no folder with definitions")
    server = ApiServer(tmp_path_factory.mktemp("kubernetes"))
    try:
        for folder in DEFINITIONS[:2]:
            server.kubectl("apply", "--server-side", "-f", folder)
        server.kubectl("apply", "--server-side", "-f", DEFINITIONS[2] / "monitoring.coreos.com_podmonitors.yaml")
        server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all")
        server.kubectl("apply", "-f", MANIFESTS / "namespace.yaml")
        server.kubectl("create", "serviceaccount", "default", "--namespace", NAMESPACE)
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["stand-in", "kube-apiserver"])
def cluster(tmp_path, request):
    if not (PICKER / "epp").exists():
        pytest.skip("PICKER names no checkout with a built endpoint picker")
    kubernetes = request.getfixturevalue("kubernetes") if request.param == "kube-apiserver" else None
    if kubernetes:
        kubernetes.kubectl("apply", "-k", MANIFESTS)
    with contextlib.ExitStack() as stack:
        yield Cluster(stack, tmp_path, kubernetes)
