"""--batch-invariant on a Vulkan worker: streams have the same tokens alone, together, and together with deaths of the worker. Two of
three obey a grammar, whose masks are computed beside the rows of each step.

Runs on Mesa's CPU driver (scripts/vulkan_env) with a tiny model of random weights, whose tokens depend on rounding.
"""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys

import pytest

from shoal_server import COMPILING_S, PATIENCE_S, ROOT, ShoalServer, wait_until

pytestmark = pytest.mark.long

STREAMS = 16
DEATHS = 3
# So few blocks that sequences are preempted.
OPTIONS = ("--device", "vulkan", "--batch-invariant", "--max-sequences", str(STREAMS), "--step-tokens", "64", "--context", "256",
           "--kv-cache-bytes", "160K", "--prefix-cache", "0", "--worker-timeout", str(COMPILING_S),
           "--poison-crashes", "1000")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([sys.executable, ROOT / "scripts" / "make_random_gguf", path, "--shape", "2,64,2,1,32,96", "--seed", "3"],
                   cwd=ROOT, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    return path


WORDS = "([a-z]{1,7} ){4,30}end"
NUMBERS = "[0-9]{1,4}(, [0-9]{1,4}){2,30}"


def answer(server, number):
    regex = (None, WORDS, NUMBERS)[number % 3]
    grammar = {"structured_outputs": {"regex": regex}} if regex else {"ignore_eos": True}
    reply = server.chat("Say the words. " * (1 + number % 5), temperature=0.7 * (number % 2), seed=number, max_tokens=48,
                        logprobs=True, **grammar)
    assert reply.status == 200
    choice = reply.json["choices"][0]
    if regex and choice["finish_reason"] == "stop":
        assert re.fullmatch(regex, choice["message"]["content"])
    return [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]


def test_tokens_and_logprobs_do_not_depend_on_the_batch_or_on_deaths(model, tmp_path):
    with ShoalServer(*OPTIONS, "--pipeline-cache", str(tmp_path), model=model) as server:
        server.wait_ready(COMPILING_S)
        alone = [answer(server, number) for number in range(STREAMS)]
        assert len({tuple(token for token, _ in tokens) for tokens in alone}) > STREAMS // 2
        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            assert list(pool.map(lambda number: answer(server, number), range(STREAMS))) == alone
            preempted = server.metrics()["vllm:num_preemptions_total"]
            running = [pool.submit(answer, server, number) for number in range(STREAMS)]
            for _ in range(DEATHS):
                generated = server.metrics()["vllm:generation_tokens_total"]
                wait_until(lambda: server.metrics()["vllm:generation_tokens_total"] > generated + STREAMS, "tokens of the next worker")
                os.kill(server.worker_pid(), signal.SIGKILL)
            assert [future.result() for future in running] == alone
        assert preempted > 0
