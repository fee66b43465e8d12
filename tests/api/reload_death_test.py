"""The worker of a model that is being replaced is killed while it has requests: before its successor is ready, and after."""

import os
import random
import signal
import threading
import time

import pytest
from reload_test import SMALL, ask, events, make_weights

from shoal_server import process_is_alive, wait_until

STREAMS = 4


class Reader(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, server, content, model):
        super().__init__()
        self.stream = server.open_stream(content, model=model, temperature=0, max_tokens=300, ignore_eos=True, logprobs=True)
        self.tokens, self.end, self.message = [], None, None
        self.begun = threading.Event()

    def run(self):
        for event in self.stream.events():
            if "error" in event:
                self.end, self.message = event["error"]["code"], event["error"]["message"]
                continue
            for choice in event["choices"]:
                self.tokens += [entry["token"] for entry in (choice.get("logprobs") or {"content": []})["content"]]
                self.end = choice["finish_reason"] or self.end
            if self.tokens:
                self.begun.set()


def begin(server, questions, model):
    """Streams, the first of which has begun, and whose worker then stands still with requests; returns them and the worker."""
    worker = server.get(f"/v1/status?model={model}").json["workers"][0]["pid"]
    for _ in range(10):  # the worker may end them all before it stands still
        readers = [Reader(server, question, model) for question in questions]
        for reader in readers:
            reader.start()
        readers[0].begun.wait()
        os.kill(worker, signal.SIGSTOP)
        time.sleep(0.2)  # for what it had told
        if server.get("/health").json["live_requests"] > 0:
            return readers, worker
        os.kill(worker, signal.SIGCONT)
        for reader in readers:
            reader.join()
    pytest.fail("the worker was never stopped in time")


@pytest.mark.parametrize("moment", ["model_changed", "model_reloaded"])
@pytest.mark.parametrize("change, standby", [("settings", "off"), ("weights", "on"), ("weights", "off")])
def test_streams_outlive_their_worker(tmp_path, start_server, change, standby, moment):
    """The server holds the replaced file open, so a worker that is started again reads it."""
    rng = random.Random()
    questions = [f"Question {rng.randrange(1000)}" for _ in range(STREAMS)]
    make_weights(rng, tmp_path / "one.gguf")
    server = start_server("--models-dir", str(tmp_path), *SMALL, "--standby", standby)
    expected = [ask(server, question, "one", tokens=300) for question in questions]
    if standby == "on":
        wait_until(lambda: server.get("/v1/status?model=one").json["workers"][0]["standby"]["state"] == "waiting", "the standby")
    readers, worker = begin(server, questions, "one")
    if change == "weights":
        make_weights(rng, tmp_path / "one.gguf")
    else:
        (tmp_path / "shoal.ini").write_text("[one]\ncontext = 400\n", encoding="ascii")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: events(server, moment) == 1, "the moment")
    assert any(reader.end is None for reader in readers)
    os.kill(worker, signal.SIGKILL)
    for reader, tokens in zip(readers, expected):
        reader.join()
        assert (reader.end, tuple(reader.tokens)) == ("length", tokens)
    wait_until(lambda: events(server, "model_reloaded") == 1, "the new one to serve")
    assert (ask(server, questions[0], "one", tokens=300) == expected[0]) == (change == "settings")
    wait_until(lambda: server.get("/health").json["live_requests"] == 0, "the old instance to end")
    assert not process_is_alive(worker)


def overwrite(rng, path):
    """Writes other weights into the same file."""
    make_weights(rng, path.with_suffix(".other"))
    with path.open("r+b") as file:
        file.write(path.with_suffix(".other").read_bytes())


@pytest.mark.parametrize("moment", ["model_changed", "model_reloaded"])
def test_overwritten_weights_end_with_their_worker(tmp_path, start_server, moment):
    """No process has the old bytes, so streams that have begun end with an error that says so; later requests have the new ones."""
    rng = random.Random()
    questions = [f"Question {rng.randrange(1000)}" for _ in range(STREAMS)]
    make_weights(rng, tmp_path / "one.gguf")
    server = start_server("--models-dir", str(tmp_path), *SMALL)
    ask(server, questions[0], "one")
    readers, worker = begin(server, questions, "one")
    overwrite(rng, tmp_path / "one.gguf")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: events(server, moment) == 1, "the moment")
    os.kill(worker, signal.SIGKILL)
    for reader in readers:
        reader.join()
        assert reader.end in ("worker_unavailable", "length")
    assert any(reader.end == "worker_unavailable" for reader in readers)
    assert any("one.gguf was overwritten in place" in (reader.message or "") for reader in readers)
    wait_until(lambda: events(server, "model_reloaded") == 1, "the new one to serve")
    new = start_server(*SMALL, model=tmp_path / "one.gguf")
    assert ask(server, questions[0], "one", tokens=300) == ask(new, questions[0], tokens=300)
