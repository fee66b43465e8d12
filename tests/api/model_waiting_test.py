"""Requests for a model that is being loaded: streams begin with comments that repeat, other replies wait, and both end in time."""

import concurrent.futures
import contextlib
import http.client
import json
import shutil
import socket

import anthropic
import openai
import pytest

from shoal_server import BUILD, MODEL, MODEL_ID, PATIENCE_S, ROOT, wait_until

MESSAGES = [{"role": "user", "content": "Hello"}]
OPTIONS = ["--context", "2048", "--kv-cache-bytes", "64M", "--keepalive-comment", "1"]
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 8, "temperature": 0},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 8, "temperature": 0},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 8, "temperature": 0},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 8, "temperature": 0},
    "/completion": {"prompt": "Hello", "n_predict": 8, "temperature": 0},
}


class Gate:
    """A server whose workers do not begin to load before open()."""

    def __init__(self, folder, start_server, *options):
        programs, models = folder / "programs", folder / "models"
        programs.mkdir()
        models.mkdir()
        (models / "demo").symlink_to(ROOT / "tests/model/demo")
        shutil.copy(BUILD / "shoal", programs / "shoal")
        (programs / "shoal-media").symlink_to(BUILD / "shoal-media")
        self.file = folder / "gate"
        worker = programs / "shoal-worker"
        worker.write_text(f'#!/bin/sh\nwhile [ ! -e "{self.file}" ]; do sleep 0.05; done\n'
                          f'exec "{BUILD}/shoal-worker" "$@"\n', encoding="utf-8")
        worker.chmod(0o755)
        self.server = start_server("--models-dir", str(models), *OPTIONS, *options, programs=programs)

    def open(self):
        self.file.touch()

    def waiting(self):
        return sum(one["waiting"] for one in self.server.get("/v1/status").json["models"])



@pytest.fixture
def gate(tmp_path, start_server):
    made = Gate(tmp_path, start_server)
    yield made
    made.open()


class Stream:
    def __init__(self, server, path, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.connection.request("POST", path, json.dumps({"model": "demo", "stream": True, **body}))

    def begin(self):
        """The first comment; no event comes before it."""
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        assert self.response.getheader("content-type").startswith("text/event-stream")
        return self.response.readline().decode()

    def rest(self):
        """(comments, other lines)"""
        lines = self.response.read().decode().split("\n")
        self.connection.close()
        return [line for line in lines if line.startswith(":")], [line for line in lines if line and line[0] != ":"]


def texts(lines):
    """What the events of any of the APIs say, in one string."""
    said = ""
    for line in lines:
        if line.startswith("data: {"):
            event = json.loads(line[len("data: "):])
            choice = (event.get("choices") or [{}])[0]
            delta = event.get("delta") or choice.get("delta") or {}
            said += delta if isinstance(delta, str) else delta.get("content") or delta.get("text") or ""
            said += choice.get("text") or (event.get("content") if isinstance(event.get("content"), str) else "") or ""
    return said


def test_streams_begin_with_comments(gate):
    server = gate.server
    streams = {path: Stream(server, path, body) for path, body in BODIES.items()}
    # Ollama's API has no comments: its reply begins with the first text.
    ollama = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    ollama.request("POST", "/api/chat", json.dumps({"model": "demo", "messages": MESSAGES, "options": {"num_predict": 2}}))
    for stream in streams.values():
        assert stream.begin() == ": loading 0 %\n"
        assert stream.response.readline() == b"\n"
        assert stream.response.readline() == b": loading 0 %\n"
    assert gate.waiting() == len(streams) + 1
    ollama.sock.settimeout(0.01)
    with pytest.raises(TimeoutError):
        ollama.sock.recv(1)
    ollama.sock.settimeout(PATIENCE_S)
    gate.open()
    ends = {path: stream.rest()[1] for path, stream in streams.items()}
    reply = ollama.getresponse()
    assert reply.status == 200 and json.loads(reply.read().splitlines()[-1])["done"]
    for path, body in BODIES.items():
        now = Stream(server, path, body)
        assert not now.begin().startswith(":")
        comments, lines = now.rest()
        assert not comments and texts(lines) and texts(ends[path]).endswith(texts(lines)), path
        assert (ends[path][-1] == "data: [DONE]") == (lines[-1] == "data: [DONE]"), path


def test_other_replies_wait(gate):
    connections = []
    for path, body in {**BODIES, "/v1/messages/count_tokens": {"messages": MESSAGES}}.items():
        connections.append(http.client.HTTPConnection("127.0.0.1", gate.server.port, timeout=PATIENCE_S))
        connections[-1].request("POST", path, json.dumps({"model": "demo", **body}))
    wait_until(lambda: gate.waiting() == len(connections), "all to wait")
    gate.open()
    for connection in connections:
        assert connection.getresponse().status == 200
        connection.close()


def error_of(path, lines):
    """The error that ended a stream, in the API's shape."""
    data = [json.loads(line[len("data: "):]) for line in lines if line.startswith("data: {")]
    if path == "/v1/messages":
        assert lines[0] == "event: error" and len(data) == 1 and data[0]["type"] == "error"
        return data[0]["error"].get("details", {}).get("error_code"), data[0]["error"]["message"]
    if path == "/v1/responses":
        assert [one["type"] for one in data] == ["response.created", "error", "response.failed"]
        assert data[2]["response"]["status"] == "failed"
        return data[1]["code"], data[1]["message"]
    assert len(data) == 1 and (lines[-1] == "data: [DONE]") == (path != "/completion")
    return data[0]["error"]["code"], data[0]["error"]["message"]


def test_a_mistake_ends_a_stream_that_has_begun(gate):
    streams = {path: Stream(gate.server, path, {**body, "temperature": "hot"}) for path, body in BODIES.items()}
    for stream in streams.values():
        assert stream.begin() == ": loading 0 %\n"
    gate.open()
    for path, stream in streams.items():
        assert "temperature" in error_of(path, stream.rest()[1])[1]
    assert gate.server.chat("Hello", model="demo", max_tokens=2).status == 200


def test_waiting_has_an_end(tmp_path, start_server):
    gate = Gate(tmp_path, start_server, "--models-wait", "2")
    try:
        streams = {path: Stream(gate.server, path, body) for path, body in BODIES.items()}
        for stream in streams.values():
            assert stream.begin() == ": loading 0 %\n"
        for path, stream in streams.items():
            assert error_of(path, stream.rest()[1])[0] == "model_loading", path
        for path, status in (("/v1/chat/completions", 503), ("/v1/messages", 529), ("/api/chat", 503)):
            reply = gate.server.request("POST", path, {"model": "demo", "stream": False, "messages": MESSAGES, "max_tokens": 8}
                                        if path != "/api/chat" else {"model": "demo", "stream": False, "messages": MESSAGES})
            assert reply.status == status and int(reply.headers["retry-after"]) > 0, reply.body
            error = reply.json["error"]
            assert "demo" in (error if isinstance(error, str) else error["message"])
    finally:
        gate.open()


def test_clients_that_leave_free_their_places(gate):
    streams = [Stream(gate.server, path, body) for path, body in BODIES.items()]
    for stream in streams:
        assert stream.begin() == ": loading 0 %\n"
        stream.response.close()
        stream.connection.close()
    wait_until(lambda: gate.waiting() == 0, "them to be dropped")
    gate.open()
    assert gate.server.chat("Hello", model="demo", max_tokens=2).status == 200


def test_comments_while_another_model_is_in_use(tmp_path, start_server):
    (tmp_path / MODEL.name).symlink_to(MODEL)
    (tmp_path / "demo").symlink_to(ROOT / "tests/model/demo")
    server = start_server("--models-dir", str(tmp_path), "--models-loaded", "1", *OPTIONS)
    busy = server.open_stream("Count.", model=MODEL_ID, max_tokens=1800, ignore_eos=True)
    busy.wait_token()
    stream = Stream(server, "/v1/chat/completions", BODIES["/v1/chat/completions"])
    assert stream.begin() == ": waiting for room to load the model\n"
    busy.socket.shutdown(socket.SHUT_RDWR)
    assert texts(stream.rest()[1])


def test_official_clients_read_through_the_comments(gate):
    server = gate.server
    with contextlib.ExitStack() as stack:
        chat = stack.enter_context(openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0))
        messages = stack.enter_context(anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0))
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor())

        def ask_chat():
            stream = chat.chat.completions.create(model="demo", stream=True, messages=MESSAGES, max_tokens=8, temperature=0)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

        def ask_response():
            stream = chat.responses.create(model="demo", stream=True, input="Hello", max_output_tokens=8, temperature=0)
            return "".join(event.delta for event in stream if event.type == "response.output_text.delta")

        def ask_message():
            with messages.messages.stream(model="demo", messages=MESSAGES, max_tokens=8, extra_body={"temperature": 0}) as stream:
                return "".join(stream.text_stream)
        assert chat.chat.completions and chat.responses and messages.messages  # they are imported here, not in threads
        asks = [pool.submit(ask) for ask in (ask_chat, ask_response, ask_message)]
        wait_until(lambda: gate.waiting() == 3 or any(ask.done() for ask in asks), "all to wait")
        watch = Stream(server, "/v1/completions", BODIES["/v1/completions"])
        watch.begin()
        watch.response.readline()
        watch.response.readline()  # the others, which came before, have had theirs
        gate.open()
        said = [ask.result() for ask in asks]
        assert said[0] and said == [said[0]] * 3
        assert said == [ask_chat(), ask_response(), ask_message()]
