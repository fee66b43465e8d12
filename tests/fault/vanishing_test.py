"""Clients disconnect at every stage, many times: all resources of their requests are freed."""

import json
import os
import pathlib
import socket
import struct
import time

import pytest

from shoal_server import PATIENCE_S, process_is_alive, wait_until

BATCH = 32
LONG_PROMPT = "Tell me about the sea and the sky. " * 120


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def request_bytes(content, **fields):
    body = json.dumps({"messages": [{"role": "user", "content": content}], "stream": True, **fields}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head, body


def leave(connection, number):
    if number % 2:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    connection.close()


def read_until(connection, words):
    text = b""
    while words not in text:
        data = connection.recv(1 << 14)
        assert data, f"ended before {words!r}: {text[-300:]!r}"
        text += data


def whole(content, **fields):
    return b"".join(request_bytes(content, **fields))


# (bytes sent, bytes awaited before the client disconnects) by stage.
STAGES = {
    "headers": (request_bytes("Hello")[0][:40], None),
    "body": (whole("Hello " * 50)[:200], None),
    "queued": (whole("Hello", max_tokens=100), None),
    "prefill": (whole(LONG_PROMPT, max_tokens=10), b'"role"'),
    "decode": (whole("Hello", max_tokens=2000, logit_bias={"2": -100}), b'"delta":{"content"'),
    "last_chunk": (whole("Hello", max_tokens=2), b'"finish_reason":"'),
}


def resident_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


@pytest.mark.parametrize("stage", STAGES)
def test_vanishing(start_server, long_run, stage):
    sent, awaited = STAGES[stage]
    server = start_server("--max-queue", "64")
    batches = 53 if long_run else 2  # of 32 clients, at each of 6 stages
    before_kb = 0
    for batch in range(batches):
        connections = [connect(server) for _ in range(BATCH)]
        for connection in connections:
            connection.sendall(sent)
        for number, connection in enumerate(connections):
            if awaited:
                read_until(connection, awaited)
            leave(connection, number)
        server.wait_idle()
        if batch == batches // 4:
            before_kb = resident_kb(server.process.pid)
    status = server.get("/v1/status").json
    assert status["requests"] == {"running": [], "waiting": []}
    assert status["workers"][0]["requests"] == 0
    assert status["workers"][0]["restarts"] == 0
    steps = status["workers"][0]["says"]["steps"]
    time.sleep(0.2)
    assert server.get("/v1/status").json["workers"][0]["says"]["steps"] == steps  # the worker is idle
    wait_until(lambda: server.metrics()["shoal_connections"] == 1, "all connections to be closed")
    if long_run:
        assert resident_kb(server.process.pid) < before_kb + 8192
    assert server.chat("Hello", max_tokens=2).status == 200


def test_a_killed_frontend_takes_all_workers_along(start_server):
    left = set(os.listdir("/dev/shm"))
    server = start_server("--workers", "2")
    streams = [server.open_stream("Tell me a long story.", max_tokens=2000) for _ in range(4)]
    for stream in streams:
        stream.wait_token()
    workers = [worker["pid"] for worker in server.get("/v1/status").json["workers"]]
    assert len(workers) == 2
    server.process.kill()
    server.wait_exit()
    for worker in workers:
        wait_until(lambda worker=worker: not process_is_alive(worker), "the worker to end")
    for stream in streams:
        stream.close()
    assert set(os.listdir("/dev/shm")) <= left
