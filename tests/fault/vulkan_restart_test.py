"""A Vulkan worker is killed during streams: they continue where they were, and the next workers adopt its weights.

Runs on Mesa's CPU driver (scripts/vulkan_env), which exports memory like a GPU driver but is slow, so the model is tiny with random weights.
The tokens of such a model depend on rounding, which on a GPU depends on the other sequences in the step; so a logit bias makes each stream
repeat one word of its own.
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

WORDS = {" the": 260, " a": 253, " and": 284, " of": 282}  # word: its token
TOKENS = 24
OPTIONS = ("--device", "vulkan", "--max-sequences", "4", "--step-tokens", "64", "--kv-cache-bytes", "16M", "--worker-timeout",
           str(COMPILING_S))


def make_model(path, seed):
    subprocess.run([sys.executable, ROOT / "scripts" / "make_random_gguf", path, "--shape", "2,64,2,1,32,96",
                    "--seed", str(seed)], cwd=ROOT, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model") / "tiny.gguf", 1)


def open_streams(server):
    return [server.open_stream(f"Say{word}", temperature=0, max_tokens=TOKENS, logit_bias={str(token): 100})
            for word, token in WORDS.items()]


def read_all(streams):
    with concurrent.futures.ThreadPoolExecutor(len(streams)) as pool:
        texts = list(pool.map(lambda stream: stream.text(), streams))
    for stream in streams:
        stream.close()
    return texts


def origins(server):
    """Where each worker got its weights from, in the order of their starts."""
    return re.findall(r"weights [0-9.]+ MB (\w+)", server.log_text())


def kill_workers(server):
    workers = server.get("/v1/status").json["workers"]
    for worker in workers:
        os.kill(worker["pid"], signal.SIGKILL)
    return len(workers)


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    return tmp_path_factory.mktemp("pipelines")


def test_streams_go_on_and_weights_stay(model, pipelines):
    with ShoalServer(*OPTIONS, "--pipeline-cache", str(pipelines), model=model) as server:
        server.wait_ready(COMPILING_S)
        whole = [(word * TOKENS, "length") for word in WORDS]
        assert read_all(open_streams(server)) == whole
        for life in range(2):
            streams = open_streams(server)
            first = streams[0].wait_token()["choices"][0]["delta"]["content"]
            kill_workers(server)
            resumed = read_all(streams)
            resumed[0] = (first + resumed[0][0], resumed[0][1])
            assert resumed == whole, f"after death {life + 1}"
        wait_until(lambda: len(origins(server)) == 3, "the last successor")
        server.wait_ready(COMPILING_S)
        server.wait_idle()
        assert origins(server) == ["packed", "adopted", "adopted"]
        worker = server.get("/v1/status").json["workers"][0]
        assert worker["device"] == "vulkan:0" and worker["backend"].startswith("vulkan llvmpipe")
        assert worker["restarts"] == 2
        assert list(pipelines.iterdir()), "compiled shaders are kept"


def test_a_standby_takes_over(model, pipelines):
    with ShoalServer(*OPTIONS, "--standby", "on", "--pipeline-cache", str(pipelines), model=model) as server:
        server.wait_ready(COMPILING_S)
        whole = [(word * TOKENS, "length") for word in WORDS]
        for life in range(1, 3):
            wait_until(lambda: server.get("/v1/status").json["workers"][0]["standby"]["state"] == "waiting", "the standby", COMPILING_S)
            streams = open_streams(server)
            first = streams[0].wait_token()["choices"][0]["delta"]["content"]
            kill_workers(server)
            resumed = read_all(streams)
            resumed[0] = (first + resumed[0][0], resumed[0][1])
            assert resumed == whole, f"after death {life}"
            assert server.get("/v1/status").json["workers"][0]["takeovers"] == life
        assert "blocks of an earlier worker taken over" in server.log_text()


def test_two_workers_of_a_device_share_what_one_left(model):
    with ShoalServer(*OPTIONS, "--workers", "2", "--pipeline-cache", "none", model=model) as server:
        server.wait_ready(COMPILING_S)
        wait_until(lambda: len(origins(server)) == 2, "both workers")
        assert sorted(origins(server)) == ["adopted", "packed"]
        assert kill_workers(server) == 2
        wait_until(lambda: len(origins(server)) == 4, "both successors")
        assert origins(server)[2:] == ["adopted", "adopted"]
        assert server.chat(max_tokens=2).status == 200


def test_another_checkpoint_in_the_files_place_takes_the_vault_over(model, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(model.read_bytes())
    with ShoalServer(*OPTIONS, "--pipeline-cache", "none", "--ignore-weight-changes", model=path) as server:
        server.wait_ready(COMPILING_S)
        make_model(path, 2)
        for origin in ("packed", "adopted"):
            seen = len(origins(server))
            kill_workers(server)
            wait_until(lambda: len(origins(server)) > seen, "the next worker")
            assert origins(server)[-1] == origin
            server.wait_ready(COMPILING_S)
            assert server.chat(max_tokens=1).status == 200  # a worker that made progress is replaced without delay
        assert "weights of an earlier worker are not used: V2: it holds another checkpoint's weights" in server.log_text()


def test_prompts_are_not_computed_again(model):
    """The KV cache in device memory outlives its worker, and so does the index of prefixes."""
    text = "Say the words of this long prompt again and again, please. " * 12
    streams_of = [{"temperature": 0, "max_tokens": TOKENS, "logit_bias": {str(token): 100}} for token in WORDS.values()]
    with ShoalServer(*OPTIONS, "--pipeline-cache", "none", model=model) as server:
        server.wait_ready(COMPILING_S)
        streams = [server.open_stream(f"{number} {text}", **fields) for number, fields in enumerate(streams_of)]
        first = [stream.wait_token()["choices"][0]["delta"]["content"] for stream in streams]
        before = server.metrics()["shoal_worker_prompt_tokens_total"]
        kill_workers(server)
        texts = read_all(streams)
        assert [begun + rest for begun, (rest, _) in zip(first, texts)] == [word * TOKENS for word in WORDS]
        server.wait_idle()
        rows = server.metrics()["shoal_worker_prompt_tokens_total"] - before
        prompt_tokens = server.chat(f"0 {text}", max_tokens=1, cache_prompt=False).json["usage"]["prompt_tokens"]
        assert prompt_tokens > 100 and rows <= len(WORDS) * 2 * 16
        kill_workers(server)
        wait_until(lambda: len(origins(server)) == 3, "the next worker")
        server.wait_ready(COMPILING_S)
        again = server.chat(f"0 {text}", max_tokens=1).json["usage"]
        assert again["prompt_tokens_details"]["cached_tokens"] >= prompt_tokens - 16 - 1
        assert len(re.findall(r"KV cache: \d+ blocks of an earlier worker taken over; 0 damaged", server.log_text())) == 2
