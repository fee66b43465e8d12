"""systemd's protocols, with the test in place of systemd: notifications, watchdog, passed sockets; and the unit files."""

import configparser
import os
import re
import socket
import subprocess

import pytest

from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, ShoalServer, process_is_alive, process_state, send_signal, wait_until

# Runs the command after it as the process that LISTEN_PID names, with descriptor N as descriptor 3.
ADOPT = 'export LISTEN_PID=$$; exec "$@" 3<&%d'


class Manager:
    """Listens at the address for NOTIFY_SOCKET and keeps the notifications."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.messages = []

    def lines(self):
        while True:
            try:
                self.messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return [line for message in self.messages for line in message.split("\n")]

    def wait_for(self, line, times=1):
        wait_until(lambda: self.lines().count(line) >= times, f"{times} x {line}; so far {self.messages}")


@pytest.fixture
def manager(tmp_path):
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.socket.close()


def listening_socket():
    made = socket.create_server(("127.0.0.1", 0))
    return made, made.getsockname()[1]


def adopting(fd, count="1", environment=None, port=None):
    return {"wrapper": ["bash", "-c", ADOPT % fd, "bash"], "pass_fds": (fd,), "listens_on": port,
            "environment": {"LISTEN_FDS": count, **(environment or {})}}


def test_a_service_reports_ready_reloading_and_stopping(manager, tmp_path):
    running = ShoalServer("--allow-debug", environment={"NOTIFY_SOCKET": str(tmp_path / "notify")})  # environments are read
    with running:
        manager.wait_for("READY=1")
        assert running.get("/ready").status == 200
        assert not [line for line in manager.lines() if line.startswith("WATCHDOG")]
        wait_until(lambda: any(line == "STATUS=ready, 0 requests, 0 worker restarts" for line in manager.lines()),
                   "the status")
        worker = running.worker_pid()
        with open(f"/proc/{worker}/environ", "rb") as environment:
            assert b"NOTIFY_SOCKET" not in environment.read()
        send_signal(running.process.pid, "SIGHUP")
        manager.wait_for("RELOADING=1")
        manager.wait_for("READY=1", times=2)
        assert any(line.startswith("MONOTONIC_USEC=") for line in manager.lines())
        assert "STOPPING=1" not in manager.lines()
    assert "STOPPING=1" in manager.lines()


def test_a_failed_start_is_never_ready(manager, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no checkpoint")
    done = subprocess.run([str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(broken), "--port", "0"], cwd=ROOT,
                          env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert "READY=1" not in manager.lines()


def test_the_watchdog_is_fed_while_the_loop_turns(tmp_path, manager):
    running = ShoalServer(environment={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"})
    with running:
        manager.wait_for("WATCHDOG=1", times=4)
        running.wait_ready()
        send_signal(running.process.pid, "SIGSTOP")
        wait_until(lambda: process_state(running.process.pid) == "T", "the server to stand still")
        fed = manager.lines().count("WATCHDOG=1")
        with pytest.raises(AssertionError, match="waited"):
            wait_until(lambda: manager.lines().count("WATCHDOG=1") > fed, "a sign of life", patience_s=1)
        send_signal(running.process.pid, "SIGCONT")
        manager.wait_for("WATCHDOG=1", times=fed + 2)


def test_a_watchdog_for_another_process_is_not_fed(tmp_path, manager):
    running = ShoalServer(environment={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000",
                                       "WATCHDOG_PID": "1"})
    with running:
        manager.wait_for("READY=1")
        assert "WATCHDOG=1" not in manager.lines()


def test_an_abstract_address_works(tmp_path):
    name = f"shoal-test-{os.getpid()}-{tmp_path.name}"
    made = Manager("\0" + name)
    with ShoalServer(environment={"NOTIFY_SOCKET": "@" + name}):
        made.wait_for("READY=1")
    made.socket.close()


def test_a_missing_manager_is_ignored(tmp_path):
    with ShoalServer(environment={"NOTIFY_SOCKET": str(tmp_path / "nowhere"), "WATCHDOG_USEC": "10000"}) as running:
        running.wait_ready()
        assert running.chat("Hi", max_tokens=1).status == 200


def test_a_passed_socket_is_served(start_server):
    listener, port = listening_socket()
    early = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)  # before the server accepts
    early.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    running = start_server("--allow-debug", **adopting(listener.fileno(), port=port))
    assert early.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert running.chat("Hi", max_tokens=1).status == 200
    with open(f"/proc/{running.worker_pid()}/environ", "rb") as environment:
        assert b"LISTEN_" not in environment.read()
    early.close()
    running.__exit__(None, None, None)
    # The socket outlives the server; the next server accepts on it.
    late = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    late.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with ShoalServer(**adopting(listener.fileno(), port=port)):
        assert late.recv(65536).startswith(b"HTTP/1.1 200 ")
    late.close()
    listener.close()


def test_a_unix_socket_is_served(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "http"))
    listener.listen()
    options = ("--max-requests-per-client", "1", "--log-format", "json")
    with ShoalServer(*options, **adopting(listener.fileno(), port=1)) as running:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(tmp_path / "http"))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        line = wait_until(lambda: running.log_events("request"), "its line")[0]
        assert line["client"] == "local"
    listener.close()


@pytest.mark.parametrize("kind", ["datagram", "not listening", "a file", "too many"])
def test_descriptors_that_are_no_listening_sockets_are_refused(kind, tmp_path):
    with open(tmp_path / "file", "wb") as file:
        made = file
        if kind == "datagram":
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        elif kind in ("not listening", "too many"):
            made = socket.socket()
        how = adopting(made.fileno(), count="400" if kind == "too many" else "1")
        done = subprocess.run([*how["wrapper"], str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL)], cwd=ROOT,
                              env={**os.environ, **how["environment"]}, pass_fds=how["pass_fds"], capture_output=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 1 and b"descriptor" in done.stderr, done.stderr
        made.close()


def test_sockets_for_another_process_are_left_alone(start_server):
    listener, _ = listening_socket()
    running = start_server(environment={"LISTEN_FDS": "1", "LISTEN_PID": "1"}, pass_fds=(listener.fileno(),),
                           ready=False)
    assert running.get("/health").status == 200
    assert process_is_alive(running.process.pid)
    listener.close()


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, comment_prefixes="#", strict=False)
    parser.optionxform = str
    parser.read(ROOT / "scripts/systemd" / name)
    return parser


def test_the_units_say_what_the_program_does():
    service, passed = unit("shoal.service")["Service"], unit("shoal.socket")["Socket"]
    assert service["Type"] == "notify" and service["ExecStart"].split()[1] == "serve"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillMode"] == "mixed"  # a worker must not die before the requests that it runs
    help_text = subprocess.run([str(BUILD / "shoal"), "serve", "--help"], capture_output=True, timeout=PATIENCE_S,
                               check=True).stdout.decode()
    drain_s = int(re.search(r"--drain-timeout N .*\[(\d+)\]", help_text).group(1))
    assert int(service["TimeoutStopSec"]) > drain_s
    port = re.search(r"--port N .*\[(\d+)\]", help_text).group(1)
    assert passed["ListenStream"].rsplit(":")[-1] == port
    text = (ROOT / "scripts/systemd/shoal.service").read_text(encoding="utf-8")
    for option in re.findall(r"--[a-z][a-z-]+", text.split("\n[Unit]")[0]):
        assert f"{option} " in help_text or option == "--now", option
