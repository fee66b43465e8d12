"""Ollama's POST /api/pull: from the hub of --endpoint into --models-dir, one at a time, in a process that ends with its client. The hub of
these tests cuts, stalls and lies; huggingface_hub judges what is left in the directory."""

import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import signal
import threading

import pytest
from demo_model import FOLDER as DEMO
from hub_server import Hub, Repository
from huggingface_hub import scan_cache_dir
from shoal_server import PATIENCE_S, ROOT, process_is_alive, wait_until

GGUF = (ROOT / "build/checkpoints/llama-f16.gguf").read_bytes()
OPTIONS = ["--context", "512", "--kv-cache-bytes", "32M", "--stall-timeout", "1", "--retries", "0"]


@pytest.fixture(name="hub")
def start_hub():
    folder = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.is_file()}
    hub = Hub({"org/demo": {"main": Repository(folder, {name for name in folder if name.endswith(".safetensors")})},
               "org/tiny": {"main": Repository({"tiny-F16.gguf": GGUF, "tiny-Q2_K.gguf": b"GGUF, and nothing else", "README.md": b"#"},
                                               {"tiny-F16.gguf", "tiny-Q2_K.gguf"})}})
    yield hub
    hub.stop()


@pytest.fixture(name="server")
def start(hub, tmp_path, start_server):
    (tmp_path / "local").symlink_to(DEMO)
    return start_server("--models-dir", str(tmp_path), "--endpoint", hub.url, *OPTIONS)


def names(server):
    return {entry["id"] for entry in server.get("/v1/models").json["data"]}


def answer(server, model):
    reply = server.chat("Hello", model=model, temperature=0, max_tokens=8, ignore_eos=True)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def pull(server, model, **fields):
    """The lines of a download."""
    reply = server.request("POST", "/api/pull", {"model": model, **fields})
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-ndjson", reply.body
    return [json.loads(line) for line in reply.body.splitlines()]


def begin(server, model):
    """A download whose first line has come."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("POST", "/api/pull", json.dumps({"model": model}))
    response = connection.getresponse()
    assert json.loads(response.readline()) == {"status": "pulling manifest"}
    return connection, response


def pulling_pid(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text(encoding="ascii")
    for child in map(int, text.split()):
        if b"pull" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
            return child
    return None


def test_a_downloaded_model_answers(hub, server, tmp_path):
    assert names(server) == {"local"}
    lines = pull(server, "org/tiny")
    assert lines[0] == {"status": "pulling manifest"} and lines[-2:] == [{"status": "writing manifest"}, {"status": "success"}]
    digest = hashlib.sha256(GGUF).hexdigest()
    assert {line["digest"] for line in lines[1:-2]} == {f"sha256:{digest}"}
    assert {line["status"] for line in lines[1:-2]} == {f"pulling {digest[:12]}"}
    assert {line["total"] for line in lines[1:-2]} == {len(GGUF)}
    completed = [line["completed"] for line in lines[1:-2]]
    assert completed == sorted(completed) and completed[-1] == len(GGUF)
    assert names(server) == {"local", "org/tiny", "org/tiny:F16"}
    assert answer(server, "org/tiny") == answer(server, "org/tiny:F16")
    assert [line["status"] for line in pull(server, "org/tiny")] == ["pulling manifest", "writing manifest", "success"]
    assert pull(server, "org/demo")[-1] == {"status": "success"}
    assert answer(server, "org/demo") == answer(server, "local")
    report = scan_cache_dir(tmp_path)
    assert all(str(warning).endswith("/local") for warning in report.warnings)
    assert {repository.repo_id for repository in report.repos} == {"org/tiny", "org/demo"}


def test_the_directory_is_a_cache_at_the_start_too(hub, server, tmp_path, start_server):
    whole = server.request("POST", "/api/pull", {"name": "org/tiny:Q2_K", "stream": False})
    assert (whole.status, whole.json) == (200, {"status": "success"})
    assert pull(server, "org/tiny:f16")[-1] == {"status": "success"}  # it is org/tiny:F16
    assert answer(server, "org/tiny:f16") == answer(server, "org/tiny:F16")
    assert server.chat("Hello", model="Org/tiny:F16").status == 404
    assert names(server) == {"local", "org/tiny", "org/tiny:F16", "org/tiny:Q2_K"}
    assert server.chat("Hello", model="org/tiny:Q2_K").error["code"] == "model_failed"
    text = answer(server, "org/tiny")
    (tmp_path / "shoal.ini").write_text("[org/tiny:F16]\ncontext = 256\n", encoding="ascii")
    other = start_server("--models-dir", str(tmp_path), *OPTIONS)
    assert names(other) == names(server)
    assert answer(other, "org/tiny:F16") == text
    assert other.get("/props?model=org/tiny").json["default_generation_settings"]["n_ctx"] == 256
    refused = other.request("POST", "/api/pull", {"model": "org/tiny"})
    assert refused.status == 403 and "--endpoint" in refused.json["error"]


def test_an_empty_directory_is_filled(hub, tmp_path, start_server):
    """The server starts without a model, says so, and takes what is pulled or put there; then an empty directory is an accident."""
    server = start_server("--models-dir", str(tmp_path), "--endpoint", hub.url, *OPTIONS)
    assert names(server) == set() and "there is no model in it" in server.log_text()
    listed = server.get("/v1/models").json
    assert (listed["data"], listed["first_id"], listed["last_id"]) == ([], None, None)
    for path in ("/metrics", "/api/tags", "/api/ps", "/v1/status", "/ready", "/health"):
        assert server.get(path).status == 200, path
    assert server.chat("Hello", model="org/demo").error["code"] == "model_not_found"
    assert server.chat("Hello").error["code"] == "model_required"
    assert pull(server, "org/demo")[-1] == {"status": "success"}
    text = answer(server, "org/demo")
    (tmp_path / "models--org--demo").rename(tmp_path / ".away")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "the models stay as they were" in server.log_text(), "the reload to be refused")
    assert names(server) == {"org/demo"} and answer(server, "org/demo") == text


@pytest.mark.parametrize("body", [
    {}, {"model": 7}, {"model": "tiny"}, {"model": "../etc:x"}, {"model": "--json/x"}, {"model": "org/tiny@main"}, {"model": "a/b\nc"},
    {"model": "org/tiny", "insecure": True}, {"model": "org/tiny", "stream": "no"}, {"model": "org/tiny", "password": "x"},
    {"model": "org/tiny", "name": "org/tiny"}, {"model": "org/" + "x" * 400}, [], b"{", b""])
def test_other_bodies_are_refused(hub, server, body):
    reply = server.request("POST", "/api/pull", body)
    assert reply.status == 400 and set(reply.json) == {"error"}
    assert not hub.seen


def test_only_administrators_download(hub, tmp_path, tmp_path_factory, start_server):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("sk-root admin\nsk-one\n", encoding="ascii")
    keys.chmod(0o600)
    (tmp_path / "local").symlink_to(DEMO)
    server = start_server("--models-dir", str(tmp_path), "--endpoint", hub.url, "--api-key-file", str(keys), *OPTIONS)
    for key, status in (("sk-none", 401), ("sk-one", 403), ("sk-root", 200)):
        reply = server.request("POST", "/api/pull", {"model": "org/tiny:Q2_K", "stream": False}, {"Authorization": f"Bearer {key}"})
        assert reply.status == status, reply.body
        assert (len(hub.seen) > 0) == (status == 200)


def test_a_hub_that_cuts_or_lies(hub, server, tmp_path):
    def cut(handler, _name, data, first):
        handler.send_response(206 if first else 200)
        if first:
            handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - first))
        handler.end_headers()
        handler.wfile.write(data[first:first + 1000] if first < 1000 else b"")
        handler.cut()
        return True

    def lie(handler, _name, data, first):
        handler.send(200, bytes(len(data)))
        return True

    for fault, words in ((cut, "tiny-F16.gguf"), (lie, "hash")):
        hub.fault = fault
        lines = pull(server, "org/tiny")
        assert words in lines[-1]["error"] and "success" not in str(lines), lines
        whole = server.request("POST", "/api/pull", {"model": "org/tiny", "stream": False})
        assert whole.status == 500 and words in whole.json["error"]
        assert names(server) == {"local"}
    missing = pull(server, "org/missing")
    assert missing[0] == {"status": "pulling manifest"} and "error" in missing[-1]
    hub.fault = None
    assert pull(server, "org/tiny")[-1] == {"status": "success"}
    assert answer(server, "org/tiny")
    assert not list(tmp_path.rglob("*.incomplete"))


def begin_held(hub, server):
    """A download that waits in its first file: its connection, response, and an event that lets it go on."""
    reached, go_on = threading.Event(), threading.Event()

    def hold(_handler, _name, _data, _first):
        reached.set()
        go_on.wait(PATIENCE_S)

    hub.fault = hold
    connection, response = begin(server, "org/tiny")
    assert reached.wait(PATIENCE_S)
    return connection, response, go_on


def test_one_at_a_time_until_its_client_leaves(hub, server):
    connection, response, go_on = begin_held(hub, server)
    busy = server.request("POST", "/api/pull", {"model": "org/demo"})
    assert busy.status == 503 and int(busy.headers["retry-after"]) > 0 and "error" in busy.json
    assert answer(server, "local")  # the loop goes on
    pid = pulling_pid(server)
    response.close()
    connection.close()
    wait_until(lambda: not process_is_alive(pid), "the download to end with its client")
    go_on.set()
    hub.fault = None
    wait_until(lambda: server.request("POST", "/api/pull", {"model": "org/tiny", "stream": False}).status == 200, "the next one")
    assert answer(server, "org/tiny")


@pytest.mark.parametrize("how", ["killed", "drained"])
def test_a_download_that_is_ended_from_outside(hub, server, how):
    connection, response, go_on = begin_held(hub, server)
    pid = pulling_pid(server)
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        server.process.terminate()
    words = json.loads(response.read().splitlines()[-1])["error"]
    assert ("signal 9" if how == "killed" else "shutting down") in words
    connection.close()
    if how == "drained":
        assert server.wait_exit() == 0
    wait_until(lambda: not process_is_alive(pid), "the process to end")
    go_on.set()


def test_a_slow_reader_gets_the_end(hub, server):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        connection, response = begin(server, "org/demo")
        assert pool.submit(answer, server, "local").result()
        assert response.read().splitlines()[-1] == b'{"status":"success"}'
        connection.close()
