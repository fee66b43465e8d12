"""Drafted tokens change no answer: a request with any fields, on a server with any settings, gets the same tokens, text, log-probabilities,
usage and finish reason with --speculation auto, with and without a draft model, as with off (on a Vulkan device with --batch-invariant and --step-depth 1); every other group of
requests also while a worker is killed.

Requests and settings are those of exact_replay_test.py (replay_draws.py). A failure prints the seed and the scene; again:

    SHOAL_DRAFT_SEED=7 SHOAL_DRAFT_SCENE=12      this scene only (of the short or the long form: SHOAL_FAULT_LENGTH)
    SHOAL_DRAFT_DRAWS=500                        so many requests
"""

import json
import os
import random

import pytest

import exact_replay_test
from conftest import LONG
import replay_draws
from exact_replay_test import Killer, cut_at_errors, difference, run_calls
from shoal_server import COMPILING_S, ShoalServer

pytestmark = pytest.mark.longest
SEED = int(os.environ.get("SHOAL_DRAFT_SEED", "20261124"))
ONE_SCENE = os.environ.get("SHOAL_DRAFT_SCENE")
SCENES_PER_SERVER = 12 if LONG else 6


def without(options, *names):
    """Pairs of options except those of these names."""
    kept, skip = [], False
    for word in options:
        if skip:
            skip = False
        elif word in names:
            skip = True
        else:
            kept.append(word)
    return kept


def draw_requests(rng, model):
    requests = [replay_draws.draw_request(rng, model) for _ in range(rng.choice([1, 1, 3, 6]))]
    return [(path, {name: value for name, value in body.items() if name not in ("speculation", "previous_response_id")})
            for path, body in requests]


def compare(number, plain, drafting):
    """Number of requests, and of those that were answered."""
    rng = random.Random(f"{SEED}:{number}")
    model = plain.drawn_model
    requests = draw_requests(rng, model)
    calm, taken_s = run_calls(plain, requests)
    most_events = max(len(reply) if isinstance(reply, list) else 0 for _, reply in calm)
    killer = Killer(rng, drafting, taken_s, most_events) if number % 2 else None
    drafted, _ = run_calls(drafting, requests, killer)
    drafting.wait_ready(COMPILING_S)
    for request, one, other in zip(requests, calm, drafted):
        changed = difference(*cut_at_errors(one, other), 0)
        assert not changed, (f"{request[0]} differs with drafts{' and a kill' if killer else ''}; again: SHOAL_DRAFT_SEED={SEED} "
                             f"SHOAL_DRAFT_SCENE={number}, settings {' '.join(drafting.options)}, body {json.dumps(request[1])[:3000]}\n{changed}")
    return len(requests), sum(status == 200 for status, _ in calm)


def compare_many(device, draws, say):
    """Compares so many requests; the settings are drawn for each server."""
    exact = ["--batch-invariant", "--step-depth", "1"] if device != "cpu" else []
    counts = {"requests": 0, "answered": 0, "drafted": 0, "accepted": 0, "deaths": 0, "preemptions": 0}
    scene = int(ONE_SCENE) // SCENES_PER_SERVER * SCENES_PER_SERVER if ONE_SCENE else 0
    while counts["requests"] < draws:
        model, options = replay_draws.draw_settings(random.Random(f"{SEED}:settings:{scene // SCENES_PER_SERVER}"), device)
        options = [one for one in without(options, "--speculation", "--step-depth", "--draft-model") if one != "--batch-invariant"] + exact
        drafting_options = options + ["--speculation", "auto"]
        if scene // SCENES_PER_SERVER % 2:
            drafting_options = replay_draws.with_draft_model(random.Random(f"{SEED}:draft model:{scene}"), model, drafting_options)
        with ShoalServer(*options, "--speculation", "off", model=model.path) as plain, \
                ShoalServer(*drafting_options, model=model.path) as drafting:
            plain.drawn_model = model
            plain.wait_ready(COMPILING_S)
            drafting.wait_ready(COMPILING_S)
            for number in [int(ONE_SCENE)] if ONE_SCENE else range(scene, scene + SCENES_PER_SERVER):
                asked, answered = compare(number, plain, drafting)
                counts["requests"] += asked
                counts["answered"] += answered
            drafting.wait_idle()
            values = drafting.metrics()
            counts["drafted"] += int(values["vllm:spec_decode_num_draft_tokens_total"])
            counts["accepted"] += int(values["vllm:spec_decode_num_accepted_tokens_total"])
            counts["deaths"] += int(values["shoal_worker_restarts_total"])
            counts["preemptions"] += int(values["vllm:num_preemptions_total"])
            assert plain.metrics()["vllm:spec_decode_num_draft_tokens_total"] == 0
        scene += SCENES_PER_SERVER
        if ONE_SCENE:
            return
    say(f"seed {SEED}, {device}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    assert counts["answered"] > 0.8 * counts["requests"]
    assert counts["accepted"] > counts["requests"] / 4
    assert counts["drafted"] > counts["accepted"]
    assert exact_replay_test.CHANGING >= {"draft_n", "draft_n_accepted"}


def test_answers_are_those_of_plain_decoding(long_run, say):
    compare_many("cpu", int(os.environ.get("SHOAL_DRAFT_DRAWS", 500 if long_run else 24)), say)


@pytest.mark.long
def test_answers_on_a_device_are_those_of_plain_decoding(long_run, say):
    compare_many("vulkan", int(os.environ.get("SHOAL_DRAFT_DRAWS", 60 if long_run else 12)), say)
