"""A planned restart with --state-dir keeps the prefix cache: the next server finds the same prefixes, per tenant, and gives the same answers. A
file that is damaged, foreign or does not fit leaves an empty cache and one line in the log. The same for features of images."""

import os
import random
import re
import resource
import signal

import pytest

import demo_model
from shoal_server import COMPILING_S, MODEL, ROOT, ShoalServer, wait_until
from vision_folder import data_uri, image_part, make_folder, png, text_part

pytestmark = pytest.mark.longest

CHECKPOINTS = ROOT / "build/checkpoints"
MODELS = {"SmolLM2": MODEL, "sliding windows": CHECKPOINTS / "gemma3-f32.gguf", "short convolutions": CHECKPOINTS / "lfm2-f32.gguf",
          "state space mixers": CHECKPOINTS / "mamba2-f32.gguf"}
TEXT = "river stone winter light engine paper garden metal story " * 4
KEYS = [{"Authorization": f"Bearer {key}"} for key in ("sk-first", "sk-second")]
REFUSED = "the saved one is not used"


@pytest.fixture
def start(tmp_path):
    """A server with the state directory of the test, after the one before has ended."""
    running = []

    def begin(*options, model=demo_model.FOLDER, stop=True):
        if running and stop:
            running[-1].__exit__(None, None, None)
        running.append(ShoalServer("--state-dir", str(tmp_path / "state"), *options, model=model))
        running[-1].__enter__()
        running[-1].wait_ready(COMPILING_S)
        return running[-1]

    yield begin
    running[-1].__exit__(None, None, None)


def ask(server, headers=None, text=TEXT, **fields):
    reply = server.chat(text, headers, max_tokens=24, temperature=0.8, seed=3, ignore_eos=True, **fields)
    assert reply.status == 200, reply.body
    return reply.json


def cached(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


def end(server):
    server.process.terminate()
    assert server.wait_exit() == 0
    return server.log_text()


def saved_blocks(log):
    return [int(count) for count in re.findall(r"prefix cache: (\d+) blocks saved", log)]


@pytest.mark.parametrize("name", MODELS)
def test_the_next_server_finds_the_prefix(start, tmp_path, name):
    server = start(model=MODELS[name])
    first = ask(server)
    assert cached(first) == 0
    assert saved_blocks(end(server))[0] > 0
    file, = tmp_path.glob("state/prefix-cache-*")
    assert file.stat().st_mode & 0o777 == 0o600
    for _ in range(2):  # what was loaded is saved again
        server = start(model=MODELS[name], stop=False)
        again = ask(server)
        assert cached(again) >= first["usage"]["prompt_tokens"] // 16 * 16 - 16 > 0
        assert again["choices"] == first["choices"]
        assert "blocks of an earlier server loaded" in server.log_text()
        end(server)
    server = start(model=MODELS[name], stop=False)
    assert ask(server, cache_prompt=False)["choices"] == first["choices"]


VULKAN = ("--device", "vulkan", "--max-sequences", "4", "--step-tokens", "64", "--kv-cache-bytes", "16M", "--worker-timeout",
          str(COMPILING_S))
VULKAN_MODELS = {
    "recurrent states": ("qwen3_5-f32.gguf", ()),
    "states alone": ("mamba2-f32.gguf", ()),
    "quantized after 40 tokens": ("llama-f32.gguf", ("--kv-bits", "4", "--quantized-kv-start", "40")),
}


def tokens_of(body):
    return [(entry["token"], pytest.approx(entry["logprob"], abs=0.01)) for entry in body["choices"][0]["logprobs"]["content"]]


@pytest.mark.long
@pytest.mark.parametrize("name", VULKAN_MODELS)
def test_the_next_server_finds_the_prefix_on_a_device(start, tmp_path, name):
    """Blocks are copied from the device and to it. Wrong bytes would change the log-probabilities."""
    file, options = VULKAN_MODELS[name]
    options = (*VULKAN, *options, "--pipeline-cache", str(tmp_path / "pipelines"))
    first = ask(start(*options, model=CHECKPOINTS / file), logprobs=True)
    server = start(*options, model=CHECKPOINTS / file)
    pid = server.worker_pid()
    for life in range(2):  # what was loaded outlives the worker too
        again = ask(server, logprobs=True)
        assert cached(again) >= first["usage"]["prompt_tokens"] // 16 * 16 - 16 > 0, life
        assert tokens_of(again) == [(entry["token"], entry["logprob"]) for entry in first["choices"][0]["logprobs"]["content"]]
        if life == 0:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
            server.wait_ready(COMPILING_S)
    assert "blocks of an earlier server loaded" in server.log_text()


def test_tenants_find_their_own(start):
    options = ("--api-key", "sk-first", "--api-key", "sk-second")
    first = ask(start(*options), KEYS[0])
    server = start(*options)
    assert cached(ask(server, KEYS[1])) == 0
    again = ask(server, KEYS[0])
    assert cached(again) > 0 and again["choices"] == first["choices"]


def test_a_worker_that_dies_and_a_reset(start, tmp_path):
    first = ask(start())
    server = start()
    pid = server.worker_pid()
    os.kill(pid, signal.SIGKILL)  # loaded blocks outlive a worker like computed ones
    wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
    server.wait_ready()
    again = ask(server)
    assert cached(again) > 0 and again["choices"] == first["choices"]
    assert server.request("POST", "/v1/cache/reset").status == 200
    assert not list(tmp_path.glob("state/prefix-cache-?"))
    server = start()
    assert cached(ask(server)) == 0


def test_a_killed_server_leaves_the_older_file(start, tmp_path):
    first = ask(start())
    server = start()
    ask(server, text="Another text. " + TEXT)
    content = (tmp_path / "state/prefix-cache-0").read_bytes()
    server.process.kill()
    server.process.wait()
    assert (tmp_path / "state/prefix-cache-0").read_bytes() == content
    server = start(stop=False)
    assert cached(ask(server)) > 0 and ask(server)["choices"] == first["choices"]
    end(server)
    assert sorted(path.name for path in (tmp_path / "state").iterdir() if path.name.startswith("prefix")) == ["prefix-cache-0"]
    start(stop=False)


def flip(content, at):
    content[at] ^= 0x10


DAMAGES = {
    "the head": lambda content: flip(content, 20),
    "an entry": lambda content: flip(content, 88 + 9),
    "a block": lambda content: flip(content, len(content) // 2),
    "the end": lambda content: flip(content, len(content) - 95),
    "cut": lambda content: content.__delitem__(slice(len(content) // 2, None)),
    "empty": lambda content: content.clear(),
    "not a cache": lambda content: content.__setitem__(slice(None), b"\x7fELF" * 5000),
}


def test_a_damaged_file_is_an_empty_cache(start, tmp_path):
    model = MODELS["short convolutions"]
    server = start(model=model)
    first = ask(server)
    end(server)
    file = tmp_path / "state/prefix-cache-0"
    intact = file.read_bytes()
    for name, damage in DAMAGES.items():
        content = bytearray(intact)
        damage(content)
        file.write_bytes(content)
        server = start(model=model, stop=False)
        again = ask(server)
        assert (cached(again), again["choices"]) == (0, first["choices"]), name
        log = end(server)
        assert log.count(REFUSED) == 1 and "blocks of an earlier server" not in log, name
    server = start(model=model, stop=False)  # saved by the one before
    assert cached(ask(server)) > 0


def test_other_settings_and_places_are_refused(start, tmp_path):
    model = MODELS["sliding windows"]
    first = ask(start(model=model))
    server = start("--kv-cache-type", "f32", model=model)  # keeps its own file instead
    assert cached(ask(server)) == 0 and REFUSED in server.log_text()
    log = end(server)
    file = tmp_path / "state/prefix-cache-0"
    size = file.stat().st_size
    server = start("--kv-cache-type", "f32", "--prefix-cache-bytes", str(size - 1), model=model, stop=False)
    assert cached(ask(server)) == 0
    log = end(server)
    assert "larger than --prefix-cache-bytes" in log and 0 < saved_blocks(log)[0]
    assert file.stat().st_size < size
    file.unlink()
    file.symlink_to("/dev/zero")
    server = start(model=model, stop=False)
    again = ask(server)
    assert (cached(again), again["choices"]) == (0, first["choices"])
    assert "prefix-cache-0 in --state-dir is not used" in server.log_text()
    end(server)
    assert file.is_file() and not file.is_symlink()
    start("--prefix-cache-bytes", "0", model=model, stop=False)


def test_a_full_disk_keeps_the_older_file(start, tmp_path):
    first = ask(start())
    server = start()
    content = (tmp_path / "state/prefix-cache-0").read_bytes()
    most = 128 << 10  # more than the log, which has the limit too
    assert len(content) > most
    resource.prlimit(server.worker_pid(), resource.RLIMIT_FSIZE, (most, most))
    log = end(server)
    assert "prefix cache: it cannot be saved: File too large" in log
    assert (tmp_path / "state/prefix-cache-0").read_bytes() == content
    server = start(stop=False)
    assert cached(ask(server)) > 0 and ask(server)["choices"] == first["choices"]


# --- images ---------------------------------------------------------------------------------------------------------------

PATCH_ROWS = 128  # of an image of 64 x 32 pixels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


def draw_images(count):
    return [image_part(data_uri(png(64, 32, tuple(random.randrange(256) for _ in range(3))))) for _ in range(count)]


def look(server, images, headers=None, **fields):
    """The reply, and how many patch rows were encoded for it."""
    before = server.metrics()["shoal_patch_rows_total"]
    reply = ask(server, headers, [*images, text_part("what are these? " + TEXT)], **fields)
    return reply, server.metrics()["shoal_patch_rows_total"] - before


@pytest.mark.parametrize("options", [(), pytest.param((*VULKAN[:2], "--step-tokens", "512", *VULKAN[-2:], "--kv-cache-bytes", "16M"),
                                                      marks=pytest.mark.long)], ids=["cpu", "vulkan"])
def test_the_next_server_finds_images(start, folder, options):
    """A prompt that goes on after the same images finds their KV blocks; any other prompt finds their features."""
    images = draw_images(3)
    server = start(*options, model=folder)
    first, rows = look(server, images)
    turned, no_rows = look(server, images[::-1], cache_prompt=False)
    assert (rows, no_rows) == (3 * PATCH_ROWS, 0)
    log = end(server)
    assert "features of images: 3 saved with it; 0 left out" in log
    server = start(*options, model=folder, stop=False)
    again, rows = look(server, images)
    assert rows == 0 and cached(again) >= first["usage"]["prompt_tokens"] // 16 * 16 - 16 > 0
    assert again["choices"] == first["choices"]
    for life in range(2):  # what was loaded outlives the worker too
        again, rows = look(server, images[::-1], cache_prompt=False)
        assert (rows, again["choices"]) == (0, turned["choices"]), life
        if life == 0:
            pid = server.worker_pid()
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
            server.wait_ready(COMPILING_S)
    assert "features of images: 3 of an earlier server loaded; 0 had no room" in server.log_text()
    assert look(server, draw_images(1))[1] == PATCH_ROWS


def test_images_of_tenants_and_bounds(start, folder, tmp_path):
    options = ("--api-key", "sk-first", "--api-key", "sk-second")
    images = draw_images(4)

    def answers(server):
        replies = [look(server, [image], KEYS[0], cache_prompt=False) for image in images]
        return [reply["choices"] for reply, _ in replies], [rows for _, rows in replies]

    first, _ = answers(start(*options, model=folder))
    server = start(*options, model=folder)
    assert look(server, images[:1], KEYS[1], cache_prompt=False)[1] == PATCH_ROWS
    assert answers(server) == (first, [0] * 4)
    end(server)
    file = tmp_path / "state/prefix-cache-0"
    most = file.stat().st_size * 2 // 3
    options = (*options, "--prefix-cache-bytes", str(most))
    server = start(*options, model=folder, stop=False)
    answers(server)
    saved, left = map(int, re.search(r"features of images: (\d+) saved with it; (\d+) left out", end(server)).groups())
    assert saved + left == 4 and 0 < saved < 4 and file.stat().st_size <= most
    server = start(*options, model=folder, stop=False)
    assert answers(server) == (first, [PATCH_ROWS] * left + [0] * saved)  # the newest are there


def test_damaged_features_are_not_used(start, folder, tmp_path):
    images = draw_images(2)
    server = start(model=folder)
    first, _ = look(server, images, cache_prompt=False)
    end(server)
    file = tmp_path / "state/prefix-cache-0"
    intact = file.read_bytes()
    assert len(intact) > 2 * 8 * 4 * 100
    for _ in range(6):
        content = bytearray(intact)
        flip(content, random.randrange(96, len(content)))
        file.write_bytes(content)
        server = start(model=folder, stop=False)
        again, rows = look(server, images, cache_prompt=False)
        assert (rows, again["choices"]) == (2 * PATCH_ROWS, first["choices"])
        assert end(server).count(REFUSED) == 1
    file.write_bytes(intact)
    server = start(model=folder, stop=False)
    assert look(server, images, cache_prompt=False)[1] == 0
    assert server.request("POST", "/v1/cache/reset").status == 200
    assert "features of images: 0 saved with it" in end(server)
    assert look(start(model=folder, stop=False), images, cache_prompt=False)[1] == 2 * PATCH_ROWS
