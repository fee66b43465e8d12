"""A worker that makes a system call outside its work is ended by the kernel and replaced; no answer changes. Processes of the same user
cannot read the memory of the server and its workers."""

import os
import subprocess

import pytest
from crowd import run_once
from replay_test import check_answers
import demo_model
from shoal_server import ShoalServer

DENIED = "killed by signal 31 (Bad system call): a system call that its sandbox denies"
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


@pytest.mark.parametrize("call", ["open", "socket"])
def test_a_denied_call_ends_only_the_worker(start_server, undisturbed, call):
    bodies, answers = undisturbed
    server = start_server("--worker-fault", f"{call}-at-step=25")
    check_answers(run_once(server.port, bodies[:8], 8), answers)
    assert server.metrics()["shoal_worker_restarts_total"] >= 1
    assert server.get("/v1/status").json["workers"][0]["last_death"]["reason"] == DENIED
    log = server.log_text()
    assert "sandbox: system calls of steps only" in log
    assert "the call that --fault requests returned" not in log


def test_without_the_sandbox_the_call_succeeds(start_server, undisturbed):
    bodies, answers = undisturbed
    server = start_server("--worker-fault", "open-at-step=5", "--worker-sandbox", "off")
    check_answers(run_once(server.port, bodies[:1], 1), answers)
    assert server.metrics()["shoal_worker_restarts_total"] == 0
    log = server.log_text()
    assert "sandbox: none" in log
    assert "the call that --fault requests returned" in log


def environment_is_readable(pid):
    """Whether a process of this user without privileges may look into `pid`: the kernel asks the same as for its memory."""
    return subprocess.run([*UNPRIVILEGED, "cat", f"/proc/{pid}/environ"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=60).returncode == 0


@pytest.mark.parametrize("options, readable", [((), False), (("--allow-debug",), True)])
def test_others_of_the_same_user_cannot_look_into_the_processes(options, readable):
    with ShoalServer(*options, wrapper=UNPRIVILEGED, model=demo_model.FOLDER) as server:
        server.wait_ready()
        for pid in (server.process.pid, server.worker_pid()):
            assert environment_is_readable(pid) == readable
