"""Figures of build/shoal-load: compared with the metrics of this server, and against a server that misbehaves."""

import json
import signal
import socket
import subprocess
import threading
import time

import pytest

import fake_server
from fake_server import CHUNKED, DONE, FINISH, HEAD, ROLE, FakeServer, answer, event, text, usage
from demo_model import FOLDER as SERVER_MODEL, MODEL_ID
from shoal_server import BUILD, PATIENCE_S, wait_until

NEVER_END = json.dumps({"logit_bias": {"2": -100}, "temperature": 0})


def run_load(url, tmp_path, *options, status=0):
    """The saved result of a run that must exit with `status`; its table is under "table"."""
    path = tmp_path / "result.json"
    path.unlink(missing_ok=True)
    command = [BUILD / "shoal-load", "--base-url", url, "--save-result", path, "--save-detailed", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == status, done.stdout + done.stderr
    if not path.exists():
        return {"words": done.stderr}
    result = json.loads(path.read_text(encoding="utf-8"))
    return {**result, "table": done.stdout, "words": done.stderr}


# --- against this server ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_its_counts_are_those_of_the_server(server, tmp_path):
    server.wait_idle()
    before = server.metrics()
    result = run_load(server.url, tmp_path, "--concurrency", 4, "--num-requests", 10, "--output-tokens", 7,
                      "--extra-body", NEVER_END, "--fail-on-error", "--goodput", "ttft:60000", "tpot:60000")
    server.wait_idle()
    after = server.metrics()

    def grown(name):
        return after[name] - before[name]
    assert result["completed"] == 10 and result["failed"] == 0 and result["model_id"] == MODEL_ID
    assert result["total_output_tokens"] == 70 == grown("vllm:generation_tokens_total")
    assert result["total_input_tokens"] == grown("vllm:prompt_tokens_total") > 10 * 64
    assert grown('vllm:request_success_total{finished_reason="length"}') == 10
    assert result["max_concurrent_requests"] == 4 == result["max_concurrency"]
    assert result["request_goodput"] == result["request_throughput"] == pytest.approx(10 / result["duration"])
    assert result["output_throughput"] == pytest.approx(70 / result["duration"])
    assert result["requests_without_usage"] == 0
    assert [len(gaps) for gaps in result["itls"]] == [6] * 10
    # The client measures a little more than the server; how much depends on the machine. For whole requests it may measure less: the end
    # can reach the client before the server reads its clock.
    assert sum(result["ttfts"]) > grown("vllm:time_to_first_token_seconds_sum")
    assert grown("vllm:e2e_request_latency_seconds_count") == 10
    assert grown("vllm:e2e_request_latency_seconds_sum") > grown("vllm:time_to_first_token_seconds_sum")
    for first, gaps, latency in zip(result["ttfts"], result["itls"], result["latencies"]):
        assert 0 < first + sum(gaps) <= latency + 1e-5
    assert f"Successful requests:                     {10:<10}" in result["table"]


@pytest.mark.long
def test_a_prompt_gets_the_tokens_that_were_asked_for(server, tmp_path):
    result = run_load(server.url, tmp_path, "--concurrency", 2, "--num-requests", 4, "--output-tokens", 1,
                      "--input-tokens", 200)
    assert all(abs(tokens - 200) <= 20 for tokens in result["input_lens"]), result["input_lens"]


def test_misbehaving_is_the_tools_not_the_servers(server, tmp_path):
    server.wait_idle()
    before = server.metrics()
    result = run_load(server.url, tmp_path, "--request-rate", 40, "--num-requests", 40, "--output-tokens", 8,
                      "--input-words", 8, "--disconnect-share", 0.4, "--bad-request-share", 0.3, "--fail-on-error",
                      "--extra-body", NEVER_END)
    server.wait_idle()
    after = server.metrics()
    assert result["failed"] == 0
    assert result["completed"] + result["requests_left"] + result["bad_requests_refused"] == 40
    assert min(result["completed"], result["requests_left"], result["bad_requests_refused"]) > 3
    ended = sum(after[f'vllm:request_success_total{{finished_reason="{reason}"}}']
                - before[f'vllm:request_success_total{{finished_reason="{reason}"}}'] for reason in ("stop", "length"))
    assert ended >= result["completed"]  # some left between the end and its last byte


def test_a_full_server_is_a_failure_with_its_status(start_server, tmp_path):
    server = start_server("--max-sequences", "1", "--max-queue", "1")
    result = run_load(server.url, tmp_path, "--request-rate", "inf", "--num-requests", 12, "--output-tokens", 32,
                      "--fail-on-error", status=3)
    assert result["failed"] == result["failures"]["status"] == result["failed_statuses"]["429"] > 0
    assert result["completed"] == 12 - result["failed"] > 0
    assert "status: queue_full: too many requests" in result["words"]


# --- against one that misbehaves -------------------------------------------------------------------------------------


@pytest.mark.long
def test_times_are_those_of_the_stream(tmp_path):
    """Delays differ by seconds, so a busy machine cannot swap them."""
    with FakeServer(lambda connection: answer(connection, pieces=3, first_s=3, gap_s=1.5)) as server:
        result = run_load(server.url, tmp_path, "--concurrency", 3, "--num-requests", 3, "--metric-percentiles", "99.9",
                          "--goodput", "ttft:2000")
    assert result["completed"] == 3 and result["request_goodput"] == 0 and result["model_id"] == "fake"
    for name, expected_ms in [("ttft", 3000), ("itl", 1500), ("tpot", 1500), ("e2el", 6000)]:
        for figure in ("mean", "median", "p99.9"):
            assert abs(result[f"{figure}_{name}_ms"] - expected_ms) < 1400, (name, figure)
    assert result["total_input_tokens"] == 33 and result["total_output_tokens"] == 9
    assert result["max_concurrent_requests"] == 3


def test_requests_are_what_was_asked_for(tmp_path):
    data = tmp_path / "chats.jsonl"
    data.write_text('{"messages": [{"role": "user", "content": "one"}]}\n{"prompt": "two"}\n', encoding="utf-8")
    with FakeServer(answer) as server:
        run_load(server.url + "/v1/", tmp_path, "--request-rate", 200, "--num-requests", 4, "--dataset", data, "--model",
                 "m", "--api-key", "secret", "--output-tokens", 9, "--extra-body", '{"seed": 5}')
        heads, bodies = zip(*server.requests)
    assert all(head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n") for head in heads)
    assert all(b"\r\nAuthorization: Bearer secret\r\n" in head for head in heads)
    bodies = [json.loads(body) for body in bodies]
    assert sorted(body["messages"][0]["content"] for body in bodies) == ["one", "one", "two", "two"]
    assert all(body["model"] == "m" and body["max_tokens"] == 9 and body["seed"] == 5 for body in bodies)
    assert all(body["stream"] and body["stream_options"] == {"include_usage": True} for body in bodies)


def test_the_seed_decides_prompts(tmp_path):
    seen = []
    for seed in (1, 1, 2):
        with FakeServer(answer) as server:
            run_load(server.url, tmp_path, "--request-rate", "50", "--num-requests", 3, "--model", "m", "--seed", seed)
            seen.append(sorted(body for _, body in server.requests))
    assert seen[0] == seen[1] != seen[2]


def test_an_open_loop_does_not_wait(tmp_path):
    """The server answers only after the last request has arrived; no request arrives before its scheduled time."""
    all_there = threading.Barrier(20)

    def answer_all(connection):
        all_there.wait(PATIENCE_S)
        answer(connection)

    with FakeServer(answer_all) as server:
        result = run_load(server.url, tmp_path, "--request-rate", 20, "--burstiness", "inf", "--num-requests", 20)
    assert result["completed"] == 20
    assert result["max_concurrent_requests"] == 20
    assert all(start * 20 > turn - 0.1 for turn, start in enumerate(sorted(result["start_times"])))


def test_a_duration_ends_a_run(tmp_path):
    with FakeServer(answer) as server:
        result = run_load(server.url, tmp_path, "--request-rate", 30, "--duration", 1)
        assert 0 < result["completed"] < 60 and result["failed"] == 0
        result = run_load(server.url, tmp_path, "--concurrency", 2, "--duration", 2)
        assert result["completed"] > 2 and result["failed"] == 0


def endless(connection, piece):
    connection.sendall(HEAD)
    while True:
        connection.sendall(piece)


def trickle(connection):
    connection.sendall(HEAD + ROLE)
    for _ in range(20 * PATIENCE_S):
        connection.sendall(b": still here\n\n")
        time.sleep(0.05)


def cut(connection):
    connection.sendall(HEAD + ROLE + text("half"))
    fake_server.reset(connection)


def chunks(*parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


FAILURES = {
    "no_reply": ("broken_stream", lambda c: None),
    "no_http": ("broken_stream", lambda c: c.sendall(b"220 mail.example.org ESMTP\r\n")),
    "cut": ("broken_stream", cut),
    "no_end": ("broken_stream", lambda c: c.sendall(HEAD + ROLE + text("half"))),
    "no_last_chunk": ("broken_stream", lambda c: c.sendall(CHUNKED + chunks(ROLE, text("x"), FINISH))),
    "bad_chunk": ("broken_stream", lambda c: c.sendall(CHUNKED + chunks(ROLE) + b"zz\r\n")),
    "no_json": ("broken_stream", lambda c: c.sendall(HEAD + event(b"hello"))),
    "no_stream": ("broken_stream",
                  lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                      b"Content-Length: 2\r\n\r\n{}")),
    "endless_line": ("broken_stream", lambda c: endless(c, b"data: " + b"x" * 65536)),
    "endless_event": ("broken_stream", lambda c: endless(c, b"data: x\n" * 8192)),
    "endless_head": ("broken_stream", lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n" + b"Name: value\r\n" * 100000)),
    "error_event": ("error_event",
                    lambda c: c.sendall(HEAD + ROLE + text("x") + event(
                        {"error": {"code": "worker_crashed", "message": "gone"}}) + DONE)),
    "status": ("status", lambda c: c.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")),
    "silence": ("timeout", lambda c: c.recv(1)),  # until the client has gone
    "comments": ("timeout", trickle),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_counted_by_its_kind(name, tmp_path):
    kind, behave = FAILURES[name]
    turn = iter(range(100))

    def every_second(connection):
        if next(turn) % 2:
            behave(connection)
        else:
            answer(connection)
    timeout_s = 2 if kind == "timeout" else PATIENCE_S
    with FakeServer(every_second) as server:
        result = run_load(server.url, tmp_path, "--concurrency", 1, "--num-requests", 4, "--timeout", timeout_s, "--model", "m",
                          "--fail-on-error", status=3)
    assert result["completed"] == 2 and result["total_output_tokens"] == 6
    assert result["failed"] == 2 and {k: n for k, n in result["failures"].items() if n} == {kind: 2}
    assert result["output_lens"] == [3, 0, 3, 0]
    assert [bool(error) for error in result["errors"]] == [False, True, False, True]
    if name == "error_event":
        assert result["errors"][1] == "worker_crashed: gone"
    if name == "status":
        assert result["failed_statuses"] == {"503": 2} and result["errors"][1] == "busy"


def test_other_ways_to_end_well(tmp_path):
    ways = [
        lambda c: c.sendall(HEAD + ROLE + text("x") + usage(5, 2) + DONE),
        lambda c: c.sendall(CHUNKED + chunks(ROLE + text("x"), FINISH + usage(5, 2)) + b"0\r\n\r\n"),
        lambda c: c.sendall(HEAD.replace(b"\r\n", b"\n") + (text("x") + FINISH + usage(5, 2)).replace(b"\n", b"\r\n")),
        lambda c: c.sendall(HEAD + text(None, reasoning_content="x") + FINISH + usage(5, 2)),
    ]
    turn = iter(ways)
    with FakeServer(lambda connection: next(turn)(connection)) as server:
        result = run_load(server.url, tmp_path, "--concurrency", 1, "--num-requests", len(ways), "--model", "m",
                          "--fail-on-error")
    assert result["completed"] == len(ways) and result["total_output_tokens"] == 2 * len(ways)
    assert all(first > 0 for first in result["ttfts"])


def test_without_usage_pieces_are_counted(tmp_path):
    with FakeServer(lambda c: c.sendall(HEAD + ROLE + text("a") + text("b") + FINISH + DONE)) as server:
        result = run_load(server.url, tmp_path, "--concurrency", 1, "--num-requests", 2, "--model", "m")
    assert result["completed"] == 2 == result["requests_without_usage"] and result["total_output_tokens"] == 4


def test_a_bad_request_must_be_refused(tmp_path):
    with FakeServer(answer) as server:
        result = run_load(server.url, tmp_path, "--concurrency", 1, "--num-requests", 5, "--model", "m",
                          "--bad-request-share", 1, "--fail-on-error", status=3)
    assert result["failures"]["bad_request_accepted"] == 5


def test_a_dead_server_is_counted(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = run_load(f"http://127.0.0.1:{port}", tmp_path, "--concurrency", 2, "--num-requests", 6, "--model", "m",
                      "--fail-on-error", status=3)
    assert result["failures"]["connect"] == 6 and "refused" in result["errors"][0]
    assert "cannot connect" in run_load(f"http://127.0.0.1:{port}", tmp_path, "--concurrency", 1, status=1)["words"]


def test_an_interruption_reports_what_there_is(tmp_path):
    path = tmp_path / "result.json"
    turn = iter(range(100))

    def answer_three(connection):
        if next(turn) < 3:
            answer(connection)
        else:
            connection.recv(1)  # until the client has gone

    with FakeServer(answer_three) as server:
        command = [BUILD / "shoal-load", "--base-url", server.url, "--concurrency", "3", "--duration", str(PATIENCE_S), "--model",
                   "m", "--save-result", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            wait_until(lambda: len(server.requests) == 6, "three answers to be followed by three requests")
            process.send_signal(signal.SIGINT)
            table = process.communicate(timeout=PATIENCE_S)[0].decode()
            assert process.returncode == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["completed"] == 3 == result["requests_stopped"] and result["failed"] == 0
    assert "Stopped by interruption:" in table
