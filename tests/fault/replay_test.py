"""Workers are killed, stopped and aborted at random moments: no request fails, and every answer is the same as without faults."""

import concurrent.futures
import os
import random
import re
import select
import signal
import statistics
import time

import pytest

from crowd import Crowd, counted, run_once
from shoal_server import wait_until

pytestmark = pytest.mark.longest

GUARD_S = 0.008  # tokens that arrive this soon after the signal were published by the dead worker


def check_answers(chats, undisturbed):
    for chat in chats:
        assert chat.answer() == undisturbed[chat.number], f"chat {chat.number} differs"


def frontend_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def live_pids(server):
    return [worker["pid"] for worker in server.get("/v1/status").json["workers"] if worker["pid"]]


class Killer:
    """Sends a signal to a worker every few seconds, `count` times, and takes the time until a stream goes on."""

    def __init__(self, server, crowd, name, count, least_s, most_s, seed):
        self.server = server
        self.crowd = crowd
        self.signal = getattr(signal, name)
        self.count = count
        self.random = random.Random(seed)
        self.range_s = (least_s, most_s)
        self.next_at = time.monotonic() + self.random.uniform(*self.range_s)
        self.sent = 0
        self.watched = None  # (pid file descriptor, time of the signal)
        self.died_at = None
        self.signalled_at = None
        self.resumed_s = []

    def over(self):
        return self.sent == self.count

    def look(self):
        now = time.monotonic()
        if self.watched is not None:
            readable, _, _ = select.select([self.watched], [], [], 0)
            if readable:
                os.close(self.watched)
                self.watched = None
                self.died_at = now
        if self.died_at is not None:
            self.look_for_resumption()
        elif self.watched is None and not self.over() and now >= self.next_at:
            self.strike()

    def strike(self):
        pid = self.server.worker_pid()
        if pid is None or not self.crowd.live or self.server.get("/ready").status != 200:
            return
        try:
            self.watched = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self.signalled_at = time.monotonic()
        signal.pidfd_send_signal(self.watched, self.signal)
        self.sent += 1

    def look_for_resumption(self):
        after = self.died_at + GUARD_S
        times = [at for chat in self.crowd.live + self.crowd.done if chat.streamed for at, _ in chat.arrivals[-6:]
                 if at > after]
        if times:
            self.resumed_s.append(min(times) - self.signalled_at)
            self.died_at = None
            self.next_at = time.monotonic() + self.random.uniform(*self.range_s)


def run_with_killer(server, bodies, killer_of):
    crowd = Crowd(server.port, bodies, len(bodies))
    killer = killer_of(crowd)
    chats = crowd.run(lambda: crowd.begun < len(bodies) or not killer.over(), killer.look)
    return chats, killer


def summary(what, killer, chats):
    return (f"{what}: {killer.sent} workers lost, {len(chats)} chats, until the first resumed token: median "
            f"{1000 * statistics.median(killer.resumed_s):.0f} ms, most {1000 * max(killer.resumed_s):.0f} ms")


@pytest.mark.parametrize("options, short_count", [
    pytest.param((), 4, id="one_step"),
    pytest.param(("--step-depth", "2"), 2, id="steps_overlap", marks=pytest.mark.long),
])
def test_sigkill(start_server, undisturbed, long_run, timed_run, say, options, short_count):
    bodies, answers = undisturbed
    server = start_server(*options, "--allow-debug")  # its descriptors are counted
    descriptors = frontend_descriptors(server)
    count = 20 if long_run else short_count
    chats, killer = run_with_killer(
        server, bodies, lambda crowd: Killer(server, crowd, "SIGKILL", count, 1, 3, seed=7))
    say(summary("SIGKILL", killer, chats))
    check_answers(chats, answers)
    values = server.metrics()
    assert values["shoal_worker_restarts_total"] == count
    assert values["shoal_requests_replayed_total"] >= count
    assert values["shoal_requests_quarantined_total"] == 0
    server.wait_idle()
    assert frontend_descriptors(server) <= descriptors + 1  # the connection that asks
    # The weights were adopted, not prepared again.
    log = server.log_text()
    assert log.count("killed by signal 9") == count and "heartbeat" not in log
    assert len(re.findall(r"weights [0-9.]+ MB adopted", log)) == count
    # If steps overlap, the CPU backend reads each step's tokens a step later.
    bound_s = 10 if not timed_run else 1.0 if options else 0.25
    assert statistics.median(killer.resumed_s) < bound_s


@pytest.mark.long
def test_sigstop(start_server, undisturbed, long_run, say):
    bodies, answers = undisturbed
    server = start_server("--worker-timeout", "5")
    count = 10 if long_run else 1
    chats, killer = run_with_killer(
        server, bodies, lambda crowd: Killer(server, crowd, "SIGSTOP", count, 0.5, 2, seed=8))
    say(summary("SIGSTOP, noticed after 5 s", killer, chats))
    check_answers(chats, answers)
    assert server.metrics()["shoal_worker_restarts_total"] == count
    assert "its heartbeat stands still" in server.log_text()
    server.wait_idle()


@pytest.mark.long
def test_abort_inside_a_step(start_server, undisturbed, long_run, say):
    bodies, answers = undisturbed
    width = 64 if long_run else 16
    server = start_server("--worker-fault", f"abort-at-step={100 if long_run else 25}")
    chats = run_once(server.port, bodies[:width], width)
    check_answers(chats, answers)
    restarts = server.metrics()["shoal_worker_restarts_total"]
    say(f"abort inside a step: {restarts:.0f} workers lost, {len(chats)} chats")
    assert restarts >= 1
    death = server.get("/v1/status").json["workers"][0]["last_death"]
    assert death["reason"] == "killed by signal 6 (Aborted)"
    assert server.metrics()["shoal_requests_quarantined_total"] == 0


def test_a_hang_inside_a_step(start_server, undisturbed):
    bodies, answers = undisturbed
    server = start_server("--worker-timeout", "5", "--worker-fault", "hang-at-step=30")
    chats = run_once(server.port, bodies[:4], 4)
    check_answers(chats, answers)
    assert server.metrics()["shoal_worker_restarts_total"] >= 1


def test_one_of_two_workers_dies_permanently(start_server, undisturbed, long_run, say):
    bodies, answers = undisturbed
    server = start_server("--workers", "2", "--worker-fault", "1:fail-from-life=2")
    wait_until(lambda: len(live_pids(server)) == 2, "both workers")
    wait_until(lambda: all(w["state"] == "ready" for w in server.get("/v1/status").json["workers"]), "both ready")
    first, second = live_pids(server)
    width = 64 if long_run else 24
    most = [0, 0]  # largest number of requests at a time, by worker
    struck = []

    def look():
        if struck:
            return
        workers = server.get("/v1/status").json["workers"]
        most[:] = [max(pair) for pair in zip(most, (worker["requests"] for worker in workers))]
        if all(worker["says"]["steps"] > 5 for worker in workers):
            struck.append(workers[1]["requests"])
            os.kill(second, signal.SIGKILL)

    chats = run_once(server.port, bodies[:width], width, look)
    check_answers(chats, answers)
    requests_second, = struck
    assert abs(most[0] - most[1]) <= 10, "the load was not shared"
    wait_until(lambda: server.get("/v1/status").json["workers"][1]["failed_starts"] >= 1, "the next worker to fail")
    one, other = server.get("/v1/status").json["workers"]
    assert (one["pid"], one["state"], one["restarts"]) == (first, "ready", 0)
    assert other["failed_starts"] >= 1 and other["state"] in ("backing_off", "starting")
    assert "life" in other["last_death"]["reason"] and "must fail" in other["last_death"]["reason"]
    assert server.get("/ready").status == 200
    say(f"one of two workers lost for good: {requests_second} requests moved, {len(chats)} chats")
    server.wait_idle()


def test_an_ignored_end_token_does_not_end_a_replay(start_server, long_run):
    server = start_server()
    tokens = 400 if long_run else 1500  # so many that the kill comes before the last
    told = "vllm:generation_tokens_total"
    body = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0, "logit_bias": {"2": 100}, "logprobs": True}
    undisturbed = server.chat("a", **body).json
    assert undisturbed["choices"][0]["finish_reason"] == "length"
    assert undisturbed["usage"]["completion_tokens"] == tokens
    assert len({one["token"] for one in undisturbed["choices"][0]["logprobs"]["content"]}) == 1
    before = server.metrics()[told]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.chat, "a", **body)
        wait_until(lambda: server.metrics()[told] > before + 10, "some tokens")  # end tokens show no text to wait for
        os.kill(server.worker_pid(), signal.SIGKILL)
        disturbed = answer.result().json
    assert disturbed["choices"] == undisturbed["choices"]
    assert counted(disturbed["usage"]) == counted(undisturbed["usage"])
    assert server.metrics()["shoal_requests_replayed_total"] == 1
    server.wait_idle()
