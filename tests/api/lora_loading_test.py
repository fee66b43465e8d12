"""LoRA adapters that are loaded and unloaded while the server runs (vLLM's routes): answers equal those of a server that had them from the start,
beside other streams, with kills, replacements and refusals."""

import concurrent.futures
import os
import signal
import time

import numpy as np
import pytest
from lora_files import draw_pairs, write_peft
from lora_test import BASE, PAIR, SHAPES, ask, draw_adapters, options_of, text_of
from shoal_server import PATIENCE_S, ShoalServer, wait_until

OPTIONS = ["--kv-cache-type", "f32", "--served-model-name", "base"]
PROMPT = "the same words, long enough for blocks of sixteen tokens"


def load(server, name, path, **fields):
    return server.request("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)} | fields)


def unload(server, name):
    return server.request("POST", "/v1/unload_lora_adapter", {"lora_name": name})


def workers(server):
    return server.get("/v1/status").json["workers"]


def wait_workers(server, count):
    wait_until(lambda: sum(worker["state"] == "ready" for worker in workers(server)) == count, "all workers to be ready")


def names(server):
    return [entry["id"] for entry in server.get("/v1/models").json["data"]]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A folder of adapters and the answer of each, on a server that had all from the start."""
    folder = tmp_path_factory.mktemp("adapters")
    adapters = draw_adapters(folder, 6, int.from_bytes(os.urandom(4)))
    with ShoalServer(*OPTIONS, *options_of(adapters), model=BASE) as server:
        server.wait_ready()
        answers = {name: text_of(ask(server, name, PROMPT)) for name in ["base", *adapters]}
    return folder, {name: path for name, (path, _, _) in adapters.items()}, answers


def test_loaded_adapters_answer_like_those_of_the_start(known):
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server:
        server.wait_ready()
        assert names(server) == ["base"]
        assert server.chat(PROMPT, model="tuned-0").status == 404
        for name, path in paths.items():
            reply = load(server, name, path if name > "tuned-2" else path.name, base_model_name="base")
            assert (reply.status, reply.body.decode()) == (200, f"Success: LoRA adapter '{name}' added successfully.")
        assert names(server) == ["base", *paths]
        assert {name: text_of(ask(server, name, PROMPT)) for name in answers} == answers
        assert f'running_lora_adapters="{",".join(paths)}"' in server.get("/metrics").body.decode()
        cached = ask(server, "tuned-3", PROMPT)["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached > 0
        reply = unload(server, "tuned-3")
        assert (reply.status, reply.body.decode()) == (200, "Success: LoRA adapter 'tuned-3' removed successfully.")
        assert server.chat(PROMPT, model="tuned-3").status == 404
        assert unload(server, "tuned-3").status == 404
        # An equal adapter finds what the unloaded one left in the prefix cache.
        assert load(server, "again", paths["tuned-3"]).status == 200
        reply = ask(server, "again", PROMPT)
        assert text_of(reply) == answers["tuned-3"]
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == cached


def test_slots_are_used_again_and_again(known):
    """More loads than there are slots, under running streams: each stream goes on with the adapter that it began with."""
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        server.wait_ready()
        assert load(server, "kept", paths["tuned-5"]).status == 200
        alone = text_of(ask(server, "kept", PROMPT, max_tokens=300))
        long = server.open_stream(PROMPT, model="kept", ignore_eos=True, temperature=0, max_tokens=300)
        long.wait_token()
        assert unload(server, "kept").status == 200
        for turn in range(80):
            name = f"tuned-{turn % 5}"
            assert load(server, "turn", paths[name]).status == 200
            answer = pool.submit(ask, server, "turn", PROMPT)
            assert text_of(answer.result(PATIENCE_S)) == answers[name], turn
            assert unload(server, "turn").status == 200
        rest = long.text()[0] # without the first token
        assert len(rest) > len(alone) / 2 and alone.endswith(rest)
        assert names(server) == ["base"]


def test_replacing_an_adapter(known):
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), "--lora", f"policy={paths['tuned-0']}", model=BASE) as server:
        server.wait_ready()
        refused = load(server, "policy", paths["tuned-1"])
        assert refused.status == 400 and "load_inplace" in refused.error["message"]
        assert text_of(ask(server, "policy", PROMPT)) == answers["tuned-0"]
        for number in (1, 2, 3, 0):
            assert load(server, "policy", paths[f"tuned-{number}"], load_inplace=True).status == 200
            assert text_of(ask(server, "policy", PROMPT)) == answers[f"tuned-{number}"]
        assert names(server) == ["base", "policy"]


@pytest.mark.parametrize("standby", ["off", "on"])
def test_workers_that_start_later_have_what_was_loaded(known, standby):
    folder, paths, answers = known
    options = [*OPTIONS, "--lora-dir", str(folder), "--workers", "2", "--standby", standby]
    with ShoalServer(*options, model=BASE) as server:
        server.wait_ready()
        wait_workers(server, 2)
        for name in ("tuned-0", "tuned-1"):
            assert load(server, name, paths[name]).status == 200
        assert unload(server, "tuned-0").status == 200
        for round in range(3):
            stream = server.open_stream(PROMPT, model="tuned-1", temperature=0, max_tokens=16, ignore_eos=True)
            for worker in workers(server):
                os.kill(worker["pid"], signal.SIGKILL)
            assert stream.text()[0] == answers["tuned-1"]
            assert load(server, f"new-{round}", paths["tuned-2"], load_inplace=True).status in (200, 500, 503)
            wait_workers(server, 2)
            assert load(server, f"new-{round}", paths["tuned-2"], load_inplace=True).status == 200
            for _ in range(4):
                assert text_of(ask(server, f"new-{round}", PROMPT)) == answers["tuned-2"]
            assert server.chat(PROMPT, model="tuned-0").status == 404


def test_a_worker_that_dies_over_an_adapter(known):
    """It is stopped, asked, and killed: the load fails, the next worker does not have the adapter, and the next load succeeds."""
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        server.wait_ready()
        worker = server.worker_pid()
        os.kill(worker, signal.SIGSTOP)
        asked = pool.submit(load, server, "x", paths["tuned-0"])
        wait_until(lambda: adapter_bytes(server) > 4096, "the files to be copied")
        time.sleep(0.5)  # until the loop has asked the worker
        assert not asked.done()
        os.kill(worker, signal.SIGKILL)
        reply = asked.result(PATIENCE_S)
        assert (reply.status, reply.error["code"]) == (500, "worker_died")
        wait_workers(server, 1)
        assert names(server) == ["base"]
        assert server.chat(PROMPT, model="x").status == 404
        assert load(server, "x", paths["tuned-0"]).status == 200
        assert text_of(ask(server, "x", PROMPT)) == answers["tuned-0"]


def test_a_worker_that_does_not_answer(known):
    """It is stopped: the load gets 504 at --lora-timeout and changes nothing; when the worker goes on, the next load succeeds."""
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), "--lora-timeout", "2", model=BASE) as server, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        server.wait_ready()
        worker = server.worker_pid()
        os.kill(worker, signal.SIGSTOP)
        began = time.monotonic()
        asked = pool.submit(load, server, "x", paths["tuned-0"])
        reply = asked.result(PATIENCE_S)
        assert (reply.status, reply.error["code"]) == (504, "adapter_timeout")
        assert "within 2 s" in reply.error["message"] and time.monotonic() - began >= 2
        assert names(server) == ["base"] and server.chat(PROMPT, model="x").status == 404
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: load(server, "x", paths["tuned-1"]).status == 200, "a load to succeed")
        assert text_of(ask(server, "x", PROMPT)) == answers["tuned-1"]
        assert server.worker_pid() == worker


def test_a_server_that_ends_answers_loads(known):
    """Two loads wait for a stopped worker when the server is told to end: both get an answer."""
    folder, paths, _ = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), "--drain-timeout", "1", model=BASE) as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        server.wait_ready()
        worker = server.worker_pid()
        os.kill(worker, signal.SIGSTOP)
        asked = [pool.submit(load, server, name, paths["tuned-1"]) for name in ("x", "y")]
        wait_until(lambda: adapter_bytes(server) > 4096, "the files to be copied")
        server.process.send_signal(signal.SIGTERM)
        for one in asked:
            reply = one.result(PATIENCE_S)
            assert reply.status == 503 and reply.error["message"]
        os.kill(worker, signal.SIGCONT)
        server.wait_exit()


def test_many_loads_at_once(known):
    folder, paths, answers = known
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        server.wait_ready()
        replies = list(pool.map(lambda i: load(server, f"many-{i}", paths[f"tuned-{i % 6}"]), range(70)))
        assert sum(reply.status == 200 for reply in replies) == 64
        assert {reply.error["code"] for reply in replies if reply.status != 200} == {"too_many_adapters"}
        loaded = [i for i, reply in enumerate(replies) if reply.status == 200]
        texts = list(pool.map(lambda i: text_of(ask(server, f"many-{i}", PROMPT)), loaded))
        assert texts == [answers[f"tuned-{i % 6}"] for i in loaded]
        same = list(pool.map(lambda _: load(server, "many-0", paths["tuned-1"], load_inplace=True), range(4)))
        assert all(reply.status in (200, 400, 409) for reply in same)


def test_bad_adapters_are_refused_and_disturb_nothing(known, tmp_path):
    folder, paths, answers = known
    bad = write_peft(folder / "bad-shape", PAIR | {"layers.0.self_attn.q_proj.lora_A": np.ones((4, 65))})
    outside = write_peft(tmp_path / "outside", PAIR)
    (folder / "link").symlink_to(outside)
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server:
        server.wait_ready()
        stream = server.open_stream(PROMPT, ignore_eos=True, temperature=0, max_tokens=200)
        cases = [
            ({"lora_name": "x", "lora_path": str(bad)}, 400, "adapter_refused", "q_proj.lora_A.weight is [4, 65]"),
            ({"lora_name": "x", "lora_path": str(outside)}, 400, None, "below --lora-dir"),
            ({"lora_name": "x", "lora_path": "link"}, 400, None, "below --lora-dir"),
            ({"lora_name": "x", "lora_path": "../../etc"}, 404, "adapter_not_found", "No such file"),
            ({"lora_name": "x", "lora_path": "/etc"}, 400, None, "below --lora-dir"),
            ({"lora_name": "x", "lora_path": "none"}, 404, "adapter_not_found", "No such file"),
            ({"lora_name": "x", "lora_path": "."}, 400, None, "below --lora-dir"),
            ({"lora_name": "base", "lora_path": str(paths["tuned-0"])}, 400, None, "the model itself has this name"),
            ({"lora_name": "a b", "lora_path": str(paths["tuned-0"])}, 400, None, "printable ASCII"),
            ({"lora_name": "x" * 300, "lora_path": str(paths["tuned-0"])}, 400, None, "lora_name"),
            ({"lora_name": "x", "lora_path": "p" * 5000}, 400, None, "lora_path"),
            ({"lora_name": "x"}, 400, None, "lora_path is required"),
            ({"lora_path": "x"}, 400, None, "lora_name is required"),
            ({"lora_name": "x", "lora_path": "y", "base_model_name": "other"}, 400, None, "this server has the model"),
            ({"lora_name": "x", "lora_path": "y", "unheard_of": 1}, 400, None, "unheard_of"),
            ({"lora_name": "x", "lora_path": "y", "is_3d_lora_weight": True}, 400, None, "is_3d_lora_weight"),
            ({"lora_name": 3, "lora_path": "y"}, 400, None, "lora_name"),
        ]
        for body, status, code, words in cases:
            reply = server.request("POST", "/v1/load_lora_adapter", body)
            assert reply.status == status and words in reply.error["message"], (body, reply.body)
            assert code is None or reply.error["code"] == code
        assert unload(server, "x").status == 404
        assert server.request("POST", "/v1/unload_lora_adapter", {"lora_name": "x", "lora_int_id": 3}).status == 400
        assert load(server, "x", paths["tuned-0"]).status == 200
        assert text_of(ask(server, "x", PROMPT)) == answers["tuned-0"]
        assert len(stream.text()[0]) > 0
        assert names(server) == ["base", "x"]
        assert workers(server)[0]["restarts"] == 0


def test_loading_needs_the_option_and_an_administrator(known):
    folder, paths, _ = known
    with ShoalServer(*OPTIONS, model=BASE) as server:
        server.wait_ready()
        reply = load(server, "x", paths["tuned-0"])
        assert reply.status == 403 and reply.error["code"] == "adapter_loading_disabled"
        assert unload(server, "x").status == 403


def test_unloading_gives_memory_back(known):
    """A large adapter, loaded and unloaded: the memory of adapters has a hole where it was."""
    folder, _, _ = known
    draw = np.random.default_rng(3)
    large = write_peft(folder / "large", draw_pairs(SHAPES, 2, 256, draw, size=0.1), r=256)
    size = (large / "adapter_model.safetensors").stat().st_size
    with ShoalServer(*OPTIONS, "--lora-dir", str(folder), model=BASE) as server:
        server.wait_ready()
        held = []
        for _ in range(6):
            assert load(server, "large", large).status == 200
            assert unload(server, "large").status == 200
            deadline = time.monotonic() + PATIENCE_S
            while (now := adapter_bytes(server)) > size // 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            held.append(now)
        assert max(held) <= size // 2, held


def adapter_bytes(server):
    """Blocks of the memory of adapters."""
    folder = f"/proc/{server.process.pid}/fd"
    for name in os.listdir(folder):
        if "shoal-adapters" in os.readlink(f"{folder}/{name}"):
            return os.stat(f"{folder}/{name}").st_blocks * 512
    raise AssertionError("there is no memory of adapters")
