"""Recurrent state when sequences restart from their first token: preemption in a cache too small for all streams, overlapping steps, and a
worker that dies twice. Every answer equals the one that the chat gets alone."""

import contextlib
import os
import signal

import pytest

from crowd import Crowd, chat_body, run_once
from shoal_server import ROOT, ShoalServer

# Delta nets beside attention; mixers beside attention in every layer; layers with one part each; no attention, whose blocks are so small
# that only longer answers fill them: bytes of a slot of state, and tokens of an answer.
MODELS = {"qwen3_5": (23040, 200), "falcon_h1": (23040, 200), "nemotron_h": (23040, 200), "mamba2": (44928, 480)}
CHATS = 20
NEVER_ENDS = {"257": -100, "258": -100, "259": -100}  # bans the end tokens, so that answers grow until blocks run out
DEATHS = (30, 90)  # kills after this many calls of look()
SLOTS = 24  # of the cache's bytes: half of it is twelve slots of state, the other half blocks for some 60 to 320 positions of each


@pytest.mark.parametrize("name", MODELS)
def test_preempted_and_replayed_streams_go_on_as_if_alone(name, say):
    slot_bytes, tokens = MODELS[name]
    model = ROOT / f"build/checkpoints/{name}-f32.gguf"
    bodies = [chat_body(number, tokens) | {"logit_bias": NEVER_ENDS} for number in range(CHATS)]
    with ShoalServer(model=model) as server:
        server.wait_ready()
        alone = {chat.number: chat.answer() for chat in run_once(server.port, bodies, 1)}
        assert server.metrics()["shoal_state_bytes"] > 0
    assert all(status == 200 for status, _ in alone.values())
    with ShoalServer("--max-sequences", "12", "--step-depth", "2", "--step-tokens", "64",
                     "--kv-cache-bytes", str(SLOTS * slot_bytes), model=model) as server:
        server.wait_ready()
        looks = 0
        deaths = 0

        def look():
            nonlocal looks, deaths
            looks += 1
            pid = server.worker_pid()
            if deaths < len(DEATHS) and looks >= DEATHS[deaths] and pid and server.get("/ready").status == 200:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    deaths += 1

        crowd = Crowd(server.port, bodies, CHATS)
        chats = crowd.run(lambda: crowd.begun < CHATS or deaths < len(DEATHS), look)
        values = server.metrics()
    differing = [chat.number for chat in chats if chat.answer() != alone[chat.number]]
    assert not differing
    preemptions = values["vllm:num_preemptions_total"]
    say(f"{values['shoal_worker_restarts_total']:.0f} deaths, {preemptions:.0f} preemptions, {looks} looks")
    assert values["shoal_worker_restarts_total"] >= 1
    assert preemptions > 0
