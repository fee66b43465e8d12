"""The KV cache outlives a worker that is killed: streams go on without computing their prompts again, the prefix cache is warm, and every
answer is the one that the chat gets without a death. Damaged records of the ledger change no answer.
"""

import glob
import os
import random as random_module
import re
import shutil
import signal
import time

import pytest

import demo_model
from crowd import Crowd, run_once
from shoal_server import BUILD, ROOT, ShoalServer, wait_until

STREAMS = 8
BLOCK = 16
CHECKPOINT_STRIDE = 1024  # SEQUENCE_PREFIX_STRIDE
CHECKPOINTS = ROOT / "build/checkpoints"
WORDS = "river stone winter light engine paper garden metal story number glass music harbor letter cloud".split()
TINY_ENDS = {"257": -100, "258": -100, "259": -100}
KILL_AT_TOKENS = 20  # of every stream
ATTEMPTS = 20
HEAD_BYTES = 4096  # of the vault, before the records
RECORD_BYTES = 128

# name: (model, options, words of a prompt, tokens of an answer, end tokens)
SETTINGS = {
    "SmolLM2": (None, (), 250, 160, {"2": -100}),
    "SmolLM2 with quantized keys and values": (None, ("--kv-bits", "4", "--kv-quant-scheme", "turboquant"), 250, 160, {"2": -100}),
    "quantized after 100 tokens": (demo_model.FOLDER, ("--kv-bits", "8", "--quantized-kv-start", "100"), 40, 200, {"2": -100}),
    "sliding windows": (CHECKPOINTS / "gemma3-f32.gguf", (), 25, 120, TINY_ENDS),
    "delta nets": (CHECKPOINTS / "qwen3_5-f32.gguf", (), 25, 120, TINY_ENDS),
    "state space mixers alone": (CHECKPOINTS / "mamba2-f32.gguf", (), 25, 120, TINY_ENDS),
    "short convolutions": (CHECKPOINTS / "lfm2-f32.gguf", (), 25, 120, TINY_ENDS),
    "steps that overlap": (CHECKPOINTS / "qwen3_5-f32.gguf", ("--step-depth", "2"), 25, 120, TINY_ENDS),
}


def body(number, words, max_tokens, ends):
    text = " ".join(WORDS[(number * 7 + at * at + at // 11) % len(WORDS)] for at in range(words))
    return {"messages": [{"role": "user", "content": f"{number}: {text}"}], "seed": number, "temperature": 0.9 * (number % 2),
            "max_tokens": max_tokens, "stream": True, "stream_options": {"include_usage": True}, "logit_bias": ends}


def tokens_of(chat):
    return sum(data.count(b'"content"') for _, data in chat.arrivals)


def vaults(pid):
    """The worker's descriptors of its KV vault."""
    return [path for path in glob.glob(f"/proc/{pid}/fd/*") if "memfd:shoal-kv" in os.readlink(path)]


def kill(server):
    pid = server.worker_pid()
    os.kill(pid, signal.SIGKILL)
    return pid


def wait_successor(server, pid):
    wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
    server.wait_ready()


def rows_computed(server):
    return server.metrics()["shoal_worker_prompt_tokens_total"]


def answers_of(chats):
    answers = {chat.number: chat.answer() for chat in chats}
    assert all(status == 200 for status, _ in answers.values()), answers
    return answers


def taken_over(server):
    """[(blocks, damaged, redundant)] of each start after the first."""
    return [tuple(map(int, found)) for found in
            re.findall(r"KV cache: (\d+) blocks of an earlier worker taken over; (\d+) damaged records, (\d+) redundant",
                       server.log_text())]


def longest_pause(chats, from_s):
    """The longest time without bytes in any stream after from_s."""
    pauses = []
    for chat in chats:
        times = [from_s] + [at for at, _ in chat.arrivals if at > from_s]
        pauses += [after - before for before, after in zip(times, times[1:])]
    return max(pauses)


def run_with_a_death(server, bodies, tokens, victim=kill):
    """Kills the worker once every stream has some tokens. Returns the chats, prompt rows computed after the kill, the pause. Tries again if
    this process got no CPU time before the answers ended."""
    for _ in range(ATTEMPTS):
        found = try_a_death(server, bodies, tokens, victim)
        if found:
            return found
    raise AssertionError("the answers ended before the kill")


def try_a_death(server, bodies, tokens, victim):
    crowd = Crowd(server.port, bodies, len(bodies))
    killed = []

    def look():
        if not killed and len(crowd.live) == len(bodies) and all(tokens_of(chat) >= tokens for chat in crowd.live):
            before = rows_computed(server)
            killed.append((before, victim(server), time.monotonic()))

    chats = crowd.run(lambda: crowd.begun < len(bodies), look)
    if not killed:
        return None
    wait_successor(server, killed[0][1])
    return chats, rows_computed(server) - killed[0][0], longest_pause(chats, killed[0][2])


LONG = {"SmolLM2", "SmolLM2 with quantized keys and values"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in SETTINGS])
def test_streams_go_on_without_their_prompts(name, say):
    model, options, words, max_tokens, ends = SETTINGS[name]
    bodies = [body(number, words, max_tokens, ends) for number in range(STREAMS)]
    with ShoalServer("--max-sequences", str(STREAMS), *options, model=model) as server:
        server.wait_ready()
        undisturbed = answers_of(run_once(server.port, [one | {"cache_prompt": False} for one in bodies], STREAMS))
        chats, rows, pause_s = run_with_a_death(server, bodies, KILL_AT_TOKENS)
        server.wait_idle()
        blocks = taken_over(server)
        prompt_tokens = sum(answer[1][2]["prompt_tokens"] for answer in undisturbed.values())
        say(f"{name}: {prompt_tokens} prompt tokens; {rows:.0f} rows computed again; {blocks[-1][0]} blocks taken over; longest "
            f"pause {pause_s * 1000:.0f} ms")
        assert answers_of(chats) == undisturbed
        assert server.metrics()["shoal_worker_restarts_total"] == 1
        assert blocks[0][0] > prompt_tokens // BLOCK // 2 and blocks[0][1] == 0
        # A stream computes at most the block that it was filling and the one that was not yet committed.
        assert rows <= STREAMS * 2 * BLOCK


def kill_the_second(server):
    pid = server.get("/v1/status").json["workers"][1]["pid"]
    os.kill(pid, signal.SIGKILL)
    return pid


def test_streams_return_to_the_worker_that_has_their_tokens(say):
    """The other worker has room, and would compute all prompts again."""
    bodies = [body(number, 150, 200, {"2": -100}) for number in range(4)]
    with ShoalServer("--workers", "2", "--max-sequences", str(STREAMS), model=demo_model.FOLDER) as server:
        wait_until(lambda: all(worker["state"] == "ready" for worker in server.get("/v1/status").json["workers"]), "both workers")
        undisturbed = answers_of(run_once(server.port, [one | {"cache_prompt": False} for one in bodies], len(bodies)))
        chats, rows, pause_s = run_with_a_death(server, bodies, KILL_AT_TOKENS, kill_the_second)
        server.wait_idle()
        replays = server.metrics()["shoal_requests_replayed_total"]
        say(f"one of two workers: {replays:.0f} streams resumed, {rows:.0f} rows computed again; longest pause {pause_s * 1000:.0f} ms")
        assert answers_of(chats) == undisturbed
        assert replays >= 1 and rows <= replays * 2 * BLOCK


def whole_body():
    """A chat that is not streamed."""
    return {key: value for key, value in body(1, 25, 40, TINY_ENDS).items() if not key.startswith("stream")}


def test_the_prefix_cache_is_warm():
    one = whole_body()
    with ShoalServer(model=SETTINGS["delta nets"][0]) as server:
        server.wait_ready()
        first = server.request("POST", "/v1/chat/completions", one).json
        wait_successor(server, kill(server))
        wait_until(lambda: server.get("/v1/cache/stats").json["prefix_cache"]["blocks_cached"] > 0, "the figure")
        again = server.request("POST", "/v1/chat/completions", one).json
        assert again["choices"] == first["choices"]
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"] // BLOCK * BLOCK - BLOCK
        assert server.request("POST", "/v1/cache/reset").status == 200
        wait_until(lambda: server.get("/v1/cache/stats").json["prefix_cache"]["blocks_cached"] == 0, "the reset")
        wait_successor(server, kill(server))
        cold = server.request("POST", "/v1/chat/completions", one).json
        assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert cold["choices"] == first["choices"]


def cached_tokens(server, one):
    return server.request("POST", "/v1/chat/completions", one).json["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_reset_reaches_the_worker_that_follows(tmp_path):
    """The worker dies before it has handled the reset, or there is none when the reset is asked for."""
    one = whole_body()
    for name in ("shoal", "shoal-worker", "shoal-media"):
        shutil.copy(BUILD / name, tmp_path / name)
    with ShoalServer("--workers", "1", model=SETTINGS["delta nets"][0], programs=tmp_path) as server:
        server.wait_ready()
        assert cached_tokens(server, one) == 0 and cached_tokens(server, one) > 0
        pid = server.worker_pid()
        os.kill(pid, signal.SIGSTOP)
        assert server.request("POST", "/v1/cache/reset").json["workers"] == 1
        os.kill(pid, signal.SIGKILL)
        wait_successor(server, pid)
        assert cached_tokens(server, one) == 0 and cached_tokens(server, one) > 0

        (tmp_path / "shoal-worker").rename(tmp_path / "away")
        pid = kill(server)
        wait_until(lambda: "cannot start" in server.log_text(), "a start that fails")
        assert server.request("POST", "/v1/cache/reset").json["workers"] == 1
        (tmp_path / "away").rename(tmp_path / "shoal-worker")
        wait_successor(server, pid)
        assert cached_tokens(server, one) == 0 and cached_tokens(server, one) > 0

        # A restart without a reset in between drops nothing.
        wait_successor(server, kill(server))
        assert cached_tokens(server, one) > 0
        assert len(taken_over(server)) == 3 and all(blocks > 0 for blocks, _, _ in taken_over(server))


def test_the_switch():
    one = whole_body()
    with ShoalServer("--kv-survives", "0", model=SETTINGS["delta nets"][0]) as server:
        server.wait_ready()
        assert server.request("POST", "/v1/chat/completions", one).status == 200
        assert not vaults(server.worker_pid())
        wait_successor(server, kill(server))
        again = server.request("POST", "/v1/chat/completions", one).json
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert not taken_over(server)


def spoil(pid, seed):
    """Flips a bit in each of many places of the vault's head and records, of a worker that lives and writes there."""
    random = random_module.Random(seed)
    path, = vaults(pid)
    with open(path, "r+b", buffering=0) as vault:
        for _ in range(400):
            at = random.randrange(HEAD_BYTES, HEAD_BYTES + 200 * RECORD_BYTES)
            vault.seek(at)
            byte = vault.read(1)[0]
            vault.seek(at)
            vault.write(bytes([byte ^ 1 << random.randrange(8)]))


def test_damaged_records_change_no_answer(say):
    model, _, words, max_tokens, ends = SETTINGS["sliding windows"]
    bodies = [body(number, words, max_tokens, ends) for number in range(STREAMS)]
    with ShoalServer("--max-sequences", str(STREAMS), model=model) as server:
        server.wait_ready()
        undisturbed = answers_of(run_once(server.port, [one | {"cache_prompt": False} for one in bodies], STREAMS))
        for seed in range(6):
            pids = []

            def look():
                pid = server.worker_pid()
                if len(pids) < 4 and pid and pid not in pids and server.get("/ready").status == 200:
                    spoil(pid, seed * 100 + len(pids))
                    pids.append(pid)
                    os.kill(pid, signal.SIGKILL)

            crowd = Crowd(server.port, bodies, STREAMS)
            chats = crowd.run(lambda: crowd.begun < STREAMS or len(pids) < 4, look, 0.005)
            assert all(chat.answer() == undisturbed[chat.number] for chat in chats)
            wait_successor(server, pids[-1])
        server.wait_idle()
        found = taken_over(server)
        say(f"{len(found)} workers found {sum(damaged for _, damaged, _ in found)} damaged records and took over "
            f"{sum(blocks for blocks, _, _ in found)} blocks")
        assert sum(damaged for _, damaged, _ in found) > 0 and sum(blocks for blocks, _, _ in found) > 0
        # A damaged head is a vault of nothing.
        with open(vaults(server.worker_pid())[0], "r+b", buffering=0) as vault:
            vault.write(b"?")
        wait_successor(server, kill(server))
        assert answers_of(run_once(server.port, bodies, STREAMS)) == undisturbed
        assert "that of an earlier worker is not used: H1: its head is damaged" in server.log_text()


def test_a_storm_of_kills(long_run, say):
    """Kills during prefill too: what earlier workers computed of a prompt is not computed again."""
    model, _, _, _, ends = SETTINGS["short convolutions"]
    bodies = [body(number, 25, 150, ends) for number in range(STREAMS * 4)]
    with ShoalServer("--max-sequences", str(STREAMS), "--step-tokens", "64", model=model) as server:
        server.wait_ready()
        undisturbed = answers_of(run_once(server.port, [one | {"cache_prompt": False} for one in bodies], STREAMS))
        last, pids = 0.0, []
        deaths = 40 if long_run else 10

        def look():
            nonlocal last
            pid = server.worker_pid()
            if len(pids) < deaths and time.monotonic() > last + 0.1 and pid and pid not in pids:
                if server.get("/ready").status == 200:
                    pids.append(pid)
                    last = time.monotonic()
                    os.kill(pid, signal.SIGKILL)

        crowd = Crowd(server.port, bodies, STREAMS)
        chats = crowd.run(lambda: crowd.begun < len(bodies) or len(pids) < deaths, look, 0.005)
        answers = [(chat.number, chat.answer()) for chat in chats]
        say(f"{len(pids)} deaths, {len(answers)} answers")
        assert all(answer == undisturbed[number] for number, answer in answers)
        server.wait_idle()
