"""Weights that are overwritten or replaced under a running server: it says so, and no worker serves the new ones."""

import os
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


@pytest.mark.parametrize("change", [overwrite, replace])
def test_a_change_is_told_and_no_worker_serves_it(checkpoint, change):
    model, weights = checkpoint
    with ShoalServer("--no-reload", model=model) as server:
        server.wait_ready()
        assert server.get("/v1/status").json["changed_weights"] is None
        before = server.chat("Hi", **FIELDS).json["choices"]
        change(weights)
        wait_told(server, weights.name)
        if change is replace:
            assert server.chat("Hi", **FIELDS).json["choices"] == before, "the mapped files are the old ones"
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_until(lambda: f"{weights.name} is not the file that the server was started with" in server.log_text(),
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
