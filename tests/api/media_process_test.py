"""The processes that decode images: confined, killed or killed from outside, replaced; and what a client is told."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys

import pytest

from shoal_server import BUILD, process_is_alive, send_signal, wait_until
from slow_images import cpu_seconds, image_parts, progressive_jpeg
from vision_folder import make_folder, png

IMAGE = png(16, 8, (255, 0, 0))
SLOW = progressive_jpeg(4096, 95)  # 1.5 s of CPU time

# Stands in for shoal-media: greets, then CONDUCT for each request, of which REPLY answers.
STAND_IN = """#!{python}
import os, signal, socket, struct
control = socket.socket(fileno=3)

def send(id=0, result=0, header=(0, 0, 0, 0, 0), text=b""):
    control.send(struct.pack("<QII5I28x256s", id, result, 0, *header, text))

send()
while True:
    data = control.recv(100)
    if not data:
        break
    id, action = struct.unpack_from("<QI", data)
    header = (1, 16, 8, 1, 1) if action == 1 else (0,) * 5
    {conduct}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


def image_chat(server, data=IMAGE, **fields):
    return server.chat(image_parts(1, data), max_tokens=8, temperature=0, **fields)


def post_and_leave(server, data):
    """A connection that has sent a request with an image."""
    body = json.dumps({"messages": [{"role": "user", "content": image_parts(1, data)}]}).encode()
    client = server.connect()
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return client


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def busy_pid(server):
    """A media process that has worked for some ticks on an image, or None."""
    return next((pid for pid in server.media_pids() if process_is_alive(pid) and cpu_ticks(pid) > 5), None)


# --- confinement ----------------------------------------------------------------------------------------------------------


def test_shoal_has_no_image_decoder():
    maps = {name: (BUILD / name).read_bytes() for name in ("shoal", "shoal-media")}
    for library in (b"libjpeg.so", b"libpng16.so", b"libwebp.so"):
        assert library in maps["shoal-media"] and library not in maps["shoal"]


def test_the_process_is_confined(folder, start_server):
    server = start_server(model=folder, environment={"SECRET_TOKEN": "x"})
    pid, = server.media_pids()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    assert status["Threads"] == "1" and status["NoNewPrivs"] == "1"
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    for name, most in [("address space", (1 << 30) + (64 << 20)), ("file size", 0), ("processes", 0), ("core file size", 0)]:
        line = next(line for line in limits.splitlines() if line.startswith(f"Max {name}"))
        assert f" {most} " in line, line
    assert b"SECRET_TOKEN" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2", "3"]
    assert os.readlink(f"/proc/{pid}/fd/3").startswith("socket:")
    log = server.log_text()
    assert status["Seccomp"] == ("0" if "this system has no seccomp" in log else "2")
    assert ("under seccomp, Landlock and resource limits" in log) != ("this system has no" in log)


def test_a_text_model_has_no_media_process(start_server):
    server = start_server()
    assert server.media_pids() == [] and server.metrics()["shoal_media_processes"] == 0


def test_it_ends_with_its_server(folder, start_server):
    server = start_server(model=folder)
    pid, = server.media_pids()
    worker = server.worker_pid()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: not process_is_alive(pid) and not process_is_alive(worker), "the processes to end with their server")
    server.process.returncode = 0


# --- death ------------------------------------------------------------------------------------------------------------------


def test_a_kill_while_decoding_changes_no_answer(folder, start_server):
    server = start_server(model=folder)
    expected = image_chat(server, SLOW).json["choices"]
    idle, = server.media_pids()
    send_signal(idle, "SIGKILL")  # replaced without notice
    wait_until(lambda: not process_is_alive(idle), "its end")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(image_chat, server, SLOW)
        for _ in range(2):
            pid = wait_until(lambda: busy_pid(server), "a process to decode")
            send_signal(pid, "SIGKILL")
            wait_until(lambda pid=pid: pid not in server.media_pids(), "its end")
    assert answer.result().status == 200 and answer.result().json["choices"] == expected
    values = server.metrics()
    assert values["shoal_media_restarts_total"] == 3 and values["shoal_media_crashes_total"] == 0
    assert values["shoal_media_processes"] >= 1
    server.wait_idle()


def test_a_client_that_leaves_frees_the_process(folder, start_server):
    server = start_server("--media-processes", "1", model=folder)
    clients = [post_and_leave(server, SLOW) for _ in range(6)]  # 9 s of CPU time
    wait_until(lambda: busy_pid(server), "a process to decode")
    for client in clients:
        client.close()
    assert image_chat(server).status == 200  # after the abandoned images, in the only process
    values = server.metrics()
    assert values["shoal_media_cancel_kills_total"] >= 1
    assert cpu_seconds(server) < 4
    server.wait_idle()


def test_a_text_stream_goes_on_beside_images(folder, start_server):
    """Text keeps its pace by order: a stream of many tokens ends while images that came before it are still decoded."""
    server = start_server("--media-processes", "1", model=folder)
    alone = server.open_stream("a long story", max_tokens=60, temperature=0, ignore_eos=True).text()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        images = [pool.submit(image_chat, server, SLOW) for _ in range(6)]  # 9 s in the only process
        wait_until(lambda: busy_pid(server), "a process to decode")
        assert server.open_stream("a long story", max_tokens=60, temperature=0, ignore_eos=True).text() == alone
        assert not all(image.done() for image in images)
        assert all(image.result().status == 200 for image in images)


def test_sigterm_ends_a_server_that_decodes(folder, start_server):
    server = start_server("--drain-timeout", "0", model=folder)
    client = post_and_leave(server, SLOW)
    pid = wait_until(lambda: busy_pid(server), "a process to decode")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_exit() == 0
    assert not process_is_alive(pid) and "did not end within" not in server.log_text()
    client.close()


# --- processes that break ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(folder, start_server, tmp_path):
    """stand_in(lines): a server whose media process does that for each request."""
    def start(conduct):
        shutil.copy(BUILD / "shoal", tmp_path / "shoal")
        (tmp_path / "shoal-worker").symlink_to(BUILD / "shoal-worker")
        if conduct:
            program = tmp_path / "shoal-media"
            program.write_text(STAND_IN.format(python=sys.executable, conduct=conduct), encoding="ascii")
            program.chmod(0o755)
        return start_server(model=folder, programs=tmp_path)
    return start


@pytest.mark.parametrize("conduct, words", [
    ("os.abort()", "it cannot be decoded: its decoder crashed"),
    ("os._exit(0)", "it cannot be decoded: its decoder crashed"),
    ("send(id + 1, 0, header)", "it cannot be decoded: its decoder crashed"),
    ("send(id, 0, (1, 1 << 31, 1 << 31, 1, 1))", "it cannot be decoded: its decoder crashed"),
    ("send(id, 1, text=b'a' * 256)", "it cannot be decoded: its decoder crashed"),
    ("send(id, 1, text=b'\\n2026 error frontend: forged')", "it cannot be decoded: its decoder crashed"),
    ("send(id, 10, text=b'no')", "decoding it takes more than 1140850688 bytes of memory"),
    ("send(id, 1, text=b'broken')", "broken"),
    ("while True: pass", "decoding it takes too long: it took more than 500 ms of CPU time"),
])
def test_a_process_that_breaks_costs_a_400(stand_in, conduct, words):
    server = stand_in(conduct)
    alone = server.chat("a story", max_tokens=20, temperature=0).json["choices"]
    for _ in range(2):
        reply = image_chat(server)
        assert (reply.status, reply.error["code"]) == (400, "invalid_image"), reply.body
        assert reply.error["message"] == f"messages[0].content[0]: {words}"
        assert reply.error["param"] == "messages[0].content[0]"
    assert server.chat("a story", max_tokens=20, temperature=0).json["choices"] == alone
    values = server.metrics()
    if "crashed" in words:
        assert values["shoal_media_crashes_total"] >= 2 and values["shoal_media_budget_kills_total"] == 0
    if "too long" in words:
        assert values["shoal_media_budget_kills_total"] == 2 and values["shoal_media_cpu_seconds_total"] < 4
    assert "\n2026 error" not in server.log_text()
    server.wait_idle()


def test_a_crash_is_not_blamed_on_an_image_that_came_later(stand_in):
    """The process answers one probe and crashes at what comes next: so the image is decoded by a new one, which crashes at once."""
    server = stand_in("count = globals().get('count', 0) + 1; os.abort() if count > 1 else send(id, 0, header)")
    assert image_chat(server).status == 200
    values = server.metrics()
    assert values["shoal_media_crashes_total"] == 1 and values["shoal_media_restarts_total"] == 1


def test_a_process_killed_again_and_again_is_a_503(stand_in):
    server = stand_in("os.kill(os.getpid(), signal.SIGKILL)")
    reply = image_chat(server)
    assert (reply.status, reply.error["code"]) == (503, "image_decoder_unavailable"), reply.body
    assert int(reply.headers["retry-after"]) >= 1
    assert server.metrics()["shoal_media_restarts_total"] == 2  # three attempts
    assert server.chat("a story", max_tokens=2).status == 200


def test_a_missing_program_costs_only_images(stand_in):
    server = stand_in(None)
    assert "images cannot be decoded: cannot start" in server.log_text()
    assert image_chat(server).status == 503
    assert server.chat("a story", max_tokens=2).status == 200
    assert server.metrics()["shoal_media_processes"] == 0
