"""Weights that are overwritten or replaced under a running server: it says so, and no worker serves the new ones."""

import os
import pathlib
import re
import shutil
import signal

import pytest

from shoal_server import ROOT, ShoalServer, wait_until

FORMS = ROOT / "build/checkpoints"  # scripts/golden/checkpoint_variants.py
FIELDS = {"temperature": 0, "max_tokens": 8, "logprobs": True}


@pytest.fixture(params=["llama-f16.gguf", "llama-f16"])
def checkpoint(request, tmp_path):
    """(path for --model, file with the weights)"""
    source = FORMS / request.param
    target = tmp_path / request.param
    if source.is_dir():
        shutil.copytree(source, target)
        return target, target / "model.safetensors"
    shutil.copy(source, target)
    return target, target


def overwrite(weights):
    with weights.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(bytes(4096))


def replace(weights):
    other = weights.with_suffix(".new")
    shutil.copy(weights, other)
    overwrite(other)
    os.replace(other, weights)


def wait_told(server, name):
    wait_until(lambda: server.metrics()["shoal_weights_changed"] == 1, "the change to be noticed")
    ready = server.get("/ready")
    assert ready.status == 503 and ready.json["status"] == "weights_changed"
    assert server.get("/v1/status").json["changed_weights"] == name
    assert server.get("/health").status == 200
    assert server.log_text().count(f"checkpoint_changed: {name} ") == 1


def restart(server, count):
    """Kills the worker; waits for the next one, whose start is the server's `count`th after the first."""
    os.kill(server.worker_pid(), signal.SIGKILL)
    wait_until(lambda: server.get("/v1/status").json["worker_restarts"] == count, "the next worker")
    wait_until(lambda: server.get("/v1/status").json["workers"][0]["state"] == "ready", "the next worker to be ready")


@pytest.mark.parametrize("name", ["llama-f16.gguf", "llama-f16", "llama-f32-sharded"])
def test_a_worker_is_started_again_with_replaced_weights(tmp_path, name):
    """The server holds the old files open. Their prepared weights are taken over, though their inodes have changed."""
    model = tmp_path / name
    (shutil.copytree if (FORMS / name).is_dir() else shutil.copy)(FORMS / name, model)
    weights = sorted(model.glob("*.safetensors"))[0] if model.is_dir() else model
    with ShoalServer("--no-reload", "--allow-debug", model=model) as server:
        server.wait_ready()
        before = server.chat("Hi", **FIELDS).json["choices"]
        replace(weights)
        wait_told(server, weights.name)
        restart(server, 1)
        assert server.chat("Hi", **FIELDS).json["choices"] == before
        shutil.rmtree(model) if model.is_dir() else model.unlink()
        restart(server, 2)
        assert server.chat("Hi", **FIELDS).json["choices"] == before
        assert server.get("/ready").status == 503 and server.get("/ready").json["status"] == "weights_changed"
        assert len(re.findall("weights .* MB adopted", server.log_text())) == 2, server.log_text()[-3000:]
        opened = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{server.worker_pid()}/fd").iterdir()]
        assert not any(str(tmp_path) in name for name in opened), opened


@pytest.mark.parametrize("change", [overwrite, os.utime])
def test_a_change_is_told_and_no_worker_serves_it(checkpoint, change):
    model, weights = checkpoint
    with ShoalServer("--no-reload", model=model) as server:
        server.wait_ready()
        assert server.get("/v1/status").json["changed_weights"] is None
        change(weights)
        wait_told(server, weights.name)
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_until(lambda: f"{weights.name} was overwritten in place since the server was started" in server.log_text(),
                   "a worker to refuse the file")
        assert server.get("/ready").status == 503
        assert server.get("/v1/status").json["workers"][0]["state"] != "ready"


def test_a_change_can_be_ignored(checkpoint):
    model, weights = checkpoint
    with ShoalServer("--ignore-weight-changes", model=model) as server:
        server.wait_ready()
        os.utime(weights)
        wait_until(lambda: server.metrics()["shoal_weights_changed"] == 1, "the change to be noticed")
        assert server.get("/ready").status == 200
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_until(lambda: server.get("/v1/status").json["worker_restarts"] == 1, "the next worker")
        server.wait_ready()
        assert server.chat("Hi", max_tokens=2).status == 200


def test_files_put_back_are_served_again(checkpoint):
    model, weights = checkpoint
    was = weights.stat()
    with ShoalServer("--no-reload", model=model) as server:
        server.wait_ready()
        os.utime(weights)
        wait_told(server, weights.name)
        os.utime(weights, ns=(was.st_atime_ns, was.st_mtime_ns))
        wait_until(lambda: server.get("/ready").status == 200, "the files to be as they were")
        assert server.get("/v1/status").json["changed_weights"] is None
