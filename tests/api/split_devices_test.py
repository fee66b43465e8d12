"""A model whose layers are split over devices (`--device A+B`): answers are those of one device, also when the worker is killed in the
middle of streams, and options that cannot be met end the server with the reason."""

import concurrent.futures
import os
import random
import re
import signal
import subprocess

import pytest
from demo_model import FOLDER, MODEL_ID, chat_body, questions

from shoal_server import BUILD, COMPILING_S, PATIENCE_S, ROOT, wait_until

SERVER_MODEL = FOLDER
LAYERS = 6  # of the demo model
COMMON = ["--threads", "1", "--kv-cache-bytes", "50M"]


def draw_bodies(count, **fields):
    """Of the golden questions, drawn: with images, tools and thinking. Answers are as long as they like."""
    rng = random.Random()
    return [chat_body(question, logprobs=True, seed=rng.randrange(1000), **fields) for question in rng.sample(questions(), count)]


def ask(server, body):
    reply = server.request("POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    choice = reply.json["choices"][0]
    return choice["message"], choice["finish_reason"], [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]


def ask_all(server, bodies):
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return [(dict(message, tool_calls=[call["function"] for call in message.get("tool_calls") or []]), *rest)
                for message, *rest in pool.map(lambda body: ask(server, body), bodies)]


def kill_in_mid_stream(server, bodies):
    """The answers, the worker being killed when about half of the tokens are there."""
    generated = lambda: server.metrics()["vllm:generation_tokens_total"]
    before, worker = generated(), server.get("/v1/status").json["workers"][0]["pid"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, bodies)
        wait_until(lambda: generated() > before + 4 * len(bodies) or answers.done(), "tokens")
        assert not answers.done()
        os.kill(worker, signal.SIGKILL)
        return answers.result()


def test_answers_and_logprobs_are_those_of_one_device(server, start_server):
    """Eight at once, twice: chunks of prompts and images of some in steps with decodes of others; the second time from the prefix cache."""
    split = start_server("--device", "cpu+cpu", *COMMON, "--step-tokens", "96", "--max-sequences", "8")
    (worker,) = split.get("/v1/status").json["workers"]
    assert worker["device"] == "cpu+cpu" and worker["backend"].startswith("cpu layers 0 to ")
    first, second = worker["devices"]
    assert (first["device"], first["first_layer"], second["first_layer"]) == ("cpu", 0, first["layers"])
    assert first["layers"] + second["layers"] == LAYERS and first["memory_bytes"] > first["weights_bytes"] > 1e6
    page = split.get("/metrics").body.decode()
    for place, device in enumerate((first, second)):
        for what in ("weights", "kv_cache", "memory"):
            labels = f'model_name="{MODEL_ID}",worker="0",place="{place}",device="cpu"'
            value, = re.findall(rf"^shoal_device_{what}_bytes{{{labels}}} (\S+)$", page, re.MULTILINE)
            assert abs(float(value) - device[f"{what}_bytes"]) <= 1e-6 * float(value)
    (whole,) = server.get("/v1/status").json["workers"][0]["devices"]
    assert (whole["layers"], whole["memory_bytes"]) == (LAYERS, first["memory_bytes"])
    assert 0.5 * 50e6 < first["kv_cache_bytes"] + second["kv_cache_bytes"] <= 50 << 20
    bodies = draw_bodies(6) + draw_bodies(2, temperature=1.0, presence_penalty=0.5, top_p=0.9)
    expected = ask_all(server, bodies)
    assert ask_all(split, bodies) == expected
    assert ask_all(split, bodies) == expected
    split.wait_idle()


def test_a_worker_killed_in_mid_stream_changes_no_answer(server, start_server):
    split = start_server("--device", "cpu+cpu+cpu", *COMMON)
    bodies = draw_bodies(6, max_tokens=100, ignore_eos=True)
    expected = ask_all(server, bodies)
    assert kill_in_mid_stream(split, bodies) == expected
    assert split.get("/v1/status").json["workers"][0]["restarts"] == 1
    split.wait_idle()


@pytest.mark.long
def test_two_vulkan_devices(start_server):
    """Mesa's CPU driver, named twice."""
    options = [*COMMON, "--worker-timeout", str(COMPILING_S), "--batch-invariant", "--max-sequences", "4", "--step-tokens", "64"]
    split = start_server("--device", "vulkan:0+vulkan:0", *options, ready=False)
    split.wait_ready(COMPILING_S)
    assert split.get("/v1/status").json["workers"][0]["device"] == "vulkan:0+vulkan:0"
    bodies = draw_bodies(2, max_tokens=40, ignore_eos=True)
    expected = ask_all(split, bodies)
    assert kill_in_mid_stream(split, bodies) == expected
    split.wait_idle()


def refusal(*options):
    """The last line of a server that does not start, but for what another thread says of the model."""
    command = [str(BUILD / "shoal"), "serve", "--model", str(FOLDER), "--port", "0", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode != 0 and "killed by signal" not in ended.stderr
    return [line for line in ended.stderr.splitlines() if " info " not in line][-1]


@pytest.mark.parametrize("device, words", [
    ("vulkan:0+", "nor up to 8 of these with + between"),
    ("+cpu", "nor up to 8 of these with + between"),
    ("cpu++cpu", "nor up to 8 of these with + between"),
    ("auto+cpu", "nor up to 8 of these with + between"),
    ("+".join(["cpu"] * 9), "nor up to 8 of these with + between"),
    ("cpu+cpu+cpu+cpu+cpu+cpu+cpu", "7 devices for a model that can be cut into 6 parts"),
    ("cpu+vulkan:7", "there is no Vulkan device 7"),
])
def test_devices_that_cannot_be_had(device, words):
    assert words in refusal("--device", device)


@pytest.mark.parametrize("options, words", [
    (["--draft-model", str(FOLDER)], "the layers are split over several devices"),
    (["--standby", "on"], "--standby on: a worker whose layers are split over devices has none"),
    (["--speculation", "mtp"], "the layers are split over several devices"),
])
def test_options_that_need_one_device(options, words):
    assert words in refusal("--device", "cpu+cpu", *options)
