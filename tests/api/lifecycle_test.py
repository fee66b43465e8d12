"""From start to exit: loading, workers that die or hang, draining, and no process left running."""

import json
import os
import signal
import subprocess
import time

import pytest

import demo_model
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, process_is_alive, send_signal, start_and_stop_worker, wait_until

SERVER_MODEL = demo_model.FOLDER

LONG = {"max_tokens": 4000, "logit_bias": {"2": -100}}
STORY = {"max_tokens": 600, "logit_bias": {"2": -100}}  # long enough for something to happen before its end


def test_it_answers_503_with_progress_while_loading(start_server, tmp_path):
    running, worker = start_and_stop_worker(start_server, tmp_path)
    for _ in range(2):
        reply = running.chat()
        assert reply.status == 503
        assert reply.error["code"] == "model_loading"
        assert reply.error["type"] == "server_error"
        assert "%" in reply.error["message"]
        assert int(reply.headers["retry-after"]) >= 1
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = running.request("POST", path, {})
        assert (reply.status, reply.json["error"]["type"]) == (529, "overloaded_error")
        assert reply.json["error"]["details"] == {"error_code": "model_loading"}
        assert int(reply.headers["retry-after"]) >= 1
    assert running.get("/health").status == 200
    ready = running.get("/ready")
    assert (ready.status, ready.json["status"]) == (503, "loading")
    assert 0 <= ready.json["load_progress"] <= 1
    assert running.metrics()["shoal_live_requests"] == 0
    send_signal(worker, "SIGCONT")
    running.wait_ready()
    assert running.chat("Hello", max_tokens=2).status == 200


def test_sigterm_while_loading_ends_at_once(start_server, tmp_path):
    running, worker = start_and_stop_worker(start_server, tmp_path, "--drain-timeout", str(2 * PATIENCE_S))
    running.process.send_signal(signal.SIGTERM)
    assert running.wait_exit() == 0
    assert not process_is_alive(worker)


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    command = [BUILD / "shoal", "serve", "--device", "cpu", "--model", tmp_path / "pipe.gguf", "--port", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert b"the model cannot be served" in ended.stderr


@pytest.mark.parametrize("model", ["/does/not/exist.gguf", "/etc/passwd", "/tmp"])
def test_a_model_that_cannot_be_served_ends_the_server_in_words(model):
    command = [BUILD / "shoal", "serve", "--device", "cpu", "--model", model, "--port", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert b"the model cannot be served" in ended.stderr


def test_a_port_in_use_ends_the_server_in_words(server):
    command = [BUILD / "shoal", "serve", "--device", "cpu", "--model", MODEL, "--port", str(server.port)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert b"cannot listen on 127.0.0.1 port" in ended.stderr


def test_every_option_is_in_the_help_and_printed_at_start(server):
    text = subprocess.run([BUILD / "shoal", "serve", "--help"], capture_output=True, check=True).stdout.decode()
    names = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert len(names) > 20
    log = server.log_text()
    for name in names:
        assert name == "--help" or f"option {name} " in log


def test_streams_go_on_when_their_worker_is_killed(start_server):
    running = start_server()
    expected, reason = running.open_stream("Tell me a long story.", **STORY, temperature=0).text()
    streams = [running.open_stream("Tell me a long story.", **STORY, temperature=0) for _ in range(4)]
    begun = [stream.wait_token()["choices"][0]["delta"]["content"] for stream in streams]
    first = running.worker_pid()
    send_signal(first, "SIGKILL")
    for stream, beginning in zip(streams, begun):
        text, finish = stream.text()
        assert (beginning + text, finish) == (expected, reason)
    assert running.worker_pid() not in (None, first)
    assert running.metrics()["shoal_worker_restarts_total"] == 1
    assert running.metrics()["shoal_requests_replayed_total"] == 4
    running.wait_idle()


def test_a_request_that_comes_while_the_worker_restarts_waits_for_it(start_server):
    running = start_server()
    stream = running.open_stream("Tell me a long story.", **LONG)
    stream.wait_token()
    first = running.worker_pid()
    send_signal(first, "SIGKILL")
    for _ in range(5):
        assert running.chat("Hello", max_tokens=2).status == 200
    stream.wait_token()
    stream.close()
    running.wait_idle()


@pytest.mark.long
def test_a_whole_reply_takes_longer_when_its_worker_is_killed(start_server):
    running = start_server()
    fields = {**STORY, "seed": 3, "cache_prompt": False}
    expected = running.chat("Tell me a long story.", **fields).json
    stream = running.open_stream("Tell me a long story.", **{**fields, "stream": False})
    wait_until(lambda: running.metrics()["vllm:generation_tokens_total"] > 210, "tokens")
    send_signal(running.worker_pid(), "SIGKILL")
    answer = json.loads(stream.head().read())
    stream.close()
    assert answer["choices"] == expected["choices"]
    for counts in (answer["usage"], expected["usage"]):
        del counts["completion_tokens_details"]  # how much is drafted depends on time
    assert answer["usage"] == expected["usage"]
    running.wait_idle()


@pytest.mark.long
def test_a_hung_worker_is_replaced(start_server):
    running = start_server("--worker-timeout", "5")
    stream = running.open_stream("Tell me a long story.", **STORY)
    stream.wait_token()
    first = running.worker_pid()
    send_signal(first, "SIGSTOP")
    worker = wait_until(lambda: [w for w in running.get("/v1/status").json["workers"] if w["stalled_s"] > 0.5],
                        "the stall to show")[0]
    assert (worker["pid"], worker["state"]) == (first, "ready")
    assert stream.text()[1] == "length"
    assert not process_is_alive(first)
    death = running.get("/v1/status").json["workers"][0]["last_death"]
    assert "heartbeat" in death["reason"] and death["seconds_ago"] >= 0


def test_status_shows_workers_and_requests(start_server):
    running = start_server("--max-sequences", "1")
    first = running.open_stream("Tell me a long story.", **LONG)
    first.wait_token()
    others = [running.open_stream("Hello", max_tokens=2) for _ in range(4)]
    wait_until(lambda: running.metrics()["shoal_live_requests"] == 5, "all to be live")
    wait_until(lambda: running.metrics()["shoal_requests_preparing"] == 0, "all to be prepared")
    status = running.get("/v1/status").json
    (worker,) = status["workers"]
    assert worker["pid"] == running.worker_pid()
    assert (worker["state"], worker["device"], worker["restarts"], worker["last_death"]) == ("ready", "cpu", 0, None)
    requests = status["requests"]
    assert len(requests["running"]) == worker["requests"] == 2  # one runs, one waits in the worker
    assert len(requests["waiting"]) == 3
    oldest = requests["running"][0]
    assert (oldest["phase"], oldest["worker"], oldest["replays"]) == ("decode", 0, 0)
    assert oldest["generated_tokens"] > 0 and oldest["prompt_tokens"] == oldest["computed_tokens"]
    assert {request["phase"] for request in requests["waiting"]} == {"waiting"}
    first.close()
    for stream in others:
        stream.text()
    running.wait_idle()


@pytest.mark.long
def test_the_delay_between_failing_restarts_grows(start_server):
    running = start_server("--worker-fault", "fail-from-life=2")
    stream = running.open_stream("Tell me a long story.", **LONG)
    stream.wait_token()
    send_signal(running.worker_pid(), "SIGKILL")

    def backing_off():
        worker = running.get("/v1/status").json["workers"][0]
        return worker if worker["failed_starts"] >= 3 and worker["state"] == "backing_off" else None
    worker = wait_until(backing_off, "three failed starts")
    assert worker["pid"] is None and "must fail" in worker["last_death"]["reason"]
    assert worker["next_start_s"] <= 10
    assert running.get("/ready").status == 503
    assert running.get("/health").status == 200
    reply = running.chat()
    assert (reply.status, reply.error["code"]) == (503, "worker_restarting")
    events = list(stream.events())  # the stream ends
    assert events[-1]["error"]["code"] == "worker_unavailable"
    running.wait_idle()


def test_a_stopped_idle_worker_is_not_restarted(start_server):
    running = start_server("--worker-timeout", "1")
    worker = running.worker_pid()
    send_signal(worker, "SIGSTOP")
    time.sleep(1.6)
    assert process_is_alive(worker)
    send_signal(worker, "SIGCONT")
    assert running.chat("Hello", max_tokens=2).status == 200
    assert running.worker_pid() == worker


def test_a_silent_stream_gets_comments(start_server):
    running = start_server("--keepalive-comment", "1")
    stream = running.open_stream("Tell me a long story.", **LONG)
    stream.wait_token()
    send_signal(running.worker_pid(), "SIGSTOP")
    try:
        for line in stream.lines():
            if line == ": keep-alive":
                break
    finally:
        send_signal(running.worker_pid(), "SIGCONT")
    stream.wait_token()  # and goes on
    stream.close()
    running.wait_idle()


def test_status_answers_while_the_worker_is_stopped(start_server):
    running = start_server()
    send_signal(running.worker_pid(), "SIGSTOP")
    stream = running.open_stream(max_tokens=2)
    assert stream.status == 200
    for path in ("/health", "/ready", "/metrics", "/v1/models", "/v1/status"):
        assert running.get(path).status == 200
    assert running.metrics()["shoal_requests_with_worker"] == 1
    send_signal(running.worker_pid(), "SIGCONT")
    stream.text()
    running.wait_idle()


def test_sigterm_drains(start_server):
    running = start_server("--drain-timeout", str(2 * PATIENCE_S), "--worker-timeout", str(2 * PATIENCE_S))
    stream = running.open_stream("Tell me a long story.", **STORY, temperature=0)
    stream.wait_token()
    worker = running.worker_pid()
    send_signal(worker, "SIGSTOP")  # so that there is something to wait for
    running.process.send_signal(signal.SIGTERM)
    wait_until(lambda: running.get("/ready").status == 503, "draining to begin")
    reply = running.chat()
    assert (reply.status, reply.error["code"]) == (503, "shutting_down")
    send_signal(worker, "SIGCONT")
    _, finish = stream.text()
    assert finish == "length"
    assert running.wait_exit() == 0
    assert not process_is_alive(worker)
    assert "exit status 0" in running.log_text()


def test_a_drain_that_takes_too_long_ends_requests_with_an_error(start_server):
    running = start_server("--drain-timeout", "1")
    stream = running.open_stream("Tell me a long story.", **LONG)
    stream.wait_token()
    running.process.send_signal(signal.SIGTERM)
    events = list(stream.events())
    assert events[-1]["error"]["code"] == "shutting_down"
    assert running.wait_exit() == 0


def test_a_second_signal_ends_at_once(start_server):
    running = start_server("--drain-timeout", str(2 * PATIENCE_S))
    stream = running.open_stream("Tell me a long story.", **LONG)
    stream.wait_token()
    worker = running.worker_pid()
    running.process.send_signal(signal.SIGINT)
    wait_until(lambda: running.get("/ready").status == 503, "draining to begin")
    running.process.send_signal(signal.SIGINT)
    assert running.wait_exit() == 128 + signal.SIGINT
    wait_until(lambda: not process_is_alive(worker), "the worker to end")
    stream.close()


def test_a_killed_server_takes_its_worker_along(start_server):
    running = start_server()
    worker = running.worker_pid()
    running.process.kill()
    running.wait_exit()
    wait_until(lambda: not process_is_alive(worker), "the worker to end")
