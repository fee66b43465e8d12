"""Preparation is bounded: hostile templates get 400, and neither a client that left nor a stopping server waits for a thread."""

import json
import os
import signal

import demo_model
from shoal_server import wait_until

SERVER_MODEL = demo_model.FOLDER

HOSTILE = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m(n) %}{{ m(n - 1) }}{{ m(n - 1) }}{% endmacro %}{{ m(300) }}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set s = 'a' * 9000000 %}{% for i in range(9999) %}{% set x = s | truncate(99999999) %}{% endfor %}",
]
LONG_TEXT = json.dumps({"prompt": "0123456789 " * 700_000}).encode()  # 7.7 MB


def send(running, path, body):
    connection = running.connect()
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path, len(body)) + body)
    return connection


def test_a_hostile_template_gets_400(start_server, tmp_path):
    for number, source in enumerate(HOSTILE):
        path = tmp_path / f"{number}.jinja"
        path.write_text(source)
        running = start_server("--chat-template", str(path))
        reply = running.chat("Hi", max_tokens=2)
        assert reply.status == 400 and reply.error["code"] == "template_too_expensive", reply.body
        reply = running.request("POST", "/v1/messages", json.dumps(
            {"model": demo_model.MODEL_ID, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}))
        assert reply.status == 400 and reply.json["error"]["type"] == "invalid_request_error"


def test_a_client_that_left_holds_no_thread(start_server):
    running = start_server("--prepare-threads", "1")
    connections = [send(running, b"/tokenize", LONG_TEXT) for _ in range(4)]
    wait_until(lambda: running.metrics()["shoal_preparation_threads_busy"] == 1, "the first to be tokenized")
    for connection in connections:
        connection.close()
    wait_until(lambda: running.metrics()["shoal_preparation_threads_busy"] == 0, "the thread to be free")
    assert running.metrics()["shoal_preparations_cancelled_total"] >= 3
    assert running.metrics()["shoal_preparations_timed_out_total"] == 0
    assert running.chat("Hi", max_tokens=2).status == 200


def test_a_signal_ends_the_server_while_all_threads_work(start_server):
    running = start_server("--prepare-threads", "1", "--drain-timeout", "0")
    connections = [send(running, b"/tokenize", LONG_TEXT) for _ in range(4)]
    wait_until(lambda: running.metrics()["shoal_preparation_threads_busy"] == 1, "the first to be tokenized")
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.wait_exit() == 0
    assert "a thread did not end" not in running.log_text()
    for connection in connections:
        connection.close()
