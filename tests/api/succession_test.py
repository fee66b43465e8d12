"""SIGUSR2: a new program takes over the port of a server under load. No request is refused, cut or lost."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import threading

import pytest
from service_manager_test import Manager
from shoal_server import BUILD, PATIENCE_S, ROOT, process_is_alive, wait_until

FORMS = ROOT / "build/checkpoints"  # scripts/golden/checkpoint_variants.py
SMALL = ["--context", "512", "--kv-cache-bytes", "32M", "--drain-timeout", "60", "--allow-debug"]  # /proc is read


@pytest.fixture
def programs(tmp_path):
    """A folder with copies of the programs, as they are installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("shoal", "shoal-worker", "shoal-media"):
        shutil.copy(BUILD / name, folder / name)
    return folder


@pytest.fixture
def ends():
    """Processes that are no children of the test; they are ended after it."""
    pids = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for pid in pids:
        wait_until(lambda pid=pid: not process_is_alive(pid), "the successor to end")


def install(program):
    """Replaces it as a package manager does: by a rename."""
    shutil.copy(program, program.with_suffix(".new"))
    os.replace(program.with_suffix(".new"), program)


def successors(server):
    return [int(pid) for pid in re.findall(r"a successor is starting, process (\d+)", server.log_text())]


def succeed(server, pid, ends):
    """Sends the signal to the process that serves; returns the one that serves then."""
    count = len(successors(server))
    os.kill(pid, signal.SIGUSR2)
    new = wait_until(lambda: successors(server)[count:], "a successor")[0]
    ends.append(new)
    wait_until(lambda: f"process {new} serves now" in server.log_text(), "it to serve")
    return new


class Clients:
    """keep_alive: over one connection each, which is opened again only if the server said that it closes it."""

    def __init__(self, server, count):
        self.server = server
        self.stop = threading.Event()
        self.answers, self.errors = [], []
        self.threads = [threading.Thread(target=self.run, args=(i % 3,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, kind):
        try:
            connection = None
            while not self.stop.is_set():
                if kind == 2:
                    stream = self.server.open_stream("Hello", temperature=0, max_tokens=40, ignore_eos=True)
                    self.answers.append(("stream", stream.text()))
                    continue
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
                connection.request("POST", "/v1/chat/completions", json.dumps({
                    "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 12, "ignore_eos": True}))
                answer = connection.getresponse()
                body, closes = answer.read(), answer.getheader("connection") == "close"
                assert answer.status == 200, body
                self.answers.append(("whole", json.loads(body)["choices"][0]["message"]["content"]))
                if closes or kind == 1:
                    connection.close()
                    connection = None
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.errors.append(repr(error))

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_the_program_is_replaced_under_load(programs, start_server, ends):
    server = start_server(*SMALL, model=FORMS / "llama-f16.gguf", programs=programs)
    clients = Clients(server, 9)
    pids = [server.process.pid]
    for _ in range(3):
        before = len(clients.answers)
        wait_until(lambda before=before: len(clients.answers) >= before + 20 or clients.errors, "answers")
        install(programs / "shoal")
        pids.append(succeed(server, pids[-1], ends))
        assert os.readlink(f"/proc/{pids[-1]}/exe") == str(programs / "shoal")
        assert server.get("/ready").status == 200
    clients.end()
    assert not clients.errors, (clients.errors, server.log_text()[-3000:])
    for kind in ("stream", "whole"):
        assert len({answer for made, answer in clients.answers if made == kind}) == 1, kind
    assert server.wait_exit() == 0
    for pid in pids[1:-1]:
        wait_until(lambda pid=pid: not process_is_alive(pid), "the server before to end")
    assert process_is_alive(pids[-1])


def test_a_stream_and_an_idle_connection_end_well(programs, start_server, ends):
    server = start_server(*SMALL, model=FORMS / "llama-f16.gguf", programs=programs)
    idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    idle.request("GET", "/health")
    assert idle.getresponse().read()
    stream = server.open_stream("Count.", max_tokens=400, ignore_eos=True)
    stream.wait_token()
    succeed(server, server.process.pid, ends)
    assert server.process.poll() is None
    idle.request("GET", "/health")
    last = idle.getresponse()
    assert last.status == 200 and last.getheader("connection") == "close" and last.read()
    assert stream.text()[1] == "length"
    assert server.wait_exit() == 0
    assert server.get("/health").status == 200


def test_a_successor_that_fails_changes_nothing(tmp_path, programs, start_server, ends):
    """It cannot open the model, or is no program at all; a later one succeeds, with the keys of the command line."""
    model = tmp_path / "model.gguf"
    shutil.copy(FORMS / "llama-f16.gguf", model)
    key = f"sk-{random.randrange(1 << 40)}"
    server = start_server(*SMALL, "--no-reload", "--api-key", key, model=model, programs=programs)
    os.replace(model, tmp_path / "away")
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: server.log_text().count("ended before it was ready") == 1, "the successor to end")
    (programs / "shoal").rename(programs / "kept")
    (programs / "shoal").write_text("no program", encoding="ascii")
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "no successor is started: cannot start" in server.log_text(), "the start to fail")
    assert server.process.poll() is None
    assert server.chat("Hello", {"Authorization": f"Bearer {key}"}, max_tokens=2).status == 200
    (programs / "kept").replace(programs / "shoal")
    (tmp_path / "away").replace(model)
    new = succeed(server, server.process.pid, ends)
    assert server.wait_exit() == 0
    assert server.chat("Hello", {"Authorization": f"Bearer {key}"}, max_tokens=2).status == 200
    assert server.chat("Hello", {"Authorization": "Bearer other"}, max_tokens=2).status == 401
    assert key.encode() not in pathlib.Path(f"/proc/{new}/cmdline").read_bytes()


def test_the_service_manager_learns_the_new_process(tmp_path, programs, start_server, ends):
    """MAINPID names the successor, which sends the notifications and feeds the watchdog from then on."""
    manager = Manager(str(tmp_path / "notify"))
    server = start_server(*SMALL, model=FORMS / "llama-f16.gguf", programs=programs,
                          environment={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"})
    manager.wait_for("READY=1")
    new = succeed(server, server.process.pid, ends)
    manager.wait_for(f"MAINPID={new}")
    manager.wait_for("READY=1", times=2)
    assert server.wait_exit() == 0
    assert "STOPPING=1" not in manager.lines()
    fed = manager.lines().count("WATCHDOG=1")
    manager.wait_for("WATCHDOG=1", times=fed + 2)
    manager.socket.close()


def test_a_state_folder_has_one_server(tmp_path, start_server):
    server = start_server(*SMALL, "--state-dir", str(tmp_path), model=FORMS / "llama-f16.gguf")
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "no successor is started: --state-dir" in server.log_text(), "the refusal")
    assert server.chat("Hello", max_tokens=2).status == 200 and not successors(server)
