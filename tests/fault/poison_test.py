"""A request that kills every worker is ended and refused when it is sent again; all other requests finish."""

import os
import signal
import time

import pytest

from crowd import Chat, Crowd, chat_body, run_once

POISON_ID = 4000  # not in any prompt of the crowd, and banned from its answers
BAN = {str(POISON_ID): -100}
POISON = {"messages": [{"role": "user", "content": "Say it."}], "max_tokens": 20, "temperature": 0,
          "logit_bias": {str(POISON_ID): 100}}


def harmless_bodies(count, max_tokens):
    bodies = [chat_body(number, max_tokens) for number in range(count)]
    for body in bodies:
        body["logit_bias"] = {**body.get("logit_bias", {}), **BAN}
    return bodies


@pytest.mark.parametrize("crashes, depth", [
    (3, 1),
    pytest.param(1, 1, marks=pytest.mark.long),
    pytest.param(3, 2, marks=pytest.mark.long),
])
def test_poison_under_load(start_server, long_run, say, crashes, depth):
    """With one crash all requests of the step are suspected; each is cleared by a step of its own."""
    bodies = harmless_bodies(48 if long_run else 16, 40)
    calm = start_server()
    answers = {chat.number: chat.answer() for chat in run_once(calm.port, bodies, len(bodies))}
    server = start_server("--worker-fault", f"abort-on-token={POISON_ID}", "--poison-crashes", str(crashes),
                          "--step-depth", str(depth))
    planted = []

    def look():
        if not planted and server.metrics()["vllm:generation_tokens_total"] > 40:
            planted.append(Chat(server.port, 0, {**POISON, "stream": True}))
            planted.append(Chat(server.port, 0, POISON))
        for chat in planted:
            if not chat.over:
                chat.take()

    def has_worked():
        return planted and all(chat.over for chat in planted)

    crowd = Crowd(server.port, bodies, len(bodies))
    chats = crowd.run(lambda: crowd.begun < len(bodies) or not has_worked(), look)  # other requests run throughout
    for chat in chats:
        assert chat.answer() == answers[chat.number], f"chat {chat.number} differs"
    streamed, whole = planted
    assert streamed.answer() == (200, "worker_crashed")  # an error event
    assert whole.answer() == (500, "worker_crashed")
    values = server.metrics()
    assert values["shoal_requests_quarantined_total"] == 2
    assert values["shoal_worker_restarts_total"] <= 8
    assert ("request_acquitted" in server.log_text()) or crashes > 1
    say(f"poison: {values['shoal_worker_restarts_total']:.0f} workers lost, {len(chats)} neighbours finished")
    # The same request is refused at once, also with another seed; other requests are not.
    for again in (POISON, {**POISON, "seed": 5}):
        reply = server.request("POST", "/v1/chat/completions", again)
        assert (reply.status, reply.error["code"]) == (500, "worker_crashed")
    assert server.metrics()["shoal_worker_restarts_total"] == values["shoal_worker_restarts_total"]
    assert server.chat("Hello", max_tokens=3, logit_bias=BAN).status == 200
    server.wait_idle()


def test_a_token_or_two_for_each_death_are_not_enough(start_server):
    server = start_server("--worker-fault", "abort-at-step=3", "--poison-crashes", "2")
    reply = server.chat("Tell me a long story.", max_tokens=400, logit_bias={"2": -100})
    assert (reply.status, reply.error["code"]) == (500, "worker_crashed")
    restarts = server.metrics()["shoal_worker_restarts_total"]
    assert 16 < restarts <= 33
    server.wait_idle()


def test_a_crash_of_an_inherited_cache_convicts_no_request(start_server):
    """The worker crashes as soon as it continues with blocks of an earlier one, and the request is not the cause: its trial computes
    everything itself."""
    server = start_server("--worker-fault", "abort-on-inherited=1", "--poison-crashes", "2")
    body = {"max_tokens": 24, "temperature": 0, "logit_bias": {"2": -100}}
    prompt = "river stone winter light engine " * 20
    calm = server.chat(prompt, **body, cache_prompt=False).json["choices"]
    assert server.chat(prompt, **body).json["choices"] == calm
    os.kill(server.worker_pid(), signal.SIGKILL)  # the next worker inherits the blocks
    reply = server.chat(prompt, **body)
    assert (reply.status, reply.json.get("choices")) == (200, calm)
    values = server.metrics()
    assert values["shoal_requests_quarantined_total"] == 0
    assert values["shoal_worker_restarts_total"] == 3  # the kill and two crashes
    assert "its KV cache is dropped" in server.log_text() and "request_acquitted" in server.log_text()
    server.wait_idle()


def test_poison_is_forgotten(start_server):
    server = start_server("--worker-fault", f"abort-on-token={POISON_ID}", "--poison-memory-s", "1",
                          "--poison-crashes", "1")
    assert server.request("POST", "/v1/chat/completions", POISON).status == 500
    restarts = server.metrics()["shoal_worker_restarts_total"]
    assert restarts == 2  # one crash among others, one alone
    time.sleep(1.1)
    server.wait_ready()
    assert server.request("POST", "/v1/chat/completions", POISON).status == 500
    assert server.metrics()["shoal_worker_restarts_total"] == 2 * restarts


def test_no_request_can_inject_a_fault(start_server):
    server = start_server()
    for field in ("fault", "worker_fault", "worker-fault", "abort-on-token"):
        assert server.chat("Hello", max_tokens=2, **{field: "abort-at-step=1"}).status == 200
    assert server.metrics()["shoal_worker_restarts_total"] == 0
