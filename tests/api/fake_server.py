"""A server that answers every chat as it is told to: well, or in one of the ways in which servers fail.

The behaviour is a function from an open connection, whose request has been read, to nothing; each connection runs in a
thread of its own and is closed when the function returns.
"""

import contextlib
import json
import socket
import struct
import threading
import time

from shoal_server import PATIENCE_S

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNKED = HEAD[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def text(words, **delta):
    return event({"choices": [{"index": 0, "delta": {"content": words, **delta}, "finish_reason": None}]})


ROLE = text("", role="assistant")
FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
DONE = event(b"[DONE]")


def usage(prompt, completion):
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                                           "total_tokens": prompt + completion}})


def answer(connection, pieces=3, first_s=0.0, gap_s=0.0, prompt=11, tokens=None):
    """A whole stream."""
    time.sleep(first_s / 2)
    connection.sendall(HEAD + ROLE)
    time.sleep(first_s / 2)
    for i in range(pieces):
        if i > 0:
            time.sleep(gap_s)
        connection.sendall(text(f"word{i} "))
    connection.sendall(FINISH + usage(prompt, pieces if tokens is None else tokens) + DONE)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_request(connection):
    """(head, body) of one request."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return data, b""
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(b"content-length:"):
            with contextlib.suppress(ValueError):
                length = int(line.split(b":")[1])
    while len(body) < length:
        more = connection.recv(65536)
        if not more:
            break
        body += more
    return head, body


class FakeServer:
    """with FakeServer(behave) as server: … server.url, server.requests"""

    def __init__(self, behave):
        self.behave = behave
        self.requests = []  # (head, body) of every chat, as bytes
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.closing = threading.Event()
        self.threads = []
        self.accepting = threading.Thread(target=self.accept)

    def __enter__(self):
        self.accepting.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in [self.accepting, *self.threads]:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a connection of the fake server does not end"

    def accept(self):
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE_S)
            head, body = read_request(connection)
            if head.startswith(b"GET") and b"/v1/models" in head:
                models = json.dumps({"data": [{"id": "fake"}]}).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(models) + models)
            elif head:
                self.requests.append((head, body))
                self.behave(connection)
