"""SIGHUP and changed files replace a model under load: streams end on the old weights, later requests have the new ones, none is
lost, and what cannot be loaded leaves the old model in place."""

import concurrent.futures
import os
import random
import signal
import threading

import gguf
import pytest

from shoal_server import ROOT, process_is_alive, wait_until

FORMS = ROOT / "build/checkpoints"  # scripts/golden/checkpoint_variants.py
SMALL = ["--context", "512", "--kv-cache-bytes", "32M", "--log-format", "json"]


OUTPUT = next(tensor for tensor in gguf.GGUFReader(FORMS / "llama-f16.gguf").tensors if tensor.name == "output.weight")


def make_weights(rng, path):
    """The weights of llama-f16.gguf with the rows of the output matrix in a drawn order, put in place by a rename."""
    file = bytearray((FORMS / "llama-f16.gguf").read_bytes())
    begin, end, row = OUTPUT.data_offset, OUTPUT.data_offset + OUTPUT.n_bytes, 2 * int(OUTPUT.shape[0])
    rows = [file[at:at + row] for at in range(begin, end, row)]
    rng.shuffle(rows)
    file[begin:end] = b"".join(rows)
    path.with_suffix(".new").write_bytes(file)
    os.replace(path.with_suffix(".new"), path)


def ask(server, content, model=None, tokens=24):
    named = {"model": model} if model else {}
    reply = server.chat(content, temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=True, **named)
    assert reply.status == 200, reply.body
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == "length"
    return tuple(entry["token"] for entry in choice["logprobs"]["content"])


def events(server, name):
    return len(server.log_events(name))


class Load:
    """Clients that ask the same questions again and again; every answer is kept."""

    def __init__(self, server, questions, model=None, clients=6):
        self.stop = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(clients)
        self.runs = [self.pool.submit(self.run, server, questions, model, i) for i in range(clients)]

    def run(self, server, questions, model, client):
        rng, answers = random.Random(client), []
        while not self.stop.is_set():
            question = rng.choice(questions)
            answers.append((question, ask(server, question, model)))
        return answers

    def end(self):
        self.stop.set()
        answers = [answer for run in self.runs for answer in run.result()]
        self.pool.shutdown()
        return answers


@pytest.mark.parametrize("how", ["hangup", "watch"])
def test_a_replaced_model_takes_over_under_load(tmp_path, start_server, how):
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    model = tmp_path / "model.gguf"
    questions = [f"Question {rng.randrange(1000)}" for _ in range(4)]
    make_weights(rng, model)
    server = start_server(*SMALL, *(["--no-reload"] if how == "hangup" else []), model=model)
    known = [{question: ask(server, question) for question in questions}]
    first_worker = server.worker_pid()
    load = Load(server, questions)
    stream = server.open_stream(questions[0], temperature=0, max_tokens=400, ignore_eos=True)
    stream.wait_token()
    for turn in range(1, 3):
        make_weights(rng, model)
        if how == "hangup":
            os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: events(server, "model_reloaded") == turn, "the new model to take over")
        known.append({question: ask(server, question) for question in questions})
    answers = load.end()
    assert stream.text()[1] == "length"
    assert all(answer in [one[question] for one in known] for question, answer in answers), seed
    assert len({answer for _, answer in answers}) > len(questions), seed
    assert {question: ask(server, question) for question in questions} == known[-1]
    assert server.get("/ready").status == 200 and not server.get("/ready").json["reloading"]
    wait_until(lambda: server.get("/health").json["live_requests"] == 0, "the old instances to end")
    wait_until(lambda: not process_is_alive(first_worker), "the first worker to end")
    assert server.get("/v1/status").json["changed_weights"] is None
    assert events(server, "model_reload_failed") == 0


def test_a_model_that_cannot_be_loaded_leaves_the_old_one(tmp_path, start_server):
    rng = random.Random()
    model = tmp_path / "model.gguf"
    make_weights(rng, model)
    server = start_server(*SMALL, model=model)
    before = ask(server, "Hello")
    whole = (FORMS / "llama-f16.gguf").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:rng.randrange(8, len(whole) - 4096)])
    os.replace(tmp_path / "cut", model)
    wait_until(lambda: events(server, "model_reload_failed") == 1, "the broken model to be refused")
    assert ask(server, "Hello") == before
    assert server.get("/ready").status == 200
    assert server.get("/v1/status").json["changed_weights"] == "model.gguf"
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: events(server, "model_reload_failed") == 2, "it to be tried again")
    make_weights(rng, model)
    wait_until(lambda: events(server, "model_reloaded") == 1, "the next one to take over")
    assert ask(server, "Hello") != before


def test_a_hangup_without_a_change_replaces_nothing(tmp_path, start_server):
    make_weights(random.Random(), tmp_path / "model.gguf")
    server = start_server(*SMALL, model=tmp_path / "model.gguf")
    worker = server.worker_pid()
    os.kill(server.process.pid, signal.SIGHUP)
    ask(server, "Hello")
    assert server.worker_pid() == worker and events(server, "model_changed") == 0


def test_a_directory_is_read_again(tmp_path, start_server):
    """Settings change, models come and go, while requests for all of them are in progress."""
    rng = random.Random()
    for name in ("one", "two"):
        make_weights(rng, tmp_path / f"{name}.gguf")
    server = start_server("--models-dir", str(tmp_path), *SMALL)
    load = Load(server, ["Hello", "Hi"], "one")
    two = ask(server, "Hello", "two")
    stream = server.open_stream("Count.", model="two", max_tokens=400, ignore_eos=True)
    stream.wait_token()
    (tmp_path / "shoal.ini").write_text("[one]\ncontext = many\n", encoding="ascii")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "'many' is not a number" in server.log_text(), "the settings to be refused")
    assert ask(server, "Hello", "two") == two
    (tmp_path / "shoal.ini").write_text("[one]\ncontext = 256\nserved-model-name = one\nserved-model-name = uno\n", encoding="ascii")
    os.replace(tmp_path / "two.gguf", tmp_path / "three.gguf")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: events(server, "model_reloaded") == 1, "the changed settings in force")
    assert {one["id"] for one in server.get("/v1/models").json["data"]} == {"one", "uno", "three"}
    assert server.get("/props?model=uno").json["default_generation_settings"]["n_ctx"] == 256
    assert server.chat("Hello", model="two").status == 404
    assert ask(server, "Hello", "three") == two
    assert stream.text()[1] == "length"
    assert len(load.end()) > 0


def test_no_room_for_two_copies(tmp_path, start_server):
    """Without room beside it, a changed model is unloaded first, as soon as it has no requests; those that come then wait."""
    rng = random.Random()
    make_weights(rng, tmp_path / "one.gguf")
    server = start_server("--models-dir", str(tmp_path), "--models-loaded", "1", *SMALL)
    stream = server.open_stream("Count.", model="one", max_tokens=400, ignore_eos=True)
    stream.wait_token()
    before = ask(server, "Hello", "one")
    make_weights(rng, tmp_path / "one.gguf")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: events(server, "model_changed") == 1, "the change to be noticed")
    assert server.get("/health").json["reloading"]
    assert stream.text()[1] == "length"
    wait_until(lambda: not server.get("/health").json["reloading"], "the old one to be unloaded")
    assert ask(server, "Hello", "one") != before
