"""Runs `shoal serve` for a test: JSON requests, event streams, raw sockets, metrics.

SHOAL_TEST_BUILD names another build folder (build/san-address, say).
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("SHOAL_TEST_BUILD", "build")
MODEL = ROOT / "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
MODEL_ID = "smollm2-135m-instruct-q4_1"
PATIENCE_S = 300  # for events that take at most seconds on an idle machine; only a failing test waits so long
COMPILING_S = 1800  # for a CPU driver that compiles kernels, which takes half a minute on an idle machine

# Figures that are zero when nothing is going on.
IDLE_FIGURES = [
    "shoal_live_requests",
    "shoal_unsent_bytes",
    "shoal_requests_with_worker",
    "shoal_slab_used_bytes",
    "shoal_kv_blocks_used",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
]


def device_option(options):
    """--device cpu unless the options name a device, so that a test computes the same on a machine with a GPU."""
    return [] if "--device" in options else ["--device", "cpu"]


def read_all(connection):
    """The bytes received until the other side closes or resets the connection."""
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Returns condition()'s first true value."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        time.sleep(0.01)


def process_state(pid):
    """R, S, T and so on, as in proc(5); Z too where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second: it was reaped after the file was opened
        return "Z"


def process_is_alive(pid):
    return process_state(pid) != "Z"


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object; asserts its fields."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"]
        return error


class ShoalServer:
    """tls: an ssl.SSLContext to speak to an HTTPS server with. wrapper: a command that execs the server's.
    environment and pass_fds: what the server inherits beside. listens_on: the port of a socket that it was passed.
    programs: the folder of `shoal` and of `shoal-worker`, which it starts from beside itself."""

    def __init__(self, *options, model=None, tls=None, wrapper=(), environment=None, pass_fds=(), listens_on=None,
                 programs=BUILD):
        self.options = list(options)
        self.model_option = [] if "--models-dir" in self.options else ["--model", str(model or MODEL)]
        self.tls = tls
        self.wrapper = list(wrapper)
        self.environment = {**os.environ, **(environment or {})}
        self.pass_fds = pass_fds
        self.listens_on = listens_on
        self.programs = programs
        self.process = None
        self.port = None
        self.log = None

    # --- life ---------------------------------------------------------------------------------

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        port = [] if "--port" in self.options else ["--port", "0"]
        command = [*self.wrapper, str(self.programs / "shoal"), "serve", *self.model_option, *port,
                   *device_option(self.options), *self.options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            env=self.environment, pass_fds=self.pass_fds)
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        line = self.process.stdout.readline().decode() if readable else ""
        address = r"passed sockets, https?" if self.listens_on else r"(https?)://127\.0\.0\.1:(\d+)"
        found = re.fullmatch(rf"listening on {address}\n", line)
        assert found, f"first line was {line!r}; log: {self.log_text()}"
        self.port = self.listens_on or int(found.group(2))
        return self

    def __exit__(self, *_):
        worker = self.worker_pid()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the server did not drain; log: {self.log_text()}") from None
            assert self.process.returncode == 0, self.log_text()
        self.process.stdout.close()
        log = self.log_text()
        assert "Sanitizer" not in log and "runtime error" not in log, log
        if worker:
            wait_until(lambda: not process_is_alive(worker), "the worker to end with its server")

    def log_text(self):
        """The output of the server's processes. They share the file position, so reading must not move it."""
        descriptor = self.log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def worker_pid(self):
        try:
            pid = self.process.pid
            text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            return None
        for child in map(int, text.split()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="ascii") not in ("shoal-media\n", "shoal-av\n"):
                    return child
        return None

    def media_pids(self):
        """Processes that decode images. Threads start them, and /proc lists children by thread."""
        pids = []
        for listing in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for child in map(int, listing.read_text(encoding="ascii").split()):
                    if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="ascii") == "shoal-media\n":
                        pids.append(child)
        return pids

    def wait_ready(self, patience_s=PATIENCE_S):
        def ready():
            assert self.process.poll() is None, f"the server ended: {self.log_text()}"
            return self.get("/ready").status == 200
        wait_until(ready, "the server to be ready", patience_s)

    def wait_exit(self, patience_s=PATIENCE_S):
        return self.process.wait(patience_s)

    # --- requests -----------------------------------------------------------------------------

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        if self.tls:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=PATIENCE_S * 2, context=self.tls)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S * 2)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def chat(self, content="Hello", headers=None, **fields):
        body = {"messages": [{"role": "user", "content": content}], **fields}
        return self.request("POST", "/v1/chat/completions", body, headers)

    def open_stream(self, content="Hello", **fields):
        return EventStream(self.connect(), {"messages": [{"role": "user", "content": content}], "stream": True,
                                            **fields})

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S * 2)
        return self.tls.wrap_socket(plain, server_hostname="127.0.0.1") if self.tls else plain

    def log_events(self, event=None):
        """The objects of a JSON log, one a line: all of them, or those of one event. A line that is being written is left out."""
        objects = [json.loads(line) for line in self.log_text().rpartition("\n")[0].splitlines()]
        return [one for one in objects if event in (None, one["event"])]

    # --- figures ------------------------------------------------------------------------------

    def metrics(self):
        """{name: value}; of names with more labels than model and engine, {name{rest}: value}."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = re.fullmatch(r'([\w:]+)(?:\{(.*)\})? (\S+)', line).groups()
            labels = re.sub(r'(?:model_name|engine)="[^"]*",?', "", labels or "").rstrip(",")
            values[name + ("{" + labels + "}" if labels else "")] = float(value)
        return values

    def ended(self, *reasons):
        """How many requests have ended for these reasons."""
        values = self.metrics()
        return sum(values[f'vllm:request_success_total{{finished_reason="{reason}"}}'] for reason in reasons)

    @contextlib.contextmanager
    def expect_cancels(self):
        """Asserts that requests whose clients leave inside the block are cancelled: none of them finishes before the server is idle."""
        before = self.ended("stop", "length")
        yield
        self.wait_idle()
        assert self.ended("stop", "length") == before

    def wait_idle(self, patience_s=PATIENCE_S):
        """Waits until all resources of requests are free."""
        busy = {}

        def idle():
            values = self.metrics()
            busy.clear()
            busy.update({name: values[name] for name in IDLE_FIGURES if values[name] != 0})
            return not busy
        try:
            wait_until(idle, "everything to be given back", patience_s)
        except AssertionError:
            raise AssertionError(f"still in use: {busy}") from None


class EventStream:
    """A streamed chat over a socket of its own, event by event."""

    def __init__(self, connection, body):
        text = json.dumps(body).encode()
        self.socket = connection
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(text) + text)
        self.answer = None

    def head(self):
        if self.answer is None:
            self.answer = http.client.HTTPResponse(self.socket, method="POST")
            self.answer.begin()
        return self.answer

    @property
    def status(self):
        return self.head().status

    def lines(self):
        """Every line that is not empty: data and comments."""
        assert self.head().status == 200, self.head().read()
        for line in self.head():
            line = line.decode().rstrip("\n")
            if line:
                yield line

    def events(self):
        """Parsed events up to [DONE], which must come."""
        for line in self.lines():
            if line.startswith(":"):
                continue
            assert line.startswith("data: "), line
            if line == "data: [DONE]":
                assert self.head().read().strip() == b"", "bytes behind [DONE]"
                return
            yield json.loads(line[len("data: "):])
        raise AssertionError("the stream ended without [DONE]")

    def text(self):
        """Reads to the end; returns (text, finish_reason)."""
        parts, finish = [], None
        for event in self.events():
            assert "error" not in event, event
            for choice in event["choices"]:
                parts.append(choice["delta"].get("content") or "")
                finish = choice["finish_reason"] or finish
        return "".join(parts), finish

    def wait_token(self):
        """Reads up to the first text."""
        for event in self.events():
            assert "error" not in event, event
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                return event
        raise AssertionError("the stream ended without text")

    def close(self):
        if self.answer is not None:
            self.answer.close()
        self.socket.close()

    def reset(self):
        """Leaves with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.close()


def send_signal(pid, name):
    os.kill(pid, getattr(signal, name))


def start_and_stop_worker(start_server, programs, *options):
    """A server whose worker is stopped before it is ready."""
    shutil.copy(BUILD / "shoal", programs / "shoal")
    program = programs / "shoal-worker"
    program.write_text(f'#!/bin/sh\nkill -STOP $$\nexec "{BUILD}/shoal-worker" "$@"\n', encoding="ascii")
    program.chmod(0o755)
    running = start_server(*options, ready=False, programs=programs)
    worker = wait_until(running.worker_pid, "the worker to start")
    wait_until(lambda: process_state(worker) == "T", "the worker to stand still")
    return running, worker
