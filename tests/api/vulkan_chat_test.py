"""Chats with a server whose worker computes on a Vulkan device: Mesa's CPU driver (scripts/vulkan_env).

A step takes 0.1 to 0.4 s on that driver, so there is one short question and answers are a few tokens.
"""

import concurrent.futures
import os
import re
import subprocess

import pytest

from shoal_server import BUILD, COMPILING_S, MODEL, PATIENCE_S, ROOT, ShoalServer
from vision_folder import data_uri, image_part, make_folder, png, text_part

pytestmark = [pytest.mark.long, pytest.mark.longest]

COMMON = ["--threads", "2", "--worker-timeout", str(COMPILING_S)]
OPTIONS = [*COMMON, "--kv-cache-bytes", "1%"]
QUESTION = "Hi"


@pytest.fixture(scope="module")
def vulkan():
    with ShoalServer("--device", "vulkan", *OPTIONS) as running:
        running.wait_ready(COMPILING_S)
        yield running
        running.wait_idle()


def answer(server, **how):
    reply = server.chat(QUESTION, **how)
    assert reply.status == 200, reply.body
    choice = reply.json["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_status_names_the_device(vulkan):
    worker, = vulkan.get("/v1/status").json["workers"]
    assert (worker["device"], worker["state"]) == ("vulkan:0", "ready")
    assert worker["backend"].startswith("vulkan llvmpipe")


def test_the_cache_is_a_share_of_the_devices_memory(vulkan):
    """On a CPU driver the memory of the device is that of this machine."""
    log = vulkan.log_text()
    assert "option --kv-cache-bytes 1%" in log
    share = float(re.search(r"could use a KV cache of [0-9.]+ MB; this one is for ([0-9.]+) MB", log)[1])
    taken = float(re.search(r"KV cache ([0-9.]+) MB of f16", log)[1])
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    assert 0.002 * memory < share <= 0.0101 * memory
    assert 0.9 * share < taken <= share


def test_greedy_answer_is_the_cpus(vulkan):
    """Five tokens: the sixth is a near-tie. tests/vulkan/model compares many more."""
    with ShoalServer(*OPTIONS) as cpu:
        cpu.wait_ready()
        expected = answer(cpu, temperature=0, max_tokens=5)
    assert answer(vulkan, temperature=0, max_tokens=5) == expected


def test_a_chat_passes_the_start_of_quantization():
    """The prompt ends before that position, the answer after it."""
    with ShoalServer("--device", "vulkan", *OPTIONS, "--kv-bits", "8", "--quantized-kv-start", "40") as server:
        server.wait_ready(COMPILING_S)
        assert "uniform, keys of 8 and values of 8 bits beyond 40 tokens" in server.log_text()
        reply = server.chat("What is the capital of France?", temperature=0, max_tokens=12)
        assert 28 < reply.json["usage"]["prompt_tokens"] < 40
        assert "Paris" in reply.json["choices"][0]["message"]["content"]
        server.wait_idle()


@pytest.mark.parametrize("start", [0, 36])
def test_turns_over_codes_of_half_bits_are_the_cpus(start):
    """Two conversations share steps, pass the start in their first answer and continue from the prefix cache. Heads of 48 are rotated by a
    matrix. Compares log-probabilities, which are a stricter check than tokens."""
    bits = ["--kv-bits", "4", "--kv-quant-scheme", "turboquant", "--kv-key-bits", "3.5", "--kv-value-bits", "2.5"]

    def talk(server, question):
        messages, told = [{"role": "user", "content": question}], []
        for then in ("And then?", ""):
            reply = server.request("POST", "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 6, "logprobs": True})
            assert reply.status == 200, reply.body
            choice = reply.json["choices"][0]
            told += [(token["bytes"], token["logprob"]) for token in choice["logprobs"]["content"]]
            messages += [choice["message"], {"role": "user", "content": then}]
        usage = reply.json["usage"]
        assert usage["prompt_tokens"] > 64 and usage["prompt_tokens_details"]["cached_tokens"] in (16, 32)
        return told

    talks = {}
    for device in ("cpu", "vulkan"):
        options = ["--device", device, *COMMON, "--kv-cache-bytes", "20M", *bits, "--quantized-kv-start", str(start)]
        with ShoalServer(*options, model=ROOT / "build/checkpoints/glm4-wide-heads") as server:
            server.wait_ready(COMPILING_S)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                talks[device] = list(pool.map(lambda question: talk(server, question), ("is it far?", "what is it?")))  # noqa: B023
            server.wait_idle()
    for mine, cpus in zip(talks["vulkan"], talks["cpu"]):
        assert [token for token, _ in mine] == [token for token, _ in cpus] and len(cpus) == 12
        assert [logprob for _, logprob in mine] == pytest.approx([logprob for _, logprob in cpus], abs=0.03)


@pytest.mark.parametrize("filters", [{"top_p": 0.95}, {"typical_p": 0.9, "top_n_sigma": 2}])
def test_a_seed_gives_the_same_answer_again(vulkan, filters):
    how = {"temperature": 0.9, "frequency_penalty": 0.3, "seed": 7, "max_tokens": 5, **filters}
    first = answer(vulkan, **how)
    assert first[0]
    assert answer(vulkan, **how) == first


def test_alternatives_ignore_a_logit_bias(vulkan):
    """A logit bias changes the answer but not the reported alternatives."""

    def told(**how):
        reply = vulkan.chat(QUESTION, temperature=0, max_tokens=1, logprobs=True, top_logprobs=20, **how)
        assert reply.status == 200, reply.body
        return reply.json["choices"][0]["logprobs"]["content"][0]

    plain = told()
    assert len(plain["top_logprobs"]) == 20
    assert plain["top_logprobs"][0]["logprob"] == plain["logprob"]
    best = [token["logprob"] for token in plain["top_logprobs"]]
    assert best == sorted(best, reverse=True)
    biased = told(logit_bias={str(token): -100 for token in range(256)} | {"1000": 100})
    assert biased["top_logprobs"] == plain["top_logprobs"]
    assert biased["token"] != plain["token"]
    assert biased["logprob"] < plain["logprob"]


def test_streams_share_the_device_when_one_is_left(vulkan):
    left = vulkan.open_stream(QUESTION, max_tokens=400, seed=1)
    streams = [vulkan.open_stream(QUESTION, max_tokens=3, temperature=0.8, seed=seed) for seed in (2, 3)]
    left.wait_token()
    left.reset()
    for stream in streams:
        text, finish = stream.text()
        stream.close()
        assert text and finish in ("length", "stop")
    vulkan.wait_idle()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kv-cache-bytes", "1M"], r"a KV cache of 1048576 bytes holds \d+ tokens of one sequence"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_the_numbers(options, words):
    command = [str(BUILD / "shoal"), "serve", "--model", str(MODEL), "--device", "vulkan", "--port", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode != 0
    assert re.search(words, done.stderr), done.stderr


def test_images_are_answered_as_on_the_cpu(tmp_path):
    """Questions with zero, one and two images, one at a time and all at once: the same tokens on both devices."""
    folder = make_folder(tmp_path)
    red, blue = (image_part(data_uri(png(*size, colour))) for size, colour in (((16, 8), (255, 0, 0)), ((64, 32), (0, 9, 255))))
    questions = [[text_part("hello")], [red, text_part("what")], [blue, text_part("and"), red]]

    def ask(server, question):
        reply = server.chat(question, temperature=0, max_tokens=4, logprobs=True)
        assert reply.status == 200, reply.body
        return [token["token"] for token in reply.json["choices"][0]["logprobs"]["content"]]

    answers = {}
    for device in ("cpu", "vulkan"):
        with ShoalServer("--device", device, *COMMON, "--kv-cache-bytes", "50M", model=folder) as server:
            server.wait_ready(COMPILING_S)
            answers[device] = [ask(server, question) for question in questions]
            with concurrent.futures.ThreadPoolExecutor(len(questions)) as pool:
                assert list(pool.map(lambda question: ask(server, question), questions)) == answers[device]  # noqa: B023
    assert answers["vulkan"] == answers["cpu"]
