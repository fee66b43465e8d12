"""Request ids and the log: one line for each request, valid JSON, and values from clients cannot forge lines."""

import json
import os
import re

import pytest

from shoal_server import MODEL_ID, ShoalServer, wait_until


@pytest.fixture(scope="module")
def logged():
    with ShoalServer("--log-format", "json", "--max-queue", "8") as running:
        running.wait_ready()
        yield running


def line_of(server, request_id):
    """The one access line of a request, which comes when its last byte is written."""
    def found():
        lines = [event for event in server.log_events("request") if event["request_id"] == request_id]
        assert len(lines) <= 1, lines
        return lines
    return wait_until(found, f"the line of {request_id}")[0]


def test_a_chat_has_its_figures_in_one_line(logged):
    reply = logged.chat("Name two fish.", {"x-request-id": "chat-1"}, max_tokens=5, temperature=0, logit_bias={"2": -100})
    assert reply.status == 200 and reply.headers["x-request-id"] == "chat-1"
    usage = reply.json["usage"]
    line = line_of(logged, "chat-1")
    assert line["level"] == "info" and line["process"] == "frontend"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    assert line["method"] == "POST" and line["path"] == "/v1/chat/completions" and line["status"] == 200
    assert line["model"] == MODEL_ID
    assert line["prompt_tokens"] == usage["prompt_tokens"]
    assert line["finish_reason"] == reply.json["choices"][0]["finish_reason"]
    assert line["output_tokens"] == usage["completion_tokens"]
    assert 0 < line["ttft_ms"] <= line["duration_ms"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", line["client"])
    assert line["reply_bytes"] > len(reply.body) and "cut" not in line


def test_a_stream_has_one_too(logged):
    reply = logged.chat("Hi", {"x-request-id": "stream-1"}, max_tokens=3, stream=True)
    assert reply.headers["x-request-id"] == "stream-1"
    line = line_of(logged, "stream-1")
    assert line["status"] == 200 and line["output_tokens"] >= 1 and line["finish_reason"] in ("length", "stop")


def test_errors_carry_the_id_too(logged):
    for number, (method, path, body, status) in enumerate([
            ("GET", "/nowhere", None, 404), ("PUT", "/health", None, 405),
            ("POST", "/v1/chat/completions", "nonsense", 400), ("GET", "/v1/models/none", None, 404)]):
        request_id = f"error-{number}"
        reply = logged.request(method, path, body, {"X-Request-ID": request_id})
        assert reply.status == status and reply.headers["x-request-id"] == request_id
        line = line_of(logged, request_id)
        assert line["status"] == status and line["path"] == path and line["method"] == method


def test_a_client_that_leaves_has_its_line(logged):
    body = json.dumps({"messages": [{"role": "user", "content": "Write a long story."}], "stream": True, "max_tokens": 4000,
                       "logit_bias": {"2": -100}}).encode()
    with logged.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: left-1\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        seen = b""
        while not re.search(rb'"content":"[^"]', seen):
            seen += connection.recv(65536)
    line = line_of(logged, "left-1")
    assert line["cut"] == "yes" and line["finish_reason"] == "client_gone" and line["output_tokens"] >= 1
    logged.wait_idle()


@pytest.mark.parametrize("given", ["", "has space", "x" * 129, "caf\xe9", "tab\there"])
def test_an_invalid_id_is_replaced(logged, given):
    with logged.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + given.encode("latin-1") + b"\r\n\r\n")
        reply = connection.recv(65536).decode("latin-1")
    made = re.search(r"\r\nx-request-id: (\S+)\r\n", reply).group(1)
    assert re.fullmatch(r"req-[0-9a-f]{16}", made)


@pytest.mark.parametrize("given", ["a", "x" * 128, "1f0c:~!@#$%^&*()=+[]{}|;'\"<>,.?/"])
def test_a_valid_id_comes_back(logged, given):
    assert logged.get("/health", {"X-Request-ID": given}).headers["x-request-id"] == given
    assert line_of(logged, given)["path"] == "/health"


def test_made_ids_differ(logged):
    assert len({logged.get("/health").headers["x-request-id"] for _ in range(20)}) == 20


def test_hostile_values_forge_no_line(logged):
    path = '/"},{"level":"error","event":"forged\\u000a'
    with logged.connect() as connection:
        connection.sendall(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hostile-1\r\n\r\n")
        assert b" 404 " in connection.recv(65536)
        connection.sendall(os.urandom(200).replace(b"\n", b"") + b"\r\n\r\n")
        connection.recv(65536)
    assert line_of(logged, "hostile-1")["path"] == path
    assert not logged.log_events("forged")


def test_every_line_of_both_processes_is_json(logged):
    events = logged.log_events()
    assert {"frontend", "worker 0"} <= {event["process"] for event in events}
    for event in events:
        assert {"ts", "level", "process", "event"} <= set(event), event
        assert event["event"] != "message" or event["message"]


def test_text_logs_have_the_same_fields(server):
    server.get("/health?x=1", {"X-Request-ID": "text-1"})
    line = wait_until(lambda: [row for row in server.log_text().splitlines() if "request_id=text-1" in row], "the line")
    assert re.search(r" info frontend: request request_id=text-1 client=127\.0\.0\.1:\d+ method=GET path=/health "
                     r"status=200 duration_ms=\d+\.\d{3} reply_bytes=\d+$", line[0]), line
