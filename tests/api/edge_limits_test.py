"""Limits at the edge: requests of one client, time to send a request, slow readers, deadlines, waiting connections."""

import http.client
import json
import socket
import threading
import time

import pytest

import demo_model
from shoal_server import PATIENCE_S, EventStream, read_all, wait_until

SERVER_MODEL = demo_model.FOLDER

# Token 2 ends a turn. Log-probabilities make the steps slow: without them a quick machine ends 4,000 tokens within two seconds.
ENDLESS = {"logit_bias": {"2": -100}, "max_tokens": 4000, "logprobs": True, "top_logprobs": 20}


def test_a_client_has_only_so_many_requests_in_hand(start_server):
    running = start_server("--max-requests-per-client", "2")
    streams = [running.open_stream("Write a long story.", **ENDLESS) for _ in range(2)]
    for stream in streams:
        stream.wait_token()
    refused = running.chat("Hi", max_tokens=1)
    assert refused.status == 429 and refused.headers["retry-after"] == "1"
    assert refused.error["code"] == "too_many_requests" and refused.error["type"] == "rate_limit_error"
    # Refused before the body is sent.
    with running.connect() as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
                           b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 429 ")
    # Routes that report on the server are not counted.
    assert running.get("/v1/models").status == 200
    assert running.metrics()["shoal_http_requests_over_client_limit_total"] == 2
    # Another address is another client.
    other = socket.create_connection(("127.0.0.1", running.port), source_address=("127.0.0.2", 0), timeout=PATIENCE_S)
    stream = EventStream(other, {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 1})
    assert stream.text()[1] == "length"
    stream.close()
    streams[0].close()
    wait_until(lambda: running.chat("Hi", max_tokens=1).status == 200, "room for a request")
    streams[1].reset()
    running.wait_idle()
    with running.connect() as connection:  # kept open: a request that is over counts no more
        for _ in range(3):
            body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                               + body)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("head", [
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Long: ",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n",
])
def test_dripping_bytes_do_not_buy_time(start_server, head):
    running = start_server("--request-timeout", "1", ready=False)
    with running.connect() as connection:
        connection.sendall(head)
        connection.settimeout(0.05)
        reply = b""
        # As many drops as the 5,000 bytes take that are announced, four minutes; or until the connection ends.
        for _ in range(4900):
            try:
                part = connection.recv(65536)
                if not part:
                    break
                reply += part
            except TimeoutError:
                pass
            except ConnectionError:
                break
            try:
                connection.sendall(b"x")
            except OSError:
                break
        else:
            raise AssertionError("every drop was taken")
    assert reply.startswith(b"HTTP/1.1 408 "), reply
    assert running.metrics()["shoal_http_requests_timed_out_total"] == 1


def slow_reader(server, **fields):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    return EventStream(connection, {"messages": [{"role": "user", "content": "Go on."}], "stream": True, **fields})


def test_a_slow_reader_is_cut_counted_and_logged(start_server):
    running = start_server("--stream-buffer-bytes", "16K", "--log-format", "json")
    slow = slow_reader(running, **ENDLESS)
    wait_until(lambda: running.metrics()["shoal_slow_readers_cut_total"] == 1, "the slow reader to be cut")
    running.wait_idle()
    line = wait_until(lambda: [event for event in running.log_events("request") if "finish_reason" in event], "its line")
    assert line[0]["finish_reason"] == "slow_reader" and line[0]["cut"] == "yes"
    warning, = running.log_events("slow_reader_cut")
    assert warning["request_id"] == line[0]["request_id"] and warning["level"] == "warn"
    assert 0 < warning["unsent_bytes"] <= 16384
    with pytest.raises((http.client.IncompleteRead, OSError)):
        slow.text()  # no [DONE], no end of chunks
    slow.close()


def test_a_deadline_ends_a_stream_with_an_error_event(start_server):
    running = start_server("--request-deadline", "2", "--log-format", "json")
    start = time.monotonic()
    events = list(running.open_stream("Write a long story.", **ENDLESS).events())  # checks that [DONE] comes
    assert time.monotonic() - start > 1.9
    assert events[-1]["error"]["code"] == "deadline_exceeded" and events[-1]["error"]["type"] == "server_error"
    assert any(choice["delta"].get("content") for event in events[:-1] for choice in event["choices"])
    reply = running.chat("Write a long story.", **ENDLESS)
    assert reply.status == 504 and reply.error["code"] == "deadline_exceeded"
    assert running.chat("Hi", max_tokens=1).status == 200
    running.wait_idle()
    assert running.metrics()["shoal_deadlines_exceeded_total"] == 2
    lines = [event for event in running.log_events("request") if event.get("error") == "deadline_exceeded"]
    assert [line["status"] for line in lines] == [200, 504] and all(line["finish_reason"] == "error" for line in lines)


def test_a_deadline_also_ends_requests_that_wait(start_server):
    running = start_server("--request-deadline", "1", "--max-sequences", "1", "--max-queue", "8")
    results = []

    def ask():
        results.append(running.chat("Write a long story.", **ENDLESS).status)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert results == [504] * 5
    running.wait_idle()


def test_connections_are_cut_down_to_the_limit_of_open_files(start_server):
    running = start_server("--max-connections", "1000", wrapper=["sh", "-c", 'ulimit -n 300; exec "$@"', "sh"],
                           ready=False)
    assert "limit of 300 open files leaves room for 236 connections" in running.log_text()
    held = [running.connect() for _ in range(236)]
    wait_until(lambda: b"too_many_connections" in read_all(running.connect()), "a refusal")
    for connection in held:
        connection.close()
    wait_until(lambda: running.get("/health").status == 200, "room for a connection")
