"""LoRA adapters of a worker that computes on a Vulkan device (Mesa's CPU driver): with --batch-invariant 64 streams of 16 adapters have the answers
that each has alone, also across a kill; adapters loaded at run time answer like those of the start. tests/vulkan/model/vulkan_adapters_test.c
compares their logits with PEFT's and the CPU's."""

import concurrent.futures
import os
import random
import signal

import pytest
from lora_loading_test import PROMPT, load, names, unload, wait_workers
from lora_test import ADAPTERS, BASE, ask, draw_adapters, options_of, text_of
from shoal_server import COMPILING_S, ShoalServer

pytestmark = [pytest.mark.long, pytest.mark.longest]

OPTIONS = ["--device", "vulkan", "--threads", "2", "--worker-timeout", str(COMPILING_S), "--kv-cache-bytes", "1%", "--batch-invariant",
           "--served-model-name", "base"]


def drawn_bodies(adapters):
    draw, models = random.Random(9), ["base", *adapters]
    return [(models[i % len(models)], {"seed": i, "temperature": draw.choice([0, 0.8]), "max_tokens": draw.randint(6, 20)},
             "words " * draw.randint(1, 12) + str(i)) for i in range(64)]


def test_many_adapters_in_one_batch_and_a_kill(tmp_path):
    adapters = draw_adapters(tmp_path, ADAPTERS, 8)
    bodies = drawn_bodies(adapters)
    with ShoalServer(*OPTIONS, "--max-sequences", "64", *options_of(adapters), model=BASE) as server, concurrent.futures.ThreadPoolExecutor(64) as pool:
        server.wait_ready(COMPILING_S)
        alone = [text_of(ask(server, model, prompt, **fields)) for model, fields, prompt in bodies]
        assert len(set(alone)) > 48

        def stream(body):
            model, fields, prompt = body
            return server.open_stream(prompt, model=model, ignore_eos=True, **fields).text()[0]

        assert list(pool.map(stream, bodies)) == alone
        first = server.open_stream(bodies[1][2], model=bodies[1][0], ignore_eos=True, **bodies[1][1] | {"max_tokens": 100})
        first.wait_token()
        running = [pool.submit(stream, body) for body in bodies]
        os.kill(server.worker_pid(), signal.SIGKILL)
        assert [one.result(COMPILING_S) for one in running] == alone
        first.text()
        assert "was not made at load" not in server.log_text()
        server.wait_idle()


def test_adapters_are_loaded_at_run_time(tmp_path):
    drawn = draw_adapters(tmp_path, 4, 6)
    paths = {name: path for name, (path, _, _) in drawn.items()}
    with ShoalServer(*OPTIONS, *options_of(drawn), model=BASE) as server:
        server.wait_ready(COMPILING_S)
        answers = {name: text_of(ask(server, name, PROMPT)) for name in ["base", *paths]}
    assert len(set(answers.values())) == 5
    with ShoalServer(*OPTIONS, "--lora-dir", str(tmp_path), model=BASE) as server:
        server.wait_ready(COMPILING_S)
        assert text_of(ask(server, "base", PROMPT)) == answers["base"]
        stream = server.open_stream(PROMPT, ignore_eos=True, temperature=0, max_tokens=100)
        for name, path in paths.items():
            assert load(server, name, path).status == 200
        assert {name: text_of(ask(server, name, PROMPT)) for name in answers} == answers
        assert unload(server, "tuned-1").status == 200
        assert load(server, "tuned-0", paths["tuned-1"], load_inplace=True).status == 200
        assert text_of(ask(server, "tuned-0", PROMPT)) == answers["tuned-1"]
        assert len(stream.text()[0]) > 0
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_workers(server, 1)
        assert names(server) == ["base", "tuned-0", "tuned-2", "tuned-3"]
        assert text_of(ask(server, "tuned-0", PROMPT)) == answers["tuned-1"]
        assert text_of(ask(server, "tuned-3", PROMPT)) == answers["tuned-3"]
        assert "was not made at load" not in server.log_text()
