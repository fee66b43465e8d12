"""The part of the Kubernetes API that an endpoint picker reads: pods, and the pool and objectives of scripts/kubernetes, listed and watched; and a
kubelet that sets each pod's Ready condition by its server's GET /ready, every 50 ms."""

import http.client
import http.server
import json
import threading
import urllib.parse

NAMESPACE = "shoal"
PROBE_S = 0.05
POOLS, OBJECTIVES = "inference.networking.k8s.io/v1", "inference.networking.x-k8s.io/v1alpha2"
# (group and version, name): kind
RESOURCES = {("v1", "pods"): "Pod", (POOLS, "inferencepools"): "InferencePool", (OBJECTIVES, "inferenceobjectives"): "InferenceObjective",
             (OBJECTIVES, "inferencemodelrewrites"): "InferenceModelRewrite"}


class Objects:
    """Objects of all kinds, with a version that grows with each change."""

    def __init__(self):
        self.changed = threading.Condition()
        self.version = 1
        self.objects = {}  # (kind, name) -> object
        self.events = []  # (version, kind, type, object as it was then)
        self.stopped = False

    def set(self, value):
        """Adds or replaces an object, unless it is as it was."""
        kind, name = value["kind"], value["metadata"]["name"]
        with self.changed:
            known = self.objects.get((kind, name))
            if known and {**known, "metadata": None} == {**value, "metadata": None}:
                return
            self.version += 1
            metadata = {**value["metadata"], "namespace": NAMESPACE, "uid": f"{kind}-{name}", "resourceVersion": str(self.version), "generation": 1}
            self.objects[kind, name] = {**value, "metadata": metadata}
            self.events.append((self.version, kind, "MODIFIED" if known else "ADDED", self.objects[kind, name]))
            self.changed.notify_all()

    def of(self, kind):
        return [value for (one, _), value in self.objects.items() if one == kind]

    def stop(self):
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


def discovery(group_version):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [
        {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["get", "list", "watch"]}
        for (version, name), kind in RESOURCES.items() if version == group_version]}


def group(group_version):
    name, version = group_version.split("/")
    chosen = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [chosen], "preferredVersion": chosen}


FIXED = {
    "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(POOLS), group(OBJECTIVES)]},
    "/api/v1": discovery("v1"), f"/apis/{POOLS}": discovery(POOLS), f"/apis/{OBJECTIVES}": discovery(OBJECTIVES)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(url.query))
        if url.path in FIXED:
            self.reply(FIXED[url.path])
            return
        for (version, name), kind in RESOURCES.items():
            root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
            if url.path in (f"{root}/{name}", f"{root}/namespaces/{NAMESPACE}/{name}"):
                if asked.get("watch") in ("true", "1"):
                    self.watch(kind, version, asked)
                else:
                    self.list(kind, version)
                return
        self.reply({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}, 404)

    def list(self, kind, version):
        objects = self.server.objects
        with objects.changed:
            self.reply({"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": str(objects.version)},
                        "items": objects.of(kind)})

    def event(self, kind, value):
        line = json.dumps({"type": kind, "object": value}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def watch(self, kind, version, asked):
        objects = self.server.objects
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            with objects.changed:
                seen = int(asked.get("resourceVersion") or 0)
                if asked.get("sendInitialEvents") == "true":
                    seen = objects.version
                    for value in objects.of(kind):
                        self.event("ADDED", value)
                    self.event("BOOKMARK", {"kind": kind, "apiVersion": version, "metadata": {
                        "resourceVersion": str(seen), "annotations": {"k8s.io/initial-events-end": "true"}}})
            while True:
                with objects.changed:
                    objects.changed.wait_for(lambda: objects.stopped or objects.version > seen)
                    if objects.stopped:
                        return
                    new = [one for one in objects.events if one[0] > seen and one[1] == kind]
                    seen = objects.version
                for _, _, what, value in new:
                    self.event(what, value)
        except OSError:
            pass  # the watcher left


def pod(name, address, ready, labels):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "shoal", "image": "shoal"}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": str(ready)}]}}


class ClusterApi:
    """Serves pods {name: address} with servers at `port`, and other objects, on a loopback port."""

    def __init__(self, addresses, port, labels, others):
        self.addresses, self.port, self.labels, self.objects = addresses, port, labels, Objects()
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.objects = self.objects
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.http.serve_forever, daemon=True), threading.Thread(target=self.probe, daemon=True)]
        for one in others:
            self.objects.set(one)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.objects.stop()
        self.http.shutdown()
        self.http.server_close()
        for thread in self.threads:
            thread.join()

    def probe(self):
        while not self.over.wait(PROBE_S):
            for name, address in self.addresses.items():
                self.objects.set(pod(name, address, is_ready(address, self.port), self.labels))

    def ready(self, name):
        known = self.objects.objects.get(("Pod", name))
        return known is not None and known["status"]["conditions"][0]["status"] == "True"

    def kubeconfig(self, path):
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test", "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.http.server_address[1]}"}}],
            "users": [{"name": "test", "user": {}}]}), encoding="utf-8")
        return path


def is_ready(address, port):
    connection = http.client.HTTPConnection(address, port, timeout=5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
