"""The container images: the same bytes twice, small, without root; the server answers from the image's root file system, which it cannot write.

With podman where the kernel lets it run a container, otherwise the image is unpacked by umoci and run by bubblewrap as Kubernetes would run it: as its
user, without capabilities, read only, with a tmpfs at /tmp."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import urllib.request

import pytest

from conftest import PATIENCE_S, ROOT

MODEL = ROOT / "tests/model/demo"
USER = "65532"
MOST_BYTES = 150_000_000
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mmdebstrap"), reason="needs root and mmdebstrap")


def make(*variants):
    made = subprocess.run(["scripts/package/container", *variants], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert made.returncode == 0, made.stderr
    return [ROOT / line for line in made.stdout.splitlines()]


class Image:
    """A tar archive in the OCI layout; each blob has the digest that its descriptor says."""

    def __init__(self, path):
        self.path = path
        with tarfile.open(path) as archive:
            self.members = {one.name: archive.extractfile(one).read() for one in archive.getmembers()}
        assert json.loads(self.members["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        self.manifest_of = json.loads(self.members["index.json"])["manifests"][0]
        self.manifest = json.loads(self.blob(self.manifest_of))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layer = self.blob(self.manifest["layers"][0])

    def blob(self, descriptor):
        data = self.members["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"] and "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
        return data

    @property
    def tag(self):
        return self.manifest_of["annotations"]["org.opencontainers.image.ref.name"]


@pytest.fixture(scope="module")
def images():
    return {re.search(r"_([a-z]+)\.tar$", path.name)[1]: Image(path) for path in make()}


def unpack(image, folder):
    """The root file system, unpacked by umoci."""
    layout, bundle = folder / "layout", folder / "bundle"
    layout.mkdir()
    with tarfile.open(image.path) as archive:
        archive.extractall(layout, filter="data")
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:{image.tag}", bundle], check=True, capture_output=True, timeout=PATIENCE_S)
    return bundle / "rootfs"


def test_both_variants_are_made_twice_with_the_same_bytes(images):
    first = {name: image.path.read_bytes() for name, image in images.items()}
    assert set(first) == {"cpu", "vulkan"}
    again = make()
    assert {re.search(r"_([a-z]+)\.tar$", path.name)[1]: path.read_bytes() for path in again} == first


def test_what_the_configuration_says(images):
    for name, image in images.items():
        config = image.config["config"]
        assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"] == ["/usr/bin/shoal"] and config["Cmd"][0] == "serve"
        assert config["Healthcheck"]["Test"][0] == "CMD"
        assert any(one.startswith("NVIDIA_DRIVER_CAPABILITIES=") for one in config["Env"]) == (name == "vulkan")


def test_the_image_without_drivers_is_small(images, tmp_path):
    assert images["cpu"].path.stat().st_size < MOST_BYTES
    root = unpack(images["cpu"], tmp_path)
    assert sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()) < MOST_BYTES


def test_no_file_is_set_uid_or_writable_by_others(images, tmp_path):
    for name, image in images.items():
        (tmp_path / name).mkdir()
        root = unpack(image, tmp_path / name)
        for path in root.rglob("*"):
            mode = path.lstat().st_mode
            if not path.is_symlink():
                assert mode & 0o6000 == 0 and (mode & 0o022 == 0 or path == root / "tmp"), path


def test_the_bill_of_materials_names_every_package(images, tmp_path):
    """The packages that were unpacked are those whose copyright files are there."""
    root = unpack(images["vulkan"], tmp_path)
    named = {one["name"]: one["versionInfo"] for one in json.loads((root / "usr/share/doc/shoal/shoal.spdx.json").read_text(encoding="utf-8"))["packages"]}
    unpacked = {path.parent.name for path in (root / "usr/share/doc").glob("*/copyright")}
    assert len(unpacked) > 50 and unpacked <= set(named)
    assert {"mesa-vulkan-drivers", "libc6", "busybox-static", "marked"} <= set(named)
    assert all(named[name].startswith("= ") for name in unpacked - {"shoal"})


def inside(root, *command):
    """A command in the unpacked image, as a runtime would start it. The network is this machine's."""
    return ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", MODEL, "/models", "--unshare-user",
            "--unshare-pid", "--unshare-ipc", "--uid", USER, "--gid", USER, "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
            "--die-with-parent", *command]


def podman_command(image, folder):
    """The start of a podman command that runs the image, or None where no container can be run."""
    if not shutil.which("podman"):
        return None
    podman = ["podman", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"]
    pulled = subprocess.run([*podman, "pull", "-q", f"oci-archive:{image.path}"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if pulled.returncode != 0:
        return None
    run = [*podman, "run", "--rm", "--network", "host", "--read-only", "--cap-drop", "all", "-v", f"{MODEL}:/models:ro", pulled.stdout.split()[-1]]
    tried = subprocess.run([*run, "--version"], capture_output=True, timeout=PATIENCE_S, check=False)
    return run if tried.returncode == 0 else None


@pytest.mark.parametrize("variant", ["cpu", "vulkan"])
def test_it_answers_is_healthy_and_stops(images, variant, tmp_path):
    root = unpack(images[variant], tmp_path)
    podman = podman_command(images[variant], tmp_path)
    options = ["serve", "--model", "/models", "--port", "0", "--device", "cpu", "--log-level", "warn"]
    command = [*podman, *options] if podman else inside(root, "/usr/bin/shoal", *options)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = re.search(r":(\d+)$", server.stdout.readline().strip())[1]
        for path in ("health", "ready"):
            probe = subprocess.run(inside(root, "/bin/sh", "-c", f"until /bin/wget -q -O - http://127.0.0.1:{port}/{path}; do /bin/sleep 1; done"),
                                   capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert probe.returncode == 0, probe.stderr
        body = {"model": "models", "temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode()),
                                    timeout=PATIENCE_S) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"]
        if not podman:
            assert served_by(server.pid) == {int(USER)}
    finally:
        stop(server, podman)
    assert server.returncode == 0, server.stderr.read()


def descendants(pid):
    """The processes below a process, from the children to theirs."""
    found = []
    for listing in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text(encoding="ascii").split()):
            found += [child, *descendants(child)]
    return found


def served_by(pid):
    """The users, as the container sees them, of the programs named shoal."""
    users = set()
    for one in descendants(pid):
        if pathlib.Path(f"/proc/{one}/comm").read_text(encoding="ascii").startswith("shoal"):
            inner, outer, _ = map(int, pathlib.Path(f"/proc/{one}/uid_map").read_text(encoding="ascii").split())
            user = int(re.search(r"^Uid:\s+(\d+)", pathlib.Path(f"/proc/{one}/status").read_text(encoding="ascii"), re.M)[1])
            users.add(user - outer + inner)
    return users


def stop(server, podman):
    """SIGTERM to the server itself; bubblewrap, its parent, passes none on."""
    if server.poll() is None:
        target = server.pid
        for one in [] if podman else descendants(server.pid):
            if pathlib.Path(f"/proc/{one}/comm").read_text(encoding="ascii") == "shoal\n":
                target = one
                break
        os.kill(target, signal.SIGTERM)
    server.wait(PATIENCE_S)


def test_the_root_cannot_be_written(images, tmp_path):
    root = unpack(images["cpu"], tmp_path)
    done = subprocess.run(inside(root, "/bin/sh", "-c", "echo x >/usr/bin/shoal || echo x >/etc/passwd || echo x >/models/x || echo none"),
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "none\n"
