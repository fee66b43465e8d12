"""SIGKILLs from outside convict no request: every answer of a storm of kills is the same as without it, and nothing is refused afterwards.

A request that ends workers by SIGKILL itself, as one that exhausts the memory does, is still convicted.
"""

import concurrent.futures
import json
import os
import signal
import threading
import time

import pytest

from crowd import Chat, Crowd, chat_body, counted
from shoal_server import process_is_alive, wait_until

KILL_EVERY_S = 0.3
POISON_ID = 4000  # not in any prompt, and banned from other answers
POISON = {"messages": [{"role": "user", "content": "Say it."}], "max_tokens": 20, "temperature": 0,
          "logit_bias": {str(POISON_ID): 100}}
BAN = {str(POISON_ID): -100}


def kill_worker(server):
    """Sends SIGKILL to the worker; false if there is none now, or only one that is dead and not yet reaped."""
    pid = server.worker_pid()
    if not pid or not process_is_alive(pid):
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def answer_of(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"], counted(reply.json["usage"])


class Storm(threading.Thread):
    """Kills the worker every KILL_EVERY_S until stop()."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.kills = 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(KILL_EVERY_S):
            self.kills += kill_worker(self.server)

    def stop(self):
        self.ended.set()
        self.join()


def test_four_kills_of_a_long_prompt(start_server, long_run):
    server = start_server()
    body = {"messages": [{"role": "user", "content": "river stone winter light engine " * 500}], "max_tokens": 16,
            "temperature": 0, "logprobs": True}
    undisturbed = answer_of(server.request("POST", "/v1/chat/completions", body))
    server.request("POST", "/v1/cache/reset")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.request, "POST", "/v1/chat/completions", body)
        for _ in range(4):
            time.sleep(0.6 if long_run else 0.15)  # two idle cores compute the prompt in a second
            wait_until(lambda: kill_worker(server), "a worker to kill")
        assert answer_of(answer.result()) == undisturbed
    # On a quick machine the answer ends before the last kill, whose restart then takes place while this test looks.
    wait_until(lambda: server.metrics()["shoal_worker_restarts_total"] == 4, "the last restart")
    assert server.metrics()["shoal_requests_quarantined_total"] == 0
    assert answer_of(server.request("POST", "/v1/chat/completions", body)) == undisturbed
    server.wait_idle()


@pytest.mark.parametrize("options", [
    pytest.param((), id="one_worker"),
    pytest.param(("--workers", "2"), id="two_workers"),
])
@pytest.mark.long
def test_a_storm_of_kills(start_server, undisturbed, long_run, say, options):
    bodies, answers = undisturbed
    server = start_server("--log-format", "json", *options)
    long_prompt = chat_body(64, 24)
    long_prompt["messages"][0]["content"] += " river stone winter light engine" * 300
    bodies = [*bodies, long_prompt]
    answers = {**answers, 64: None}
    storm_s = 60 if long_run else 10
    crowd = Crowd(server.port, bodies, len(bodies))
    storm = Storm(server)
    ends_at = time.monotonic() + storm_s
    storm.start()

    def look():
        if time.monotonic() >= ends_at and not storm.ended.is_set():
            storm.stop()

    chats = crowd.run(lambda: crowd.begun < len(bodies) or time.monotonic() < ends_at, look)
    storm.stop()
    assert len(chats) >= len(bodies)
    for chat in chats:
        if answers[chat.number] is None:
            server.wait_ready()
            calm = Chat(server.port, chat.number, long_prompt)
            while not calm.over:
                calm.take()
                time.sleep(0.01)
            answers[chat.number] = calm.answer()
        assert chat.answer() == answers[chat.number], f"chat {chat.number} differs"
    status = server.get("/v1/status").json
    say(f"storm of {storm_s} s: {storm.kills} kills, {len(chats)} chats, {status['requests_replayed']} replays, "
        f"{len(server.log_events('request_watched'))} watched")
    assert storm.kills > storm_s / 3  # a slow machine starts workers with delays
    assert (status["requests_quarantined"], status["quarantine"]) == (0, [])
    server.wait_idle()


@pytest.mark.long
def test_a_request_that_exhausts_the_memory_is_convicted(start_server, say):
    server = start_server("--worker-fault", f"kill-on-token={POISON_ID}", "--log-format", "json")
    bodies = [{**body, "logit_bias": {**body.get("logit_bias", {}), **BAN}} for body in (chat_body(i, 40) for i in range(16))]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        poison = pool.submit(server.request, "POST", "/v1/chat/completions", POISON)
        crowd = Crowd(server.port, bodies, len(bodies))
        chats = crowd.run(lambda: not poison.done())
        reply = poison.result()
    assert (reply.status, reply.error["code"]) == (500, "worker_crashed")
    assert all(chat.answer()[0] == 200 for chat in chats)
    values = server.metrics()
    assert values["shoal_requests_quarantined_total"] == 1
    say(f"killed by its own request: {values['shoal_worker_restarts_total']:.0f} workers lost, {len(chats)} neighbours finished")
    assert values["shoal_worker_restarts_total"] <= 20
    conviction, = server.get("/v1/status").json["quarantine"]
    assert conviction["cause"] == "outside_signal" and conviction["deaths"] >= 5
    server.wait_idle()


def test_a_conviction_is_of_one_key_and_is_revoked(start_server):
    server = start_server("--worker-fault", f"abort-on-token={POISON_ID}", "--poison-crashes", "1",
                          "--api-key", "sk-first", "--api-key", "sk-second")
    first, second = ({"Authorization": f"Bearer sk-{name}"} for name in ("first", "second"))

    def send(headers):
        server.wait_ready()
        reply = server.request("POST", "/v1/chat/completions", json.dumps(POISON), headers)
        assert (reply.status, reply.error["code"]) == (500, "worker_crashed")
        return server.metrics()["shoal_worker_restarts_total"]

    def convictions(headers):
        return server.get("/v1/status", headers).json["quarantine"]

    restarts = send(first)
    assert restarts == 2  # one crash among others, one alone
    assert send(first) == restarts  # refused
    assert send({**first, "X-Tenant-Id": "other"}) == 2 * restarts  # another tenant of the key
    assert send(second) == 3 * restarts
    assert len(convictions(first)) == 2
    conviction, = convictions(second)
    assert set(conviction) == {"id", "cause", "deaths", "age_s", "left_s"}
    assert (conviction["cause"], conviction["deaths"]) == ("crash_signal", 2)
    assert 0 <= conviction["age_s"] < 300 and 300 < conviction["left_s"] <= 600
    path = f"/v1/quarantine/{conviction['id']}"
    for headers, wrong in ((first, path), (second, "/v1/quarantine/0123456789abcdef"), (second, "/v1/quarantine/x"),
                           (second, path.upper().replace("/V1/QUARANTINE", "/v1/quarantine") + "0")):
        reply = server.request("DELETE", wrong, headers=headers)
        assert (reply.status, reply.error["code"]) == (404, "conviction_not_found")
    reply = server.request("DELETE", path, headers=second)
    assert (reply.status, reply.json) == (200, {"id": conviction["id"], "object": "quarantine", "deleted": True})
    assert convictions(second) == [] and len(convictions(first)) == 2
    assert server.request("DELETE", path, headers=second).status == 404
    assert send(second) == 4 * restarts  # it is computed again
