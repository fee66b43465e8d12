"""etcd and kube-apiserver, with what a kubelet and a controller would do for two pods: each runs on no node, and its Ready condition follows its
server's GET /ready."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import yaml
from cluster_api import NAMESPACE, PROBE_S, is_ready

PATIENCE_S = 300
KUBERNETES = pathlib.Path(os.environ.get("KUBERNETES") or "/nonexistent")
ISSUER = "https://kubernetes.default.svc"
TOKEN = "an-administrator-of-this-test"


def program(name):
    """In KUBERNETES, or on the PATH; None: there is none."""
    return shutil.which(name, path=f"{KUBERNETES}{os.pathsep}{os.environ['PATH']}")


def is_there():
    return (KUBERNETES / "kube-apiserver").exists() and program("etcd") and program("kubectl")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class ApiServer:
    """An empty cluster: both processes, on loopback ports."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        clients, peers, self.port = free_ports(3)
        subprocess.run(["openssl", "genrsa", "-out", folder / "accounts.key", "2048"], check=True, capture_output=True, timeout=PATIENCE_S)
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n', encoding="ascii")
        urls = [f"http://127.0.0.1:{port}" for port in (clients, peers)]
        try:
            self.start("etcd", "--data-dir", folder / "etcd", "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
                       "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}")
            self.start("kube-apiserver", "--etcd-servers", urls[0], "--bind-address", "127.0.0.1", "--secure-port", str(self.port),
                       "--cert-dir", folder / "certificates", "--token-auth-file", folder / "tokens.csv", "--authorization-mode", "RBAC",
                       "--service-account-issuer", ISSUER, "--service-account-key-file", folder / "accounts.key",
                       "--service-account-signing-key-file", folder / "accounts.key", "--service-cluster-ip-range", "10.0.0.0/24")
            self.wait_until(self.is_ready, "kube-apiserver to be ready")
            self.admin = self.kubeconfig(folder / "admin.kubeconfig", TOKEN)
        except BaseException:
            self.stop()
            raise

    def start(self, name, *arguments):
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen([program(name), *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
            ended = [process.args[0] for process in self.processes if process.poll() is not None]
            assert not ended, f"{ended} ended; logs in {self.folder}"
            time.sleep(0.1)

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", raw=True) == b"ok"
        except OSError:
            return False

    def call(self, method, path, body=None, raw=False, media="application/json"):
        """The reply's object; an HTTPError for a refusal."""
        context = ssl.create_default_context(cafile=str(self.folder / "certificates/apiserver.crt"))
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", json.dumps(body).encode() if body is not None else None,
                                         {"Authorization": f"Bearer {TOKEN}", "Content-Type": media}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as reply:
            text = reply.read()
        return text if raw else json.loads(text)

    def kubectl(self, *arguments, given=None, check=True):
        ended = subprocess.run([program("kubectl"), "--kubeconfig", self.admin, *map(str, arguments)], input=given, capture_output=True, text=True,
                               timeout=PATIENCE_S, check=False)
        assert not check or ended.returncode == 0, ended.stderr
        return ended

    def kubeconfig(self, path, token):
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                      "certificate-authority": str(self.folder / "certificates/apiserver.crt")}}],
            "users": [{"name": "test", "user": {"token": token}}]}), encoding="utf-8")
        return path

    def account_token(self, name):
        """Of a service account, as its pods have one."""
        reply = self.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token",
                          {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        return reply["status"]["token"]


class RealApi:
    """Pods {name: address} of servers at `port` in a cluster that has the manifests, made of the Deployment's template; and other objects.
    The picker has the rights of its own service account. Interface as ClusterApi (cluster_api.py)."""

    def __init__(self, server, addresses, port, template, others):
        self.server, self.addresses, self.port, self.template, self.others = server, addresses, port, template, others
        self.known, self.over = {}, threading.Event()
        self.thread = threading.Thread(target=self.probe, daemon=True)

    def __enter__(self):
        for one in self.others:
            self.server.kubectl("apply", "--server-side", "--force-conflicts", "--namespace", NAMESPACE, "-f", "-", given=json.dumps(one))
        for name in self.addresses:
            spec = {**self.template["spec"], "nodeName": f"node-of-{name}"}
            self.server.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": self.template["metadata"]["labels"]}, "spec": spec})
            self.set_ready(name, False)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for name in self.addresses:
            self.server.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}?gracePeriodSeconds=0")

    def set_ready(self, name, ready):
        address = self.addresses[name]
        self.server.call("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status", {"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": address, "hostIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": str(ready)}]}}, media="application/merge-patch+json")
        self.known[name] = ready

    def probe(self):
        while not self.over.wait(PROBE_S):
            for name, address in self.addresses.items():
                ready = is_ready(address, self.port)
                if ready != self.known[name]:
                    self.set_ready(name, ready)

    def ready(self, name):
        conditions = self.server.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")["status"]["conditions"]
        return conditions[0]["status"] == "True"

    def kubeconfig(self, path):
        return self.server.kubeconfig(path, self.server.account_token("endpoint-picker"))


def render(folder):
    """The objects that `kubectl apply -k folder` creates."""
    text = subprocess.run([program("kubectl"), "kustomize", folder], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    return [one for one in yaml.safe_load_all(text) if one]
