"""A standby takes over from a worker that is killed: the same answers, without a new process having to load."""

import os
import random
import signal
import subprocess

import pytest

from crowd import run_once
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, ShoalServer, process_is_alive, wait_until

STREAMS = 6
WORDS = "river stone winter light engine paper garden metal story number glass music harbor letter cloud".split()
OPTIONS = ("--standby", "on", "--max-sequences", "8")
DEMO = ROOT / "tests/model/demo"


def body(number):
    text = " ".join(WORDS[(number * 7 + at * at) % len(WORDS)] for at in range(40 + number))
    return {"messages": [{"role": "user", "content": f"{number}: {text}"}], "seed": number, "temperature": 0.9 * (number % 2),
            "max_tokens": 60, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}


BODIES = [body(number) for number in range(STREAMS)]


def worker_of(server):
    return server.get("/v1/status").json["workers"][0]


def waiting_standby(server):
    """Pid of the standby once it has loaded."""
    wait_until(lambda: worker_of(server)["standby"]["state"] == "waiting", "the standby")
    return worker_of(server)["standby"]["pid"]


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def answers_of(server, look=lambda: None):
    """The answers by request; look() is called about every 20 ms."""
    return {chat.number: chat.answer() for chat in run_once(server.port, BODIES, STREAMS, look)}


@pytest.fixture(scope="module")
def answers():
    with ShoalServer("--standby", "off", "--max-sequences", "8", model=DEMO) as server:
        server.wait_ready()
        assert worker_of(server)["standby"] == {"state": "none", "pid": None}
        return answers_of(server)


def test_it_takes_over_in_the_middle_of_streams(answers):
    with ShoalServer(*OPTIONS, model=DEMO) as server:
        server.wait_ready()
        for life in range(1, 4):
            standby, doomed = waiting_standby(server), [server.worker_pid()]

            def look():
                if doomed and server.metrics()["vllm:generation_tokens_total"] > before + delay:
                    kill(doomed.pop())

            before, delay = server.metrics()["vllm:generation_tokens_total"], random.randrange(5, 150)
            assert answers_of(server, look) == answers, f"life {life}, killed after {delay} tokens"
            assert not doomed
            wait_until(lambda: server.get("/ready").status == 200, "the next worker")
            worker = worker_of(server)
            assert (worker["pid"], worker["takeovers"], worker["restarts"]) == (standby, life, life)
        pids = [server.worker_pid(), waiting_standby(server)]
        log = server.log_text()
        assert log.count("blocks of an earlier worker taken over") == 3 and log.count("worker 0 started") == 1
    assert not any(process_is_alive(pid) for pid in pids)


def test_a_standby_that_dies_is_replaced_and_disturbs_nothing(answers):
    with ShoalServer(*OPTIONS, model=DEMO) as server:
        server.wait_ready()
        first = waiting_standby(server)
        kill(first)
        assert answers_of(server) == answers
        wait_until(lambda: worker_of(server)["standby"]["pid"] not in (None, first), "another standby")
        kill(server.worker_pid())  # the other one may still load: it takes over once it has
        assert answers_of(server) == answers
        assert (worker_of(server)["takeovers"], worker_of(server)["restarts"]) == (1, 1)


def test_both_processes_killed_at_once(answers):
    with ShoalServer(*OPTIONS, model=DEMO) as server:
        server.wait_ready()
        kill(waiting_standby(server))
        kill(server.worker_pid())
        assert answers_of(server) == answers
        assert worker_of(server)["restarts"] in (1, 2)  # the standby may be taken before its death is known


@pytest.mark.parametrize("fault", [signal.SIGSTOP, signal.SIGKILL])
def test_one_that_hangs_or_dies_once_it_serves(answers, fault):
    """It took over and has sent tokens: it is a worker like any other, which is killed as hung, or followed by its own standby or a new process."""
    with ShoalServer(*OPTIONS, "--worker-timeout", "2", model=DEMO) as server:
        server.wait_ready()
        standby, doomed = waiting_standby(server), [server.worker_pid()]

        def look():
            tokens = server.metrics()["vllm:generation_tokens_total"] - before
            if len(doomed) == 1 and tokens > 30:
                kill(doomed[0])
                doomed.append(standby)
                marks.append(tokens)
            elif len(doomed) == 2 and tokens > marks[0] + 30 and worker_of(server)["pid"] == standby:
                os.kill(standby, fault)
                doomed.append(None)

        before, marks = server.metrics()["vllm:generation_tokens_total"], []
        assert answers_of(server, look) == answers
        assert len(doomed) == 3
        worker = worker_of(server)
        assert worker["restarts"] == 2 and worker["pid"] != standby and not process_is_alive(standby)
        assert ("it hangs: its heartbeat stands still" in server.log_text()) == (fault == signal.SIGSTOP)


def test_a_standby_needs_a_cache_that_survives():
    command = [BUILD / "shoal", "serve", "--model", MODEL, "--standby", "on", "--kv-survives", "0", "--port", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode != 0 and b"--standby on needs --kv-survives 1" in ended.stderr


@pytest.mark.parametrize("number, words", [(signal.SIGKILL, "its process ended"), (signal.SIGSEGV, "Segmentation fault")])
def test_on_a_device_it_does_not_wait_until_the_dead_process_is_reaped(number, words):
    """Its device has finished: nothing was under way. An answer goes on from the cache; the cause is known by the process's marks."""
    chat = {key: value for key, value in BODIES[2].items() if not key.startswith("stream")} | {"max_tokens": 12}
    with ShoalServer("--device", "vulkan", *OPTIONS, "--log-level", "info", model=DEMO) as server:
        server.wait_ready()
        standby, first = waiting_standby(server), server.worker_pid()
        before = server.request("POST", "/v1/chat/completions", chat).json
        os.kill(first, number)
        wait_until(lambda: worker_of(server)["takeovers"] == 1, "the standby")
        after = server.request("POST", "/v1/chat/completions", chat).json
        assert after["choices"] == before["choices"] and after["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        assert server.worker_pid() == standby
        wait_until(lambda: f"pid {first} is reaped: killed by signal {int(number)}" in server.log_text(), "its reaping")
        log = server.log_text()
        assert f"worker 0 died: {words}" in log and "was taken for" not in log
        assert log.index("its standby takes over") < log.index(f"pid {first} is reaped")
        assert waiting_standby(server) != standby  # begun once the dead process is reaped
