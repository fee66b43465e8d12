"""Answers do not depend on deaths of workers: a request with any fields, on a server with any settings, gets the same tokens, text,
log-probabilities, usage and finish reason as without a SIGKILL.

Requests and settings are drawn at random (replay_draws.py). One scene is a group of requests that run at once, first undisturbed, then with
kills at a random time or after a random number of streamed events. A failure prints how to run its scene again:

    SHOAL_REPLAY_SEED=7 SHOAL_REPLAY_SCENE=12    this scene only, on a fresh server
    SHOAL_REPLAY_DRAWS=300                       so many requests

On Vulkan numbers depend within rounding on the rows of a step, so requests there have a bias that decides every token, and log-probabilities
may differ a little.
"""

import collections
import http.client
import json
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

import replay_draws
from shoal_server import BUILD, COMPILING_S, PATIENCE_S, ROOT, ShoalServer

pytestmark = pytest.mark.longest
SEED = int(os.environ.get("SHOAL_REPLAY_SEED", "20261123"))
ONE_SCENE = os.environ.get("SHOAL_REPLAY_SCENE")
SCENES_PER_SERVER = 8
PATHS = {"/v1/chat/completions": "ChatRequest", "/v1/completions": "CompletionRequest", "/v1/messages": "MessagesRequest",
         "/v1/responses": "ResponsesRequest"}

# Members that differ between two runs of the same request: names, times, and what caches had.
CHANGING = {"id", "created", "created_at", "completed_at", "timings", "item_id", "call_id", "response_id", "request_id", "obfuscation",
            "prompt_tokens_details", "input_tokens_details", "cache_read_input_tokens", "cache_creation_input_tokens",
            "cache_read_input_images", "prompt_progress", "draft_n", "draft_n_accepted"}


def comparable(value):
    """The value without what may differ between runs."""
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: comparable(one) for name, one in value.items() if name not in CHANGING}
    if "input_tokens" in kept and "cache_read_input_tokens" in value:  # Anthropic counts cached tokens apart
        kept["input_tokens"] += value["cache_read_input_tokens"] + value["cache_creation_input_tokens"]
    return kept


class Call(threading.Thread):
    """One request and its reply. events: the number of streamed events so far."""

    def __init__(self, server, path, body):
        super().__init__()
        self.server = server
        self.path = path
        self.body = body
        self.events = 0
        self.reply = None
        self.failure = None

    def run(self):
        try:
            self.reply = self.converse()
        except Exception as failure:  # told by answer()
            self.failure = failure

    def converse(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * PATIENCE_S)
        connection.request("POST", self.path, json.dumps(self.body))
        reply = connection.getresponse()
        if "event-stream" in reply.getheader("content-type", ""):
            lines = []
            for line in reply:
                line = line.decode().rstrip("\n")
                if line.startswith("data: "):
                    lines.append(line[len("data: "):])
                    self.events += 1
            connection.close()
            return reply.status, lines
        whole = json.loads(reply.read())
        connection.close()
        while whole.get("background") and whole["status"] in ("queued", "in_progress"):
            time.sleep(0.005)
            whole = self.server.get(f"/v1/responses/{whole['id']}").json
        return reply.status, whole

    def answer(self):
        """(status, comparable reply)."""
        if self.failure:
            raise self.failure
        status, reply = self.reply
        if isinstance(reply, dict):
            return status, comparable(reply)
        if self.path != "/v1/messages" and self.path != "/v1/responses":
            assert reply.pop() == "[DONE]"
        events = [json.loads(line) for line in reply]
        events = [comparable(event) for event in events if "prompt_progress" not in event and event.get("type") != "ping"]
        # Events of several choices come in any order of the choices.
        events.sort(key=lambda event: event["choices"][0]["index"] if event.get("choices") else 1000)
        return status, events


def run_calls(server, requests, disturb=None):
    """(answers, seconds)."""
    calls = [Call(server, *request) for request in requests]
    begun = time.monotonic()
    for call in calls:
        call.start()
    if disturb:
        disturb(calls)
    for call in calls:
        call.join()
    return [call.answer() for call in calls], time.monotonic() - begun


def workers(server):
    return [worker["pid"] for worker in server.get("/v1/status").json["workers"] if worker["pid"]]


class Killer:
    """Kills a worker once or twice, after a share of the undisturbed time or a number of events of any stream."""

    def __init__(self, rng, server, taken_s, most_events):
        self.rng = rng
        self.server = server
        self.pids = workers(server)
        self.delay_s = 0.8 * rng.random() * taken_s
        self.events = rng.randrange(1, most_events) if most_events > 2 and rng.random() < 0.6 else None
        self.again_s = rng.random() * taken_s if rng.random() < 0.2 else None
        self.words = f"{self.events} events" if self.events else f"{1000 * self.delay_s:.0f} ms"

    def __call__(self, calls):
        ends_at = time.monotonic() + self.delay_s
        while any(call.is_alive() for call in calls):
            if self.events is None:
                if time.monotonic() >= ends_at:
                    break
            elif max(call.events for call in calls) >= self.events:
                break
            time.sleep(0.0005)
        self.kill(self.rng.choice(self.pids))
        if self.again_s is not None:
            time.sleep(self.again_s)
            for pid in workers(self.server):
                self.kill(pid)

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def without_alternatives(value):
    """The value without top_logprobs: rounding may change their order."""
    if isinstance(value, (list, tuple)):
        return [without_alternatives(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: without_alternatives(one) for name, one in value.items() if name != "top_logprobs"}


def difference(one, other, tolerance, path=""):
    """Where and how the values differ, or None. Floats may differ by the tolerance."""
    if type(one) is type(other) and isinstance(one, dict) and one.keys() == other.keys():
        found = (difference(one[name], other[name], tolerance, f"{path}.{name}") for name in one)
        return next(filter(None, found), None)
    if type(one) is type(other) and isinstance(one, (list, tuple)):
        found = (difference(*pair, tolerance, f"{path}[{at}]") for at, pair in enumerate(zip(one, other)))
        longer = None if len(one) == len(other) else f"{path}: {len(one)} and {len(other)} entries"
        return next(filter(None, found), longer)
    if one == other or (isinstance(one, float) and isinstance(other, float) and abs(one - other) <= tolerance):
        return None
    return f"{path}: {str(one)[:600]!r} is now {str(other)[:600]!r}"


def choice_of(event):
    return event["choices"][0]["index"] if event.get("choices") else None


def cut_at_errors(one, other):
    """Both answers. An error of one choice ends the stream of all, and how far the others are by then depends on timing: if both
    streams end so, the events of each choice are cut to the number that both have."""
    streams = [reply for _, reply in (one, other) if isinstance(reply, list) and reply and "error" in reply[-1]]
    if len(streams) < 2:
        return one, other
    counts = [collections.Counter(map(choice_of, events)) for events in streams]
    if len((counts[0] | counts[1]).keys() - {None}) < 2:
        return one, other
    cut = []
    for events in streams:
        left = counts[0] & counts[1]
        kept = []
        for event in events:
            if choice_of(event) is None or left[choice_of(event)] > 0:
                left[choice_of(event)] -= 1
                kept.append(event)
        cut.append(kept)
    return (one[0], cut[0]), (other[0], cut[1])


class Scene:
    def __init__(self, number, device):
        self.number = number
        self.device = device
        self.rng = random.Random(f"{SEED}:{device}:{number}")

    def draw(self, model):
        requests = []
        for _ in range(1 if self.device == "vulkan" else self.rng.choice([1, 2, 6])):
            request = replay_draws.draw_request(self.rng, model)
            if self.device == "vulkan":
                request = replay_draws.force(self.rng, model, *request) or request
                if request[0] == "/v1/messages":
                    continue
            requests.append(request)
        return requests

    def finish_bodies(self, server, requests):
        for path, body in requests:
            if path == "/v1/responses" and "previous_response_id" in body:
                first = server.request("POST", path, {"input": "Say it.", "max_output_tokens": 5, "temperature": 0})
                assert first.status == 200, first.body
                body["previous_response_id"] = first.json["id"]

    def run(self, server, model):
        """Number of requests, and of those that were answered."""
        requests = self.draw(model)
        if not requests:
            return 0, 0
        self.finish_bodies(server, requests)
        server.wait_ready(COMPILING_S)
        calm, taken_s = run_calls(server, requests)
        if self.rng.random() < 0.5:
            server.request("POST", "/v1/cache/reset")
        most_events = max(len(reply) if isinstance(reply, list) else 0 for _, reply in calm)
        killer = Killer(self.rng, server, taken_s, most_events)
        disturbed, _ = run_calls(server, requests, killer)
        if self.device == "vulkan":
            calm, disturbed = without_alternatives(calm), without_alternatives(disturbed)
        for request, one, other in zip(requests, calm, disturbed):
            changed = difference(*cut_at_errors(one, other), 0.05 if self.device == "vulkan" else 0)
            assert not changed, (
                f"{request[0]} differs after a kill at {killer.words} of {1000 * taken_s:.0f} ms and {most_events} events; again: "
                f"SHOAL_REPLAY_SEED={SEED} SHOAL_REPLAY_SCENE={self.number}, settings {' '.join(server.options)}, body "
                f"{json.dumps(request[1])[:3000]}\n{changed}")
        return len(requests), sum(status == 200 for status, _ in calm)


def run_scenes(device, draws, say):
    counts = {"requests": 0, "answered": 0, "scenes": 0, "replayed": 0, "deaths": 0, "preemptions": 0}
    scene = 0
    while counts["requests"] < draws:
        settings = random.Random(f"{SEED}:{device}:settings:{scene // SCENES_PER_SERVER}")
        model, options = replay_draws.draw_settings(settings, device)
        with ShoalServer(*options, "--pipeline-cache", str(ROOT / "build/cache/replay-kernels"), "--worker-timeout", str(COMPILING_S),
                         model=model.path) as server:
            server.wait_ready(COMPILING_S)
            for number in [int(ONE_SCENE)] if ONE_SCENE else range(scene, scene + SCENES_PER_SERVER):
                asked, answered = Scene(number, device).run(server, model)
                counts["requests"] += asked
                counts["answered"] += answered
                counts["scenes"] += 1
            server.wait_idle()
            values = server.metrics()
            counts["replayed"] += int(values["shoal_requests_replayed_total"])
            counts["deaths"] += int(values["shoal_worker_restarts_total"])
            counts["preemptions"] += int(values["vllm:num_preemptions_total"])
            assert values["shoal_requests_quarantined_total"] == 0
        scene += SCENES_PER_SERVER
        if ONE_SCENE:
            break
    say(f"seed {SEED}, {device}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return counts


def test_exact_replay(long_run, say):
    if ONE_SCENE:
        run_one_scene("cpu", say)
        return
    counts = run_scenes("cpu", int(os.environ.get("SHOAL_REPLAY_DRAWS", 2000 if long_run else 60)), say)
    assert counts["answered"] > 0.8 * counts["requests"]
    assert counts["replayed"] > 0.2 * counts["requests"]  # otherwise kills come too late


def run_one_scene(device, say):
    settings = random.Random(f"{SEED}:{device}:settings:{int(ONE_SCENE) // SCENES_PER_SERVER}")
    model, options = replay_draws.draw_settings(settings, device)
    with ShoalServer(*options, model=model.path) as server:
        server.wait_ready(COMPILING_S)
        say(f"{Scene(int(ONE_SCENE), device).run(server, model)}")


@pytest.mark.long
def test_exact_replay_on_vulkan(long_run, say):
    counts = run_scenes("vulkan", int(os.environ.get("SHOAL_REPLAY_DRAWS", 24 if long_run else 20)), say)
    assert counts["answered"] > 0.8 * counts["requests"]


def test_every_field_of_requests_is_drawn():
    document = json.loads((ROOT / "frontend/api/openapi.json").read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    rng = random.Random(1)
    for _ in range(400):
        replay_draws.draw_request(rng, replay_draws.DEMO)
    for path, schema in PATHS.items():
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body["$ref"].endswith("/" + schema)
        known = set(schemas[schema]["properties"])
        drawn = replay_draws.Body.drawn[schema]
        assert known - drawn - replay_draws.OTHER_FIELDS[schema] == set(), f"fields of {schema} that replay_draws.py neither draws nor names"
        assert (drawn | replay_draws.OTHER_FIELDS[schema]) - known == set(), f"fields that {schema} does not have"
        assert not drawn & replay_draws.OTHER_FIELDS[schema]
    rng = random.Random(2)
    forms = schemas["AnswerForm"]["anyOf"]
    known = {name for form in forms if "properties" in form for name in
             form["properties"]["type"].get("enum", [form["properties"]["type"].get("const")])}
    assert {replay_draws.response_form(rng)["type"] for _ in range(100)} == known


def test_every_option_of_the_server_is_drawn():
    command = [str(BUILD / "shoal"), "serve", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    known = set(re.findall(r"^  (--[a-z0-9-]+)", told, re.MULTILINE))
    drawn = replay_draws.DRAWN_OPTIONS
    assert known == drawn | replay_draws.OTHER_OPTIONS | replay_draws.FIXED_OPTIONS
    used = {"--model"}
    for number in range(300):
        used |= {word for word in replay_draws.draw_settings(random.Random(number), "cpu")[1] if word.startswith("--")}
    assert used == drawn
