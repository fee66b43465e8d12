"""Signals without a meaning, limits of the process and a flood of SIGHUPs neither end nor stall the server."""

import os
import pathlib
import resource
import signal
import subprocess
import time

import demo_model
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, wait_until

SERVER_MODEL = demo_model.FOLDER


def test_user_signals_have_no_effect(start_server):
    running = start_server()
    worker = running.worker_pid()
    for pid, number in ((running.process.pid, signal.SIGUSR1), (worker, signal.SIGUSR1), (worker, signal.SIGUSR2)):
        for _ in range(100):
            os.kill(pid, number)
    assert running.chat("Hi", max_tokens=2).status == 200
    assert running.get("/v1/status").json["worker_restarts"] == 0
    assert running.log_text().count("has no effect") == 1


def test_a_flood_of_hangups_reloads_once_a_second(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(f"sk-{i:04d}\n" for i in range(1000)))
    keys.chmod(0o600)
    running = start_server("--api-key-file", str(keys), ready=False)
    begun = time.monotonic()
    for _ in range(50):
        for _ in range(100):
            os.kill(running.process.pid, signal.SIGHUP)
        assert running.get("/health").status in (200, 503)
    keys.write_text("sk-last\n")
    os.kill(running.process.pid, signal.SIGHUP)
    wait_until(lambda: running.get("/v1/models", {"x-api-key": "sk-last"}).status == 200, "the last file in force")
    reloads = running.log_text().count("API keys read again")
    assert 1 <= reloads <= time.monotonic() - begun + 2


def test_a_full_log_file_does_not_end_the_server(start_server):
    """Beyond RLIMIT_FSIZE a write fails; the signal that comes with it would end the process."""
    running = start_server()
    limit = len(running.log_text().encode())
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    for _ in range(3):
        assert running.chat("Hi", max_tokens=2).status == 200
    assert len(running.log_text().encode()) <= limit


def test_too_few_open_files_are_refused_at_the_start():
    done = subprocess.run(["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", str(BUILD / "shoal"), "serve", "--device", "cpu", "--model",
                           str(MODEL), "--port", "0"], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False, text=True)
    assert done.returncode == 1 and "limit of open files is 40; this server needs at least 72" in done.stderr


def test_a_worker_restarts_under_a_flood_of_connections(start_server):
    running = start_server(wrapper=["sh", "-c", 'ulimit -n 80; exec "$@"', "sh"])
    worker = running.worker_pid()
    held = [running.connect() for _ in range(60)]
    try:
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: "ready" in running.log_text().split("killed by signal")[-1], "the next worker")
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: running.get("/ready").status == 200, "the next worker to serve")
    assert running.chat("Hi", max_tokens=2).status == 200
    assert pathlib.Path(f"/proc/{running.process.pid}").exists()
