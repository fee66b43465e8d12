"""Runs many chats at once from one thread, a socket each, while a test injects faults.

While the crowd runs, bytes are only stored with their arrival time; they are parsed as HTTP afterwards, so that the client uses little CPU
time during the measurement.
"""

import http.client
import io
import json
import selectors
import socket
import time

PATIENCE_S = 300  # for the next byte of any chat

# One line for each kind of sampling; the number of a chat selects its line.
SAMPLINGS = [
    {"temperature": 0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.0, "top_k": 40, "frequency_penalty": 0.6},
    {"temperature": 1.3, "min_p": 0.05, "presence_penalty": 0.8},
    {"temperature": 0.9, "repetition_penalty": 1.2},
    {"temperature": 0, "frequency_penalty": 1.0, "logit_bias": {"260": 5, "2": -100}},
    {"temperature": 1.0, "stop": ["the", "\n\n"]},
    {"temperature": 1.5, "top_p": 0.8, "stop": ["."]},
]
WORDS = "river stone winter light engine paper garden metal story number glass music harbor letter cloud".split()


def chat_body(number, max_tokens):
    """The chat `number`: seeded, of mixed sampling and lengths; every fifth is not streamed."""
    words = " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 2 + number % 12))
    body = {
        "messages": [{"role": "user", "content": f"Tell me about {words}, please. Number {number}."}],
        "seed": number, "max_tokens": max_tokens - number % 7, **SAMPLINGS[number % len(SAMPLINGS)]}
    if number % 5 != 4:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


class Chat:
    """One request and the bytes of its reply."""

    def __init__(self, port, number, body, headers=b""):
        self.number = number
        self.streamed = bool(body.get("stream"))
        self.arrivals = []  # (time, bytes)
        self.over = False
        text = json.dumps(body).encode()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            b"Connection: close\r\n%sContent-Length: %d\r\n\r\n" % (headers, len(text)) + text)
        self.socket.setblocking(False)

    def take(self):
        """Reads the available bytes; closes the socket at the end of the reply."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self.arrivals.append((time.monotonic(), data))
        else:
            self.over = True
            self.socket.close()

    def reply(self):
        """(status, body)"""
        raw = b"".join(data for _, data in self.arrivals)
        reply = http.client.HTTPResponse(FakeSocket(raw), method="POST")
        reply.begin()
        return reply.status, reply.read()

    def answer(self):
        """(status, comparable part of the answer): equal answers have equal pieces, one for each token, in order."""
        status, body = self.reply()
        if status != 200:
            return status, json.loads(body)["error"]["code"]
        if self.streamed:
            return 200, read_events(body.decode())
        whole = json.loads(body)
        choice = whole["choices"][0]
        return 200, (choice["message"]["content"], choice["finish_reason"], counted(whole["usage"]))


class FakeSocket:
    def __init__(self, raw):
        self.raw = raw

    def makefile(self, *_):
        return io.BytesIO(self.raw)


def read_events(text):
    """(pieces, finish_reason, usage), or the code of the error event."""
    pieces, finish, usage = [], None, None
    lines = [line for line in text.split("\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]", f"the stream ended with {lines[-1][:200]!r}"
    for line in lines[:-1]:
        assert line.startswith("data: "), line
        event = json.loads(line[len("data: "):])
        if "error" in event:
            return event["error"]["code"]
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                pieces.append(choice["delta"]["content"])
            finish = choice["finish_reason"] or finish
    return pieces, finish, counted(usage)


def counted(usage):
    """Usage without cached and drafted tokens, which depend on earlier requests and on time."""
    if not usage:
        return usage
    assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    details = {key: value for key, value in usage["completion_tokens_details"].items() if key not in ("draft_n", "draft_n_accepted")}
    return {key: value for key, value in usage.items() if key != "prompt_tokens_details"} | {"completion_tokens_details": details}


class Crowd:
    """Keeps `width` chats running; run() says when to begin no new ones."""

    def __init__(self, port, bodies, width):
        self.port = port
        self.bodies = bodies
        self.width = width
        self.live = []
        self.done = []
        self.begun = 0

    def begin_chat(self, selector):
        number = self.begun % len(self.bodies)
        chat = Chat(self.port, number, self.bodies[number])
        self.begun += 1
        self.live.append(chat)
        selector.register(chat.socket, selectors.EVENT_READ, chat)

    def run(self, wants_more, look=lambda: None, look_s=0.02):
        """Runs until wants_more() is false and every chat has ended. Calls look() about every look_s, and wants_more() after each chat."""
        last_s = time.monotonic()
        with selectors.DefaultSelector() as selector:
            while len(self.live) < self.width and wants_more():
                self.begin_chat(selector)
            while self.live:
                readable = selector.select(look_s)
                last_s = time.monotonic() if readable else last_s
                assert time.monotonic() < last_s + PATIENCE_S, f"{len(self.live)} chats hang"
                for key, _ in readable:
                    chat = key.data
                    fd = chat.socket
                    chat.take()
                    if chat.over:
                        selector.unregister(key.fd if fd.fileno() < 0 else fd)
                        self.live.remove(chat)
                        self.done.append(chat)
                        if wants_more():
                            self.begin_chat(selector)
                look()
        return self.done


def run_once(port, bodies, width, look=lambda: None):
    """Every body once. Returns its chats."""
    crowd = Crowd(port, bodies, width)
    return crowd.run(lambda: crowd.begun < len(bodies), look)
