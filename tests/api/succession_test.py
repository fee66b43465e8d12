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


def test_a_stop_of_both_leaves_the_old_one_its_time(programs, start_server, ends):
    """SIGTERM for all processes of a service, while the server before drains: its stream ends well; a second signal would end it at once."""
    server = start_server(*SMALL, model=FORMS / "llama-f16.gguf", programs=programs)
    stream = server.open_stream("Count.", max_tokens=400, ignore_eos=True)
    stream.wait_token()
    worker = server.worker_pid()
    os.kill(worker, signal.SIGSTOP)
    new = succeed(server, server.process.pid, ends)
    for pid in (server.process.pid, new):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: server.log_text().count("signal 15: draining") == 2, "both to know")
    os.kill(worker, signal.SIGCONT)
    assert stream.text()[1] == "length"
    assert server.wait_exit() == 0


# --- with --state-dir ------------------------------------------------------------------------------------------------


def ask_stored(server, seed, tokens=24, **fields):
    reply = server.request("POST", "/v1/responses", {"input": "Tell a story.", "seed": seed, "temperature": 0.8, "ignore_eos": True,
                                                     "max_output_tokens": tokens, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def fetched(server, name):
    reply = server.get(f"/v1/responses/{name}")
    assert reply.status == 200, (name, reply.body)
    return reply.json


def final(server, name):
    return wait_until(lambda: (lambda now: now if now["status"] not in ("queued", "in_progress") else None)(fetched(server, name)), "the answer")


def text_of(response):
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


def owners(state):
    """Processes that hold the lock of the directory."""
    inode = (state / "lock").stat().st_ino
    return {int(line.split()[4]) for line in pathlib.Path("/proc/locks").read_text("ascii").splitlines() if line.split()[5].endswith(f":{inode}")}


class StoringClients(Clients):
    """Each stores responses, continues the last, fetches an older one, and begins one in the background, over connections of every kind."""

    def run(self, kind):
        rng, mine, connection = random.Random(kind), [], None
        try:
            while not self.stop.is_set():
                seed = rng.randrange(4)
                body = {"input": "Tell a story.", "seed": seed, "temperature": 0.8, "ignore_eos": True, "max_output_tokens": 16}
                action = rng.choice(["store", "background", "fetch", "stream"]) if mine else "store"
                method, path = "POST", "/v1/responses"
                if action == "fetch":
                    method, path, seed = "GET", f"/v1/responses/{rng.choice(mine)[0]}", None
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
                connection.request(method, path, None if seed is None else json.dumps({**body, **({"background": True} if action == "background" else {}),
                                                                                       **({"stream": True} if action == "stream" else {})}))
                answer = connection.getresponse()
                text, closes = answer.read().decode(), answer.getheader("connection") == "close"
                if closes or kind == 1:
                    connection.close()
                    connection = None
                if answer.status == 503 and json.loads(text)["error"]["code"] == "server_replaced" and closes:
                    continue  # by a connection that the server before kept for one more request
                assert answer.status == 200, (action, text)
                if action == "stream":
                    name = json.loads(text.split("data: ", 2)[1].split("\n")[0])["response"]["id"]
                    assert "event: response.incomplete" in text, text[-500:]
                else:
                    name = json.loads(text)["id"]
                if action != "fetch":
                    mine.append((name, seed))
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.errors.append(repr(error))
        self.answers += mine


def test_stored_responses_go_over_under_load(tmp_path, programs, start_server, ends):
    """Over three takeovers no response is lost, changed, or made by two processes' files; one process at a time has the directory."""
    state = tmp_path / "state"
    server = start_server(*SMALL, "--state-dir", str(state), model=FORMS / "llama-f16.gguf", programs=programs)
    expected = {seed: text_of(ask_stored(server, seed, tokens=16)) for seed in range(4)}
    clients = StoringClients(server, 6)
    pids = [server.process.pid]
    for _ in range(3):
        served = server.metrics()["vllm:generation_tokens_total"]
        wait_until(lambda served=served: server.metrics()["vllm:generation_tokens_total"] > served + 600 or clients.errors, "answers")
        assert owners(state) == {pids[-1]}
        pids.append(succeed(server, pids[-1], ends))
        assert owners(state) == {pids[-1]}
        wait_until(lambda: server.process.poll() is not None if pids[-2] == pids[0] else not process_is_alive(pids[-2]), "the server before to end")
    clients.end()
    assert not clients.errors, (clients.errors, server.log_text()[-3000:])
    assert server.wait_exit() == 0 and len(clients.answers) > 40
    for name, seed in clients.answers:
        assert text_of(final(server, name)) == expected[seed], (name, seed)
    log = server.log_text()
    assert "is dropped" not in log and "cannot be written" not in log
    assert server.metrics()["shoal_responses_resumed_total"] == 0
    wait_until(lambda: {path.stem for path in state.glob("resp_*.response")} >= {name for name, _ in clients.answers}, "the files")


def test_a_response_in_progress_ends_where_it_is_asked_for(tmp_path, programs, start_server, ends):
    """The server before makes it; the new one shows it, streams it once it has ended, cancels it, and keeps deletions."""
    server = start_server(*SMALL, "--state-dir", str(tmp_path / "state"), model=FORMS / "llama-f16.gguf", programs=programs)
    first = ask_stored(server, 0, tokens=8)
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    kept.request("GET", f"/v1/responses/{first['id']}")
    assert json.loads(kept.getresponse().read()) == first
    worker = server.worker_pid()
    os.kill(worker, signal.SIGSTOP)  # otherwise the answers end at once
    made, cancelled, deleted = (ask_stored(server, seed, tokens=440, background=True)["id"] for seed in (1, 2, 3))
    new = succeed(server, server.process.pid, ends)
    assert fetched(server, made)["status"] in ("queued", "in_progress")
    assert fetched(server, first["id"]) == first
    for name in (cancelled, deleted):
        assert server.request("POST", f"/v1/responses/{name}/cancel").status == 200
    assert server.request("DELETE", f"/v1/responses/{deleted}").status == 200
    os.kill(worker, signal.SIGCONT)
    events = server.get(f"/v1/responses/{made}?stream=true").body.decode()
    assert events.count("event: response.incomplete") == 1 and events.count("event: response.created") == 1
    assert len(text_of(final(server, made))) > 400
    # A request of an old connection is stored by the new process; it continues what only that one has by a new connection.
    kept.request("POST", "/v1/responses", json.dumps({"input": "More.", "previous_response_id": first["id"], "max_output_tokens": 4, "seed": 1}))
    reply = kept.getresponse()
    late = json.loads(reply.read())
    assert reply.getheader("connection") == "close"
    assert wait_until(lambda: (lambda found: found.json if found.status == 200 else None)(server.get(f"/v1/responses/{late['id']}")), "it") == late
    assert server.wait_exit() == 0
    assert fetched(server, cancelled)["status"] == "cancelled" and server.get(f"/v1/responses/{deleted}").status == 404
    after = ask_stored(server, 1, tokens=4, previous_response_id=late["id"])
    assert after["usage"]["input_tokens"] > late["usage"]["input_tokens"] and process_is_alive(new)


def test_what_the_server_before_left_is_made_again(tmp_path, programs, start_server, ends):
    """It is killed after the hand-over; the new one makes its responses, the same."""
    server = start_server(*SMALL, "--state-dir", str(tmp_path / "state"), model=FORMS / "llama-f16.gguf", programs=programs)
    expected = text_of(ask_stored(server, 5, tokens=400))
    os.kill(server.worker_pid(), signal.SIGSTOP)
    made = ask_stored(server, 5, tokens=400, background=True)["id"]
    succeed(server, server.process.pid, ends)
    assert fetched(server, made)["status"] in ("queued", "in_progress")
    server.process.kill()
    server.process.wait()
    assert text_of(final(server, made)) == expected
    assert server.metrics()["shoal_responses_resumed_total"] == 1


@pytest.mark.parametrize("moment", ["loading", "owner"])
def test_the_directory_comes_back_from_a_successor_that_fails(tmp_path, programs, start_server, ends, moment):
    """It is killed while it loads the model, or while it reads the directory, which large files make slow. What arrives meanwhile is stored."""
    state = tmp_path / "state"
    server = start_server(*SMALL, "--state-dir", str(state), "--response-store-bytes", "8G", model=FORMS / "llama-f16.gguf", programs=programs)
    first = ask_stored(server, 0, tokens=4)
    wait_until(lambda: (state / f"{first['id']}.response").exists(), "its file")
    for number in range(80 if moment == "owner" else 0):
        with (state / f"resp_{number:024x}.response").open("wb") as file:
            file.truncate(32 << 20)
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    kept.connect()
    if moment == "loading":  # for ever
        (programs / "shoal-worker").rename(programs / "kept")
        (programs / "shoal-worker").write_text("#!/bin/sh\nexec sleep 20\n", encoding="ascii")
        (programs / "shoal-worker").chmod(0o755)
    os.kill(server.process.pid, signal.SIGUSR2)
    new = wait_until(lambda: successors(server), "a successor")[0]
    if moment == "owner":
        wait_until(lambda: owners(state) == {new}, "the successor to have it")
        kept.request("DELETE", f"/v1/responses/{first['id']}")
        assert kept.getresponse().status == 200
    os.kill(new, signal.SIGKILL)
    wait_until(lambda: "the successor ended before it was ready" in server.log_text(), "its end")
    if moment == "loading":
        (programs / "kept").replace(programs / "shoal-worker")
    wait_until(lambda: owners(state) == {server.process.pid}, "the lock")
    second = ask_stored(server, 1, tokens=4)
    wait_until(lambda: (state / f"{second['id']}.response").exists(), "the file of the next response")
    if moment == "loading":
        assert server.request("DELETE", f"/v1/responses/{first['id']}").status == 200
    wait_until(lambda: not (state / f"{first['id']}.response").exists(), "the deletion")
    kept.close()
    succeed(server, server.process.pid, ends)
    assert fetched(server, second["id"]) == second and server.get(f"/v1/responses/{first['id']}").status == 404
    assert server.wait_exit() == 0


def test_a_saved_prefix_cache_goes_over(tmp_path, programs, start_server, ends):
    """The file of the last planned stop is read by the successor too; the server before saves none any more, the successor does at its end."""
    state = tmp_path / "state"
    options = [*SMALL, "--state-dir", str(state)]
    prompt = "Tell a story about " + "rivers and stones and " * 12
    server = start_server(*options, model=FORMS / "llama-f16.gguf", programs=programs)
    server.chat(prompt, max_tokens=4)
    server.process.terminate()
    assert server.wait_exit() == 0 and (state / "prefix-cache-0").exists()
    server = start_server(*options, model=FORMS / "llama-f16.gguf", programs=programs)
    saved = (state / "prefix-cache-0").stat().st_ino
    new = succeed(server, server.process.pid, ends)
    usage = server.chat(prompt, max_tokens=4).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 64, usage
    assert server.wait_exit() == 0
    assert (state / "prefix-cache-0").stat().st_ino == saved
    os.kill(new, signal.SIGTERM)
    wait_until(lambda: not process_is_alive(new), "the successor to end")
    assert (state / "prefix-cache-0").stat().st_ino != saved
    assert [path.name for path in state.glob("prefix-cache*")] == ["prefix-cache-0"]
