"""API keys: which requests are accepted, which routes need no key, reloading of the key file, and that refused bodies cost no memory."""

import os
import pathlib
import secrets
import subprocess

import numpy
import pytest

import demo_model
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, send_signal, wait_until
from tls_test import client_context, make_certificate

SERVER_MODEL = demo_model.FOLDER

KEYS = ("--api-key", "sk-first", "--api-key=sk-second")


@pytest.fixture(scope="module")
def guarded():
    from shoal_server import ShoalServer
    with ShoalServer(*KEYS) as running:
        running.wait_ready()
        yield running


@pytest.mark.parametrize("headers", [
    {"Authorization": "Bearer sk-first"},
    {"Authorization": "bearer  sk-second"},
    {"x-api-key": "sk-second"},
    {"Authorization": "Basic bm9ib2R5", "X-API-Key": "sk-first"},
])
def test_a_key_opens(guarded, headers):
    assert guarded.get("/v1/models", headers).status == 200
    assert guarded.chat("Hi", headers, max_tokens=1).status == 200


@pytest.mark.parametrize("headers", [
    {},
    {"Authorization": "Bearer sk-firs"},
    {"Authorization": "Bearer sk-first2"},
    {"Authorization": "Bearer "},
    {"Authorization": "sk-first"},
    {"Authorization": "Basic sk-first"},
    {"x-api-key": "SK-FIRST"},
    {"x-api-key": ""},
    {"x-api-key": "k" * 20000},
])
def test_anything_else_does_not(guarded, headers):
    for reply in (guarded.get("/v1/models", headers), guarded.chat("Hi", headers),
                  guarded.get("/nothing/here", headers), guarded.request("DELETE", "/v1/models", headers=headers)):
        assert reply.status == 401
        assert reply.error["code"] == "invalid_api_key" and reply.error["type"] == "authentication_error"
        assert reply.headers["www-authenticate"] == "Bearer"
        assert "sk-" not in reply.body.decode()


def test_probes_and_preflights_need_none(guarded):
    for path in ("/health", "/v1/health", "/ready", "/v1/ready", "/metrics"):
        assert guarded.get(path).status == 200, path
    assert guarded.request("OPTIONS", "/v1/chat/completions").status == 204


def test_metrics_can_be_protected(start_server):
    running = start_server("--api-key", "sk-first", "--protect-metrics", ready=False)
    assert running.get("/metrics").status == 401
    assert running.get("/metrics", {"Authorization": "Bearer sk-first"}).status == 200
    assert running.get("/health").status == 200


def test_a_refusal_comes_before_the_body(guarded):
    before = guarded.metrics()["shoal_http_requests_unauthorized_total"]
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\nExpect: 100-continue\r\n\r\n"
    with guarded.connect() as connection:
        connection.sendall(head)
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += connection.recv(4096)
    assert reply.startswith(b"HTTP/1.1 401 "), reply
    assert b"100 Continue" not in reply
    assert b"connection: close" in reply.lower()
    assert guarded.metrics()["shoal_http_requests_unauthorized_total"] == before + 1


def test_a_refused_connection_without_a_body_goes_on(guarded):
    with guarded.connect() as connection:
        for _ in range(3):
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reply = connection.recv(4096)
            assert reply.startswith(b"HTTP/1.1 401 ") and b"Connection: close" not in reply


def test_a_refused_body_is_not_kept(guarded):
    """64 clients send 4 MB each without a key; the server's memory does not grow with them."""
    def resident():
        status = pathlib.Path(f"/proc/{guarded.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024
    before = resident()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
    connections = [guarded.connect() for _ in range(64)]
    try:
        for connection in connections:
            connection.setblocking(False)
            connection.send(head)
            try:
                connection.send(b"x" * 1000000)
            except (BlockingIOError, ConnectionError):
                pass
        grown = resident() - before
    finally:
        for connection in connections:
            connection.close()
    assert grown < 16 << 20, f"{grown} bytes more"


def test_the_key_file_is_read_again(start_server, tmp_path):
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text("# the team\n\n  sk-old  \r\n")
    running = start_server("--api-key-file", str(path), "--api-key", "sk-fixed", ready=False)

    def opens(key):
        return running.get("/v1/models", {"x-api-key": key}).status != 401

    def reload(text, word):
        seen = running.log_text().count(word)
        path.write_text(text)
        send_signal(running.process.pid, "SIGHUP")
        wait_until(lambda: running.log_text().count(word) > seen, f"'{word}' in the log")

    assert opens("sk-old") and opens("sk-fixed") and not opens("# the team")
    reload("sk-new\n# sk-old\nsk-newer", "read again")
    assert opens("sk-new") and opens("sk-newer") and opens("sk-fixed") and not opens("sk-old")
    reload("sk-good\nhas a space\n", "stay as they were")
    assert opens("sk-new") and not opens("sk-good")
    path.unlink()
    path.mkdir()
    send_signal(running.process.pid, "SIGHUP")
    wait_until(lambda: running.log_text().count("stay as they were") == 2, "the second refusal")
    assert opens("sk-new") and opens("sk-fixed")
    assert "sk-" not in running.log_text().replace("task-", ""), "a key is in the log"


def pages_in_memory(pagemap, first, count):
    """Ranges of the pages that a process has in memory or in swap; the others of its address space are zero (proc(5), pagemap)."""
    pagemap.seek(first * 8)
    held = numpy.flatnonzero(numpy.frombuffer(pagemap.read(count * 8), numpy.uint64) >> numpy.uint64(62))
    for pages in numpy.split(held, numpy.flatnonzero(numpy.diff(held) > 1) + 1):
        if len(pages):
            yield first + int(pages[0]), len(pages)


def copies_in_memory(pid, *texts):
    """How often the writable memory of a process has one of the texts."""
    count, page = 0, os.sysconf("SC_PAGE_SIZE")
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory, \
            open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
        for line in maps:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1][:2] != "rw":
                continue
            for first, pages in pages_in_memory(pagemap, begin // page, (end - begin) // page):
                try:
                    memory.seek(first * page)
                    held = memory.read(pages * page)
                except OSError:
                    continue  # memory of a device
                count += sum(held.count(text.encode()) for text in texts)
    return count


@pytest.mark.parametrize("protected", [False, True], ids=["plain", "tls"])
def test_keys_do_not_stay_in_memory(start_server, tmp_path, protected):
    """Memory of requests is not locked, so that it could be swapped: keys that came with them are overwritten when they end."""
    key = "sk-" + secrets.token_hex(16)
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text(key + "\n")
    options, tls = ["--api-key-file", str(path), "--allow-debug"], None
    if protected:
        certificate, private = make_certificate(tmp_path, "one", "one")
        options += ["--tls-cert", str(certificate), "--tls-key", str(private)]
        tls = client_context(certificate)
    running = start_server(*options, ready=False, tls=tls)
    head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n" % key.encode()
    long_head = head + b"X-Other: " + b"a" * 4000 + b"\r\n"

    for requests in (head + b"\r\n", long_head + b"\r\n", (head + b"\r\n") * 20, head + b"Connection: close\r\n\r\n", head + b"\r",
                     head.replace(b"X-Api-Key: ", b"Authorization: Bearer ") + b"\r\n", b"nonsense\r\n\r\n" + head):
        for piece in (len(requests), 37):
            with running.connect() as connection:
                for at in range(0, len(requests), piece):
                    connection.sendall(requests[at:at + piece])
                if not requests.startswith(b"nonsense") and requests.endswith(b"\r\n\r\n"):
                    assert connection.recv(100).startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
    assert copies_in_memory(os.getpid(), key) > 0
    wait_until(lambda: copies_in_memory(running.process.pid, key) == 0, "the key to be overwritten")


def children_of(pid):
    return [int(word) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text(encoding="ascii").split()]


def test_keys_of_the_command_line_are_overwritten(start_server):
    """Other users read /proc/PID/cmdline. The worker and its successor after a death never had the keys; the server has digests."""
    first, second = ("sk-" + secrets.token_hex(16) for _ in range(2))
    running = start_server("--api-key", first, f"--api-key={second}", "--allow-debug", "--log-level", "debug")
    pid = running.process.pid

    def assert_hidden():
        started = children_of(pid)
        assert running.worker_pid() in started
        for process in [pid, *started]:
            for place in ("cmdline", "environ"):
                text = pathlib.Path(f"/proc/{process}/{place}").read_bytes()
                assert first.encode() not in text and second.encode() not in text, (process, place)
        assert copies_in_memory(running.worker_pid(), first, second) == 0

    assert b"--api-key" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    assert_hidden()
    wait_until(lambda: copies_in_memory(pid, first, second) == 0, "the keys to be overwritten")
    for key, status in ((first, 200), (second, 200), ("", 401), (first[:-1], 401)):
        assert running.get("/v1/models", {"x-api-key": key}).status == status
    send_signal(pid, "SIGHUP")
    wait_until(lambda: "read again" in running.log_text(), "the keys to be read again")
    dead = running.worker_pid()
    send_signal(dead, "SIGKILL")
    wait_until(lambda: running.worker_pid() not in (None, dead), "the next worker")
    running.wait_ready()
    assert_hidden()
    assert [running.get("/v1/models", {"x-api-key": key}).status for key in (first, second, "")] == [200, 200, 401]
    assert first not in running.log_text() and second not in running.log_text()


@pytest.mark.parametrize("text,words", [
    (None, "cannot open"), ("", "holds no API key"), ("# none\n", "holds no API key"), ("two words", "line 1"),
    ("ok\n" + "k" * 513, "line 2"), ("\x01", "line 1"), ("k\n" * 1025, "more than 1024"),
])
def test_a_bad_key_file_ends_the_start(tmp_path, text, words):
    path = tmp_path / "keys"
    if text is not None:
        path.touch(mode=0o600)
        path.write_text(text)
    done = subprocess.run([str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), "--port", "0", "--api-key-file",
                           str(path)], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert words in done.stderr.decode(), done.stderr
    assert b"listening" not in done.stdout
