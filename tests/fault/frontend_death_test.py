"""SIGKILL of the frontend with --state-dir: stored answers are there again, unfinished ones are made again and are the same, streams go on
where they were cut, and nothing of the dead process remains. Damaged files and full disks cost only what they held."""

import http.client
import json
import os
import pathlib
import resource
import signal
import subprocess

import pytest

import demo_model
from shoal_server import BUILD, ROOT, ShoalServer, process_is_alive, wait_until

PROMPT = "Tell a long story about a river."
FINAL = ("completed", "incomplete", "failed", "cancelled")


def body_of(tokens=400, **fields):
    return {"input": PROMPT, "max_output_tokens": tokens, "temperature": 0.8, "ignore_eos": True, **fields}


def post(server, headers=None, **fields):
    reply = server.request("POST", "/v1/responses", body_of(**fields), headers)
    assert reply.status == 200, reply.body
    return reply.json


def fetch(server, name, headers=None):
    reply = server.get(f"/v1/responses/{name}", headers)
    assert reply.status == 200, reply.body
    return reply.json


def wait_final(server, name, headers=None):
    return wait_until(lambda: (lambda now: now if now["status"] in FINAL else None)(fetch(server, name, headers)), "the answer")


def text_of(response):
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


def events_of(body):
    return [json.loads(line[len("data: "):]) for line in body.decode().splitlines() if line.startswith("data: ")]


def deltas_of(events):
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


class Watcher:
    """Events of a stream, as they come."""

    def __init__(self, server, method, path, body=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        self.connection.request(method, path, body and json.dumps(body))
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        self.events = []

    def read(self, enough):
        """Reads until enough(events) or the end of the connection, cut or not."""
        try:
            while not enough(self.events):
                line = self.reply.readline().decode()
                if not line:
                    break
                if line.startswith("data: ") and line.endswith("\n"):
                    self.events.append(json.loads(line[len("data: "):]))
        except (http.client.HTTPException, ConnectionError, ValueError):
            pass
        return self.events


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def kill_frontend(server):
    """SIGKILL of the frontend alone; its other processes must follow, and leave no shared memory."""
    others = children_of(server.process.pid)
    assert others
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: not any(process_is_alive(pid) for pid in others), "the workers to end", 30)


def shared_memory():
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def start(tmp_path):
    """A server with the state directory; later ones listen on the port of the first."""
    started = []

    def begin(*options, ready=True):
        port = ["--port", str(started[0].port)] if started else []
        server = ShoalServer("--state-dir", str(tmp_path / "state"), *port, *options, model=demo_model.FOLDER)
        started.append(server)
        server.__enter__()
        if ready:
            server.wait_ready()
        return server

    yield begin
    for server in started:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def undisturbed():
    """Text of the answer with each seed, without --state-dir and deaths."""
    with demo_model.demo_server() as server:
        server.wait_ready()
        yield {seed: text_of(post(server, seed=seed)) for seed in range(4)}


def state_files(tmp_path):
    return sorted(path for path in (tmp_path / "state").glob("resp_*") if path.suffix != ".tmp")


def test_answers_in_progress_are_made_again_and_are_the_same(start, undisturbed, tmp_path):
    before = shared_memory()
    server = start("--max-sequences", "2")
    done = post(server, seed=0)
    streamed = Watcher(server, "POST", "/v1/responses", body_of(seed=1, stream=True))
    streamed.read(lambda events: len(deltas_of(events)) > 40)
    names = [post(server, seed=seed, background=True)["id"] for seed in range(4)]  # three are queued
    wait_until(lambda: fetch(server, names[0])["status"] == "in_progress", "the first token")
    kill_frontend(server)
    assert shared_memory() <= before
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700

    server = start("--max-sequences", "2")
    assert fetch(server, done["id"]) == done
    for seed, name in enumerate(names):
        made = wait_final(server, name)
        assert (made["status"], text_of(made)) == ("incomplete", undisturbed[seed]), seed
    # The foreground stream is continued: every event once, the same text.
    streamed.read(lambda events: False)
    first = streamed.events
    last = first[-1]["sequence_number"]
    name = first[0]["response"]["id"]
    rest = events_of(server.get(f"/v1/responses/{name}?stream=true&starting_after={last}").body)
    assert [event["sequence_number"] for event in first + rest] == list(range(len(first) + len(rest)))
    assert rest and deltas_of(first + rest) == undisturbed[1] == text_of(fetch(server, name))
    assert rest[-1]["type"] == "response.incomplete"
    assert server.metrics()["shoal_responses_resumed_total"] == 5
    server.wait_idle()
    assert [path.suffix for path in state_files(tmp_path)] == [".response"] * 6


def test_a_stream_is_continued_over_several_deaths(start, undisturbed):
    server = start()
    made = post(server, seed=2, background=True)
    events = []
    for _ in range(3):
        after = f"&starting_after={events[-1]['sequence_number']}" if events else ""
        watcher = Watcher(server, "GET", f"/v1/responses/{made['id']}?stream=true{after}")
        events += watcher.read(lambda new: len(new) >= 15)
        kill_frontend(server)
        server = start(ready=False)  # the stream may be opened before the model is loaded
    after = events[-1]["sequence_number"]
    events += events_of(server.get(f"/v1/responses/{made['id']}?stream=true&starting_after={after}").body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert deltas_of(events) == undisturbed[2]


def test_conversations_go_on_and_stay_private(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann-key\nbob-key\n")
    keys.chmod(0o600)
    ann, bob = ({"Authorization": f"Bearer {name}-key"} for name in ("ann", "bob"))
    server = start("--api-key-file", str(keys))
    first = post(server, ann, input="My name is Ann.", tokens=8)
    second = post(server, ann, input="What is my name?", previous_response_id=first["id"], tokens=8)
    deleted = post(server, ann, tokens=4)
    wait_until(lambda: len(state_files(tmp_path)) == 3, "the files")
    for name in (first["id"], deleted["id"]):
        assert server.request("DELETE", f"/v1/responses/{name}", headers=ann).status == 200
    kill_frontend(server)
    assert sorted(path.suffix for path in state_files(tmp_path)) == [".hidden", ".response"]

    server = start("--api-key-file", str(keys))
    assert fetch(server, second["id"], ann) == second
    for name in (first["id"], deleted["id"]):
        assert server.get(f"/v1/responses/{name}", ann).status == 404
    for path in ("", "?stream=true", "/input_items"):
        assert server.get(f"/v1/responses/{second['id']}{path}", bob).status == 404
    assert server.request("POST", f"/v1/responses/{second['id']}/cancel", headers=bob).status == 404
    third = post(server, ann, input="Thanks.", previous_response_id=second["id"], tokens=8)
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"]
    items = server.get(f"/v1/responses/{second['id']}/input_items?order=asc", ann).json["data"]
    assert [item["content"][0]["text"] for item in items] == ["My name is Ann.", text_of(first), "What is my name?"]
    assert server.request("DELETE", f"/v1/responses/{second['id']}", headers=ann).status == 200
    assert server.request("DELETE", f"/v1/responses/{third['id']}", headers=ann).status == 200
    wait_until(lambda: not state_files(tmp_path), "all files to be removed")


def test_what_was_not_begun_again_can_be_cancelled(start):
    server = start()
    names = [post(server, seed=seed, background=True, tokens=4000)["id"] for seed in range(3)]
    kill_frontend(server)
    server = start(ready=False)
    cancelled = server.request("POST", f"/v1/responses/{names[0]}/cancel").json
    assert cancelled["status"] == "cancelled"
    assert server.request("DELETE", f"/v1/responses/{names[1]}").status == 200
    server.wait_ready()
    events = events_of(server.get(f"/v1/responses/{names[0]}?stream=true").body)
    assert [event["type"] for event in events][-1] == "response.incomplete"
    assert server.get(f"/v1/responses/{names[1]}").status == 404
    wait_until(lambda: fetch(server, names[2])["status"] == "in_progress", "the third to be made")
    assert server.request("POST", f"/v1/responses/{names[2]}/cancel").json["status"] == "cancelled"
    server.wait_idle()


def test_a_planned_restart_goes_on_too(start, undisturbed):
    server = start("--drain-timeout", "1")
    made = post(server, seed=3, background=True)
    long = post(server, background=True, tokens=4000)
    wait_until(lambda: fetch(server, long["id"])["status"] == "in_progress", "the first token")
    server.process.terminate()
    assert server.wait_exit() == 0
    server = start()
    assert text_of(wait_final(server, made["id"])) == undisturbed[3]
    whole = wait_final(server, long["id"])  # fast machines have made it before anybody asks
    assert (whole["status"], whole["usage"]["output_tokens"]) == ("incomplete", 4000)


def test_a_damaged_file_costs_only_its_response(start, tmp_path):
    server = start()
    names = [post(server, seed=seed, tokens=4)["id"] for seed in range(12)]
    wait_until(lambda: len(state_files(tmp_path)) == 12, "the files")
    kill_frontend(server)
    size = (tmp_path / "state" / f"{names[0]}.response").stat().st_size
    places = [0, 8, 12, 16, 24, 40, 200, 256, 330, size - 1]
    for name, place in zip(names, places):
        path = tmp_path / "state" / f"{name}.response"
        content = bytearray(path.read_bytes())
        content[place] ^= 0x41
        path.write_bytes(content)
    os.truncate(tmp_path / "state" / f"{names[10]}.response", 100)
    (tmp_path / "state" / f"{names[0]}.tmp").write_bytes(b"half")
    (tmp_path / "state" / "resp_0.response").symlink_to("/etc/passwd")
    (tmp_path / "state" / "notes").write_text("not ours")
    server = start()
    for name in names[:11]:
        assert server.get(f"/v1/responses/{name}").status == 404
    assert text_of(fetch(server, names[11]))
    log = server.log_text()
    for name in names[:11]:
        assert log.count(f"state file {name}") == 1
    assert "version is" in log
    left = {path.name for path in (tmp_path / "state").iterdir() if not path.name.startswith("prefix-cache-0.")} - {"tenant-salt"}
    assert left == {"lock", "notes", "resp_0.response", f"{names[1]}.response", f"{names[11]}.response"}  # of another version, too


@pytest.mark.long
def test_files_are_bounded_and_the_oldest_go_first(start, tmp_path):
    server = start("--response-store-bytes", "1M")
    names = []
    for number in range(1000):
        metadata = {f"name {i}": "x" * 500 for i in range(16)} if number % 2 else {}
        names.append(post(server, input="y", tokens=1, seed=number, metadata=metadata)["id"])
    server.wait_idle()

    def shown():
        return {path.stem for path in state_files(tmp_path)}

    wait_until(lambda: names[-1] in shown() and names[0] not in shown(), "the newest file in place of the oldest")
    assert sum(path.stat().st_size for path in state_files(tmp_path)) <= 1 << 20
    assert server.metrics()["shoal_state_file_bytes"] <= 1 << 20
    kill_frontend(server)
    server = start("--response-store-bytes", "1M")
    assert fetch(server, names[-1]) and server.get(f"/v1/responses/{names[0]}").status == 404


def test_a_full_disk_fails_no_request(start, tmp_path):
    server = start()
    kept = post(server, tokens=4)
    wait_until(lambda: len(state_files(tmp_path)) == 1, "the file")
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    made = [post(server, tokens=4), post(server, tokens=4, background=True)]
    streamed = Watcher(server, "POST", "/v1/responses", body_of(tokens=4, stream=True))
    assert streamed.read(lambda events: False)[-1]["type"] == "response.incomplete"
    for response in made:
        assert wait_final(server, response["id"])["status"] == "incomplete"
    wait_until(lambda: server.metrics()["shoal_state_file_failures_total"] >= 3, "the failures to be counted")
    assert len(state_files(tmp_path)) == 1
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    after = post(server, tokens=4)
    wait_until(lambda: len(state_files(tmp_path)) == 2, "files to be written again")
    kill_frontend(server)
    server = start()
    assert fetch(server, kept["id"]) == kept and fetch(server, after["id"]) == after
    assert server.get(f"/v1/responses/{made[0]['id']}").status == 404


@pytest.mark.parametrize("case, words", [("shared", "writable by other users"), ("file", "cannot be opened"),
                                         ("used", "is used by another server"), ("missing", "cannot be created")])
def test_a_directory_that_is_not_the_servers_own_is_refused(start, tmp_path, case, words):
    path = tmp_path / "state"
    if case == "shared":
        path.mkdir()
        path.chmod(0o770)
    elif case == "file":
        path.write_text("")
    elif case == "missing":
        path = tmp_path / "no" / "state"
    else:
        start(ready=False)
    ended = subprocess.run([BUILD / "shoal", "serve", "--model", demo_model.FOLDER, "--device", "cpu", "--port", "0", "--state-dir", path],
                           cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and words in ended.stderr, ended.stderr
