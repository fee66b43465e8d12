"""A client that disconnects at any stage is noticed long before the end of its answer, and all resources of its request are freed."""

import json
import time

import pytest

import demo_model
from shoal_server import wait_until

SERVER_MODEL = demo_model.FOLDER

LONG = {"max_tokens": 4000, "logit_bias": {"2": -100}}  # 2 ends a turn: without it the answer goes on
STEPS_OF_A_WHOLE_ANSWER = 2000  # which ends at the model's context


def test_while_streaming(server):
    for leave in ("close", "reset"):
        with server.expect_cancels():
            stream = server.open_stream("Tell me a long story.", **LONG)
            stream.wait_token()
            assert server.metrics()["shoal_live_requests"] == 1
            getattr(stream, leave)()


def test_while_waiting_for_a_whole_reply(server):
    body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}], **LONG}).encode()
    with server.expect_cancels(), server.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                           + body)
        wait_until(lambda: server.metrics()["vllm:num_requests_running"] == 1, "the request to run")


def test_in_the_middle_of_a_long_prompt(server):
    with server.expect_cancels():
        stream = server.open_stream("Tell me about the sea. " * 500, **LONG)
        assert stream.status == 200
        wait_until(lambda: server.metrics()["shoal_requests_with_worker"] == 1, "the prompt to reach the worker")
        stream.close()


def test_right_after_the_request_was_sent(server):
    with server.expect_cancels():
        for _ in range(20):
            server.open_stream("Hello " * 200, **LONG).close()


def test_while_sending_the_request(server):
    with server.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    server.wait_idle()
    wait_until(lambda: server.metrics()["shoal_connections"] == 1, "all but the one that asks to be closed")


def test_while_queued_behind_another(start_server):
    running = start_server("--max-sequences", "1")
    with running.expect_cancels():
        first = running.open_stream("Tell me a long story.", **LONG)
        first.wait_token()
        second = running.open_stream("Tell me another.", **LONG)
        assert second.status == 200
        wait_until(lambda: running.metrics()["shoal_live_requests"] == 2, "both to be live")
        second.close()
        wait_until(lambda: running.metrics()["shoal_live_requests"] == 1, "the queued one to be gone")
        first.wait_token()  # the other stream continues
        first.close()


def test_a_half_closed_connection_counts_as_gone(server):
    with server.expect_cancels():
        stream = server.open_stream("Tell me a long story.", **LONG)
        stream.wait_token()
        stream.socket.shutdown(1)
    stream.close()


def test_a_hundred_comings_and_goings(server):
    with server.expect_cancels():
        streams = []
        for i in range(100):
            streams.append(server.open_stream(f"Say {i} words.", **LONG))
            if i % 3 == 0:
                streams.pop(0).close()
            if i % 7 == 0:
                time.sleep(0.01)
        for stream in streams:
            stream.reset()
    assert server.chat(max_tokens=1).status == 200


@pytest.mark.parametrize("stop", ["e", "the"])
def test_a_stop_string_ends_the_workers_part_too(server, stop):
    before = server.metrics()["shoal_worker_steps_total"]
    text, finish = server.open_stream("Tell me a long story.", stop=[stop], temperature=0, **LONG).text()
    assert finish == "stop" and stop not in text
    server.wait_idle()
    # The worker may run ahead of a frontend that gets no CPU time, but not by the whole context.
    assert server.metrics()["shoal_worker_steps_total"] - before < STEPS_OF_A_WHOLE_ANSWER / 2
