"""Step costs of a model on this machine, and the comparison of scripts/bench/fleet_sim with a real server.

Costs are measured in a running server, by the sum of its steps that its metrics tell: prompts of one size that arrive alone, and decodes of one
batch while no other request runs. What a server adds to a step and to a request is what requests that run alone take beyond the time of their
steps. (build/step_bench repeats one step without pause; its times were up to a quarter longer or shorter than those of the same rows in a server.)

A comparison sends chats with build/shoal-load, whose saved start times and lengths are replayed in the simulator, with the prompts' tokens from
/tokenize, so that shared beginnings are found as the server finds them. Step costs are measured in another server before and after each load, and
their mean is used, because a shared machine's speed changes. A second line has all costs scaled so that the simulated steps take together as long as
the server says that its steps took: it judges schedule and queue alone.
"""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import http.client
import json
import pathlib
import platform
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy

import fleet_model
import fleet_router
import fleet_trace

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_MODEL = ROOT / "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
PATIENCE_S = 1800
PROMPT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512]
BATCHES = [1, 2, 4, 8, 16, 32]
SHORT, LONG = 128, 1024  # contexts of decodes, in the middle of their answers
LONG_BATCH = 8
TWICE = 512  # rows: a prompt of twice as many takes two steps, and its attention is the difference
REPEATS = 2  # of each prompt
DECODE_ANSWER = 96
POLL_S = 0.004
ROUNDS = 3  # of --measure
PROBES, PROBE_ANSWER = 8, 48
SYSTEMS, SYSTEM_WORDS = 4, 120  # of a comparison: beginnings that chats share
WORDS = ["river", "stone", "cloud", "garden", "silver", "window", "market", "yellow", "captain", "letter", "music", "winter", "bridge", "orange"]
ANSWERS = 48  # tokens of each answer
TOLERANCE = 0.10
EVERY_TOKEN = {"temperature": 0, "ignore_eos": True}


def mean(rounds):
    return {key: sum(one[key] for one in rounds) / len(rounds) for key in rounds[0]}


def fit(steps):
    """Costs from the times of measure_steps()."""
    decode_ns = (steps["long", LONG_BATCH] - steps["decode", LONG_BATCH]) * 1e6 / (LONG_BATCH * (LONG - SHORT))
    decode_ns = max(decode_ns, 0.0)
    batches = [one for one in BATCHES if one > 1]
    draws = numpy.array(batches, dtype=float) - 1
    logits_ms = prompt_ns = 0.0

    def plain(size):
        return steps["prompt", size] - prompt_ns * size * (size + 1) / 2 / 1e6
    for _ in range(3):
        # The second half of a prompt of 2 n rows sees n positions more with each row than a prompt of n, and the first draws nothing.
        prompt_ns = max((steps["prompt", 2 * TWICE] - 2 * steps["prompt", TWICE] + logits_ms) * 1e6 / TWICE ** 2, 0.0)
        # A decode of B rows draws B tokens, a prompt of B rows one.
        curve = [plain(size) for size in PROMPT_ROWS]
        extra = [steps["decode", one] - decode_ns * one * SHORT / 1e6 - numpy.interp(one, PROMPT_ROWS, curve) for one in batches]
        logits_ms = max(float(numpy.dot(draws, extra) / numpy.dot(draws, draws)), 0.0)

    def rows_time(size):
        """Steps of few rows are decodes, one after the other; a prompt of so few rows comes after a pause, which makes it slower."""
        if size in BATCHES:
            return steps["decode", size] - decode_ns * size * SHORT / 1e6 - logits_ms * size
        return plain(size) - logits_ms
    rows_ms = numpy.maximum.accumulate([rows_time(size) for size in PROMPT_ROWS])
    return fleet_model.Costs(rows=PROMPT_ROWS, rows_ms=[round(float(one), 4) for one in rows_ms], logits_ms=round(logits_ms, 4),
                             attention_ns=round(float(decode_ns), 2), prompt_attention_ns=round(float(prompt_ns), 2))


class Server:
    """A real server with the settings of the costs."""

    def __init__(self, arguments, costs):
        command = [ROOT / "build/shoal", "serve", "--model", arguments.model, "--device", arguments.device, "--port", "0", "--log-level", "warn",
                   "--threads", str(arguments.threads), "--max-sequences", str(costs.max_sequences), "--step-tokens", str(costs.step_tokens),
                   "--itl-target-ms", f"{costs.itl_target_ms:.0f}", "--speculation", "off", "--max-queue", "1000"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        found = re.match(r"listening on http://127\.0\.0\.1:(\d+)", self.process.stdout.readline().decode())
        if not found:
            sys.exit("fleet_sim: the server did not start")
        self.port = int(found[1])
        while self.request("GET", "/ready")[0] != 200:
            time.sleep(0.01)
        config = re.search(r"^vllm:cache_config_info\{.*num_gpu_blocks=\"(\d+)\"", self.request("GET", "/metrics")[1], re.M)
        self.kv_blocks = int(config[1])

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, json.dumps(body) if body else None)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()

    def tokens(self, messages):
        status, text = self.request("POST", "/tokenize", {"messages": messages})
        assert status == 200, text
        return json.loads(text)["tokens"]

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


@contextlib.contextmanager
def running(arguments, costs):
    server = Server(arguments, costs)
    try:
        yield server
    finally:
        server.stop()


def block_names(ids):
    """A name for each full block, which stands for all tokens up to its end."""
    return tuple(json.dumps(ids[:end]) for end in range(fleet_model.KV_BLOCK, len(ids) + 1, fleet_model.KV_BLOCK))


def draw_chats(seed, count):
    """Chats of random words; the first message is one of SYSTEMS."""
    draw = random.Random(seed)

    def words(number):
        return " ".join(draw.choice(WORDS) for _ in range(number))
    systems = [words(SYSTEM_WORDS) for _ in range(SYSTEMS)]
    return [[{"role": "system", "content": draw.choice(systems)}, {"role": "user", "content": words(draw.randint(10, 200))}] for _ in range(count)]


def send(server, chats, answer, *options):
    """Runs shoal-load over the chats; its saved result."""
    with tempfile.TemporaryDirectory() as folder:
        data, saved = pathlib.Path(folder, "chats.jsonl"), pathlib.Path(folder, "result.json")
        data.write_text("".join(json.dumps(one) + "\n" for one in chats), encoding="utf-8")
        subprocess.run([ROOT / "build/shoal-load", "--base-url", f"http://127.0.0.1:{server.port}", "--dataset", data, "--num-requests", str(len(chats)),
                        "--output-tokens", str(answer), "--extra-body", json.dumps(EVERY_TOKEN), "--save-result", saved, "--save-detailed",
                        "--fail-on-error", *options], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        return json.loads(saved.read_text(encoding="utf-8"))


def as_requests(server, chats, result):
    """The requests that shoal-load sent, as a trace."""
    requests = []
    for chat, start_s, prompt, answer in zip(chats, result["start_times"], result["input_lens"], result["output_lens"]):
        ids = server.tokens(chat)
        assert len(ids) == prompt, "the server counts other tokens than /tokenize"
        requests.append(fleet_trace.Request(start_s, prompt, answer, block_names(ids)))
    first_s = min(one.at_s for one in requests)
    return [dataclasses.replace(one, at_s=one.at_s - first_s) for one in requests]


def replay(requests, costs):
    return fleet_router.simulate(requests, costs, "round-robin", fleet_router.FleetOptions())


def simulated(outcome):
    """(tokens a second, mean TTFT, mean ITL) in seconds"""
    gaps = sum(gap * streams for gap, streams in outcome.gaps) / sum(streams for _, streams in outcome.gaps)
    return (sum(one.answer for one in outcome.done) / outcome.duration_s, sum(one.ttft_s for one in outcome.done) / len(outcome.done), gaps)


def measured(result):
    ends = [start + latency for start, latency in zip(result["start_times"], result["latencies"])]
    gaps = [gap for one in result["itls"] for gap in one]
    return (sum(result["output_lens"]) / (max(ends) - min(result["start_times"])), sum(result["ttfts"]) / len(result["ttfts"]), sum(gaps) / len(gaps))


def step_totals(server):
    """(steps, their seconds) since the server's start."""
    text = server.request("GET", "/metrics")[1]
    return [float(re.search(rf"^shoal_{name}\{{.*?\}} (\S+)", text, re.M)[1]) for name in ("worker_steps_total", "worker_step_seconds_total")]


# --- steps -----------------------------------------------------------------------------------------


def complete(server, prompt, answer):
    """Sends a prompt of token ids and waits for the whole answer."""
    status, text = server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": answer, **EVERY_TOKEN})
    assert status == 200, text


def prompt_ms(server, draw, ids, rows):
    """Time of the steps of a prompt of so many tokens that begins like no other."""
    times = []
    for _ in range(REPEATS):
        before = step_totals(server)[1]
        complete(server, draw.choices(ids, k=rows), 1)
        times.append(1e3 * (step_totals(server)[1] - before))
    return sum(times) / REPEATS


def decoding(server):
    running = json.loads(server.request("GET", "/v1/status")[1])["requests"]["running"]
    return sum(one["phase"] == "decode" for one in running)


def decode_ms(server, draw, ids, batch, context):
    """Mean time of the steps while `batch` streams decode, about `context` positions each."""
    prompts = [draw.choices(ids, k=context - DECODE_ANSWER // 2) for _ in range(batch)]
    for prompt in prompts:
        complete(server, prompt, 1)  # the prefix cache has it then, and all streams begin at once
    with concurrent.futures.ThreadPoolExecutor(batch) as pool:
        asked = [pool.submit(complete, server, prompt, DECODE_ANSWER) for prompt in prompts]
        first = last = None
        pause_s = POLL_S
        while not all(one.done() for one in asked):
            now = step_totals(server)
            if decoding(server) == batch:  # so they did at `now`, unless it was the first look
                first, last = first or step_totals(server), now
                pause_s *= 1.5  # few looks: each takes time of the processor whose steps are measured
            time.sleep(pause_s)
        for one in asked:
            one.result()
    steps = last[0] - first[0] if first else 0
    assert steps > 0, f"{batch} streams never decoded together"
    return 1e3 * (last[1] - first[1]) / steps


def measure_steps(server, seed):
    """Milliseconds: ("prompt", rows), ("decode", batch) at the short context, and ("long", LONG_BATCH) at the long one."""
    draw = random.Random(seed)
    ids = sorted(set(server.tokens([{"role": "user", "content": " ".join(WORDS)}])))
    complete(server, draw.choices(ids, k=TWICE), 8)  # memory and clocks are warm then
    steps = {("prompt", rows): prompt_ms(server, draw, ids, rows) for rows in [*PROMPT_ROWS, 2 * TWICE]}
    steps.update({("decode", batch): decode_ms(server, draw, ids, batch, SHORT) for batch in BATCHES})
    steps["long", LONG_BATCH] = decode_ms(server, draw, ids, LONG_BATCH, LONG)
    status, text = server.request("POST", "/v1/cache/reset")
    assert status == 200, text
    return steps


def time_beyond_steps(server, chats, answer):
    """(seconds of requests one after the other that no step took, steps)"""
    before = step_totals(server)
    result = send(server, chats, answer, "--concurrency", "1")
    steps, steps_s = (after - one for after, one in zip(step_totals(server), before))
    return sum(result["latencies"]) - steps_s, steps


def add_overheads(server, costs):
    """Sets step_ms and request_ms."""
    send(server, draw_chats(8, 2), 8, "--concurrency", "1")
    request_s = time_beyond_steps(server, draw_chats(6, PROBES), 1)[0] / PROBES
    beyond_s, steps = time_beyond_steps(server, draw_chats(7, PROBES), PROBE_ANSWER)
    costs.request_ms = round(max(request_s, 0.0) * 1e3, 4)
    costs.step_ms = round(max(beyond_s - PROBES * request_s, 0.0) / steps * 1e3, 4)


SETTINGS = fleet_model.Costs(rows=[1, 2], rows_ms=[1, 1], logits_ms=0, attention_ns=0)


def measured_words(arguments):
    return (f"{pathlib.Path(arguments.model).name}, {arguments.device}, {arguments.threads} threads, {platform.machine()}, "
            f"{datetime.date.today()}, fleet_sim --measure")


def complete_costs(server, steps, arguments):
    costs = fit(steps)
    costs.kv_blocks, costs.measured = server.kv_blocks, measured_words(arguments)
    add_overheads(server, costs)
    return costs


def measure(arguments):
    with running(arguments, SETTINGS) as server:
        costs = complete_costs(server, mean([measure_steps(server, one) for one in range(ROUNDS)]), arguments)
    pathlib.Path(arguments.measure).write_text(json.dumps(dataclasses.asdict(costs), indent=1) + "\n", encoding="utf-8")
    print(json.dumps(dataclasses.asdict(costs)))


def capacity(server, costs, count):
    """Requests a second if all arrive at once, simulated."""
    chats = draw_chats(9, count)
    requests = []
    for chat in chats:
        ids = server.tokens(chat)
        requests.append(fleet_trace.Request(0.0, len(ids), ANSWERS, block_names(ids)))
    return count / replay(requests, costs).duration_s


def compare(name, real, model):
    """Prints both; the largest deviation."""
    worst, cells = 0.0, []
    for (unit, scale), one, other in zip((("tokens/s", 1), ("ms TTFT", 1e3), ("ms ITL", 1e3)), real, model):
        deviation = other / one - 1
        worst = max(worst, abs(deviation))
        cells.append(f"{one * scale:8.1f} {other * scale:8.1f} {100 * deviation:+6.1f} % {unit}")
    print(f"{name:12} " + " | ".join(cells), flush=True)
    return worst


def scaled(costs, factor):
    """The costs of a machine whose steps take `factor` times as long."""
    return dataclasses.replace(costs, rows_ms=[one * factor for one in costs.rows_ms], logits_ms=costs.logits_ms * factor,
                               attention_ns=costs.attention_ns * factor, prompt_attention_ns=costs.prompt_attention_ns * factor)


def at_same_speed(requests, costs, steps_s):
    """(costs, factor) with which the simulated steps take steps_s in all. How rows are grouped into steps depends on the costs: two rounds."""
    factor = 1.0
    for _ in range(3):
        outcome = replay(requests, scaled(costs, factor))
        factor *= steps_s / (outcome.busy[0] - outcome.steps * costs.step_ms / 1e3)
    return scaled(costs, factor), factor


def run_load(arguments, costs, share, number):
    """(result of shoal-load, requests, seconds of steps, rate) of one load at a new server, whose prefix cache is empty and whose schedule has
    learned nothing yet, as the simulated one's."""
    with running(arguments, costs) as server:
        rate = share * capacity(server, costs, arguments.requests) if share < float("inf") else share
        chats = draw_chats(100 + number, arguments.requests)
        before = step_totals(server)
        result = send(server, chats, ANSWERS, "--request-rate", f"{rate}", "--seed", str(number + 1))
        return result, as_requests(server, chats, result), step_totals(server)[1] - before[1], rate


def validate(arguments):
    """Exit status: 0 if throughput, mean TTFT and mean ITL of every load are within TOLERANCE. One server is measured between the loads of others."""
    worst = worst_scaled = 0.0
    with running(arguments, SETTINGS) as server:
        rounds = [measure_steps(server, 0)]
        costs = complete_costs(server, rounds[0], arguments)
        print(f"step costs: {costs.measured}\n{arguments.requests} requests of {ANSWERS} tokens a load; each cell: measured, simulated, deviation",
              flush=True)
        for number, share in enumerate([*map(float, arguments.rates.split(",")), float("inf")]):
            result, requests, steps_s, rate = run_load(arguments, costs, share, number)
            rounds.append(measure_steps(server, number + 1))
            costs = complete_costs(server, mean(rounds[-2:]), arguments)
            name = "all at once" if share == float("inf") else f"{100 * share:.0f} %, {rate:.2f}/s"
            worst = max(worst, compare(name, measured(result), simulated(replay(requests, costs))))
            same_speed, factor = at_same_speed(requests, costs, steps_s)
            worst_scaled = max(worst_scaled, compare(f" times {factor:.2f}", measured(result), simulated(replay(requests, same_speed))))
    print(f"largest deviation {100 * worst:.1f} %, at the same speed {100 * worst_scaled:.1f} %")
    return 0 if worst <= TOLERANCE else 1
