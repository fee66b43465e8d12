"""The worker dies during a request with several choices: every choice is the same as without the death, under one id."""

import os
import signal
import threading

import demo_model
from shoal_server import wait_until

CHOICES = 4
STREAMS = 2
TOKENS = 300  # so many that a worker killed at the third token has not reached the last


class Choices(threading.Thread):
    """One streamed chat with choices; keeps the text received so far by choice."""

    def __init__(self, server, number):
        super().__init__()
        self.stream = server.open_stream(f"Tell me about the number {number}.", n=CHOICES, seed=number, max_tokens=TOKENS,
                                         ignore_eos=True, temperature=1.0, logprobs=True,
                                         stream_options={"include_usage": True})
        self.parts = [[] for _ in range(CHOICES)]
        self.logprobs = [[] for _ in range(CHOICES)]
        self.finish = [None] * CHOICES
        self.ids = set()
        self.usage = None

    def run(self):
        for event in self.stream.events():
            assert "error" not in event, event
            self.ids.add(event["id"])
            self.usage = event.get("usage") or self.usage
            for choice in event["choices"]:
                at = choice["index"]
                self.parts[at].append(choice["delta"].get("content") or "")
                self.logprobs[at] += [(one["token"], one["logprob"]) for one in (choice["logprobs"] or {}).get("content", [])]
                self.finish[at] = choice["finish_reason"] or self.finish[at]
        self.stream.close()

    def answer(self):
        return ["".join(parts) for parts in self.parts], self.logprobs, self.finish, self.usage["completion_tokens"]


def run_streams(server, look):
    streams = [Choices(server, number) for number in range(STREAMS)]
    for stream in streams:
        stream.start()
    look(streams)
    for stream in streams:
        stream.join()
        assert len(stream.ids) == 1
    return [stream.answer() for stream in streams]


def test_every_choice_continues():
    with demo_model.demo_server() as server:
        server.wait_ready()
        check_choices(server)


def check_choices(server):
    undisturbed = run_streams(server, lambda streams: None)
    for texts, logprobs, finish, tokens in undisturbed:
        assert len(set(texts)) == CHOICES and finish == ["length"] * CHOICES and tokens == CHOICES * TOKENS
        assert all(len(one) == TOKENS for one in logprobs)

    def kill(streams):
        wait_until(lambda: all(len(parts) > 2 for stream in streams for parts in stream.parts), "each choice to begin")
        os.kill(server.worker_pid(), signal.SIGKILL)

    assert run_streams(server, kill) == undisturbed
    values = server.metrics()
    assert values["shoal_worker_restarts_total"] == 1
    assert values["shoal_requests_replayed_total"] >= CHOICES
    server.wait_idle()
