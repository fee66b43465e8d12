"""Unusual, slow and malformed HTTP on plain sockets."""

import json
import socket
import time

import pytest

from shoal_server import read_all, wait_until

CHAT_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"


def read_reply(connection):
    """One reply with a Content-Length: (status line, body)."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, data
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        part = connection.recv(65536)
        assert part
        body += part
    assert len(body) == length
    return head.split(b"\r\n")[0], body


def chat_bytes(**fields):
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, **fields}).encode()
    return CHAT_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_many_requests_share_a_connection(server):
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(chat_bytes())
            status, body = read_reply(connection)
            assert status == b"HTTP/1.1 200 OK"
            assert json.loads(body)["usage"]["completion_tokens"] <= 2


def test_a_request_may_come_byte_by_byte(server):
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in chat_bytes():
            connection.sendall(bytes([byte]))
        status, _ = read_reply(connection)
        assert status == b"HTTP/1.1 200 OK"


def test_chunked_requests_and_continue_work(server):
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
    with server.connect() as connection:
        connection.sendall(CHAT_HEAD + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for byte in body:
            connection.sendall(b"1\r\n" + bytes([byte]) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        status, _ = read_reply(connection)
        assert status == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("request_bytes,status", [
    (b"nonsense\r\n\r\n", 400),
    (b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400),
    (b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 8000, 431),
    (CHAT_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    (CHAT_HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (CHAT_HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (CHAT_HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
    (CHAT_HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    (CHAT_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
])
def test_bad_requests_get_an_answer_and_an_end(server, request_bytes, status):
    with server.connect() as connection:
        connection.sendall(request_bytes)
        reply = read_all(connection)
    head, body = reply.split(b"\r\n\r\n", 1)
    assert int(head.split(b" ")[1]) == status
    assert b"connection: close" in head.lower()
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_an_old_client_gets_a_stream_that_ends(server):
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stream": True}).encode()
    with server.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        reply = read_all(connection)
    assert b"Transfer-Encoding" not in reply
    assert reply.endswith(b"data: [DONE]\n\n")


def test_a_slow_request_is_ended(start_server):
    running = start_server("--request-timeout", "1", ready=False)
    start = time.monotonic()
    with running.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HT")
        reply = read_all(connection)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - start > 0.9


def test_an_idle_connection_is_ended(start_server):
    running = start_server("--idle-timeout", "1", ready=False)
    with running.connect() as connection:
        assert read_all(connection) == b""


def test_connections_are_bounded(start_server):
    running = start_server("--max-connections", "3")
    held = [running.connect() for _ in range(3)]  # accepted before the next one, in this order
    with running.connect() as extra:
        reply = read_all(extra)
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "too_many_connections"
    for connection in held:
        connection.close()
    wait_until(lambda: running.get("/health").status == 200, "room for a connection")


def test_noise_on_many_sockets_disturbs_no_request(server):
    for seed in range(50):
        noise = bytes((seed * 7 + i * i * 31) % 256 for i in range(400))
        with server.connect() as connection:
            connection.sendall(noise)
    assert server.chat(max_tokens=1).status == 200
    server.wait_idle()
