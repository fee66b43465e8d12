"""fleet_sim: hand-computed cases of the simulated server, conservation, policies, traces; and that a real server can be compared."""

import ctypes
import dataclasses
import json
import re
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts/bench"))
import fleet_measure  # noqa: E402
import fleet_model  # noqa: E402
import fleet_router  # noqa: E402
import fleet_trace  # noqa: E402
from fleet_router import FleetOptions, simulate  # noqa: E402
from fleet_trace import Request  # noqa: E402

PROGRAM = REPOSITORY / "scripts/bench/fleet_sim"
# A row takes 1 ms, and nothing else takes time.
PLAIN = fleet_model.Costs(rows=[1, 512], rows_ms=[1.0, 512.0], logits_ms=0.0, attention_ns=0.0)


def run_one(requests, costs=PLAIN, **options):
    return simulate(requests, costs, "round-robin", FleetOptions(**options))


def seconds(*milliseconds):
    return pytest.approx([one / 1000 for one in milliseconds], abs=1e-9)


def test_the_structs_are_those_of_the_worker(tmp_path):
    shapes = {"step_pace": fleet_model.StepPace, "chunk_pace": fleet_model.ChunkPace, "step_cost": fleet_model.StepCost,
              "chunk_request": fleet_model.ChunkRequest}
    lines = [f'printf("{name} {field} %zu\\n", offsetof(struct {name}, {field}));' for name, shape in shapes.items() for field, _ in shape._fields_]
    lines += [f'printf("{name} - %zu\\n", sizeof(struct {name}));' for name in shapes]
    source = tmp_path / "layout.c"
    source.write_text('#include <stddef.h>\n#include <stdio.h>\n#include "worker/schedule/step_pace.h"\nint main(void)\n{\n' + "\n".join(lines) + "\n}\n",
                      encoding="ascii")
    subprocess.run(["gcc", "-I", REPOSITORY, source, "-o", tmp_path / "layout"], check=True, timeout=PATIENCE_S)
    printed = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    for name, field, at in (line.split() for line in printed.splitlines()):
        shape = shapes[name]
        assert int(at) == (ctypes.sizeof(shape) if field == "-" else getattr(shape, field).offset), (name, field)


# --- one server, by hand ---------------------------------------------------------------------------------------------


def test_a_request_alone():
    """A prompt of 48 rows is one step of 48 ms; each further token is a step of one row."""
    costs = dataclasses.replace(PLAIN, request_ms=5.0)
    done = run_one([Request(1.0, 48, 4)], costs).done[0]
    assert [done.first_s, done.end_s] == seconds(1053, 1056)
    assert (done.ttft_s, done.tpot_s) == (pytest.approx(0.053), pytest.approx(0.001))


def test_each_part_of_a_step_has_its_cost():
    """Rows 16 ms, one draw 2 ms, positions 1 + 2 + ... + 16 = 136 at 1 us; then a row that sees 17 at 2 us."""
    costs = dataclasses.replace(PLAIN, logits_ms=2.0, attention_ns=2000.0, prompt_attention_ns=1000.0, step_ms=0.5)
    outcome = run_one([Request(0.0, 16, 2)], costs)
    assert outcome.done[0].first_s == pytest.approx(0.0185 + 0.000136)
    assert outcome.gaps == [(pytest.approx(0.0035 + 0.000034), 1)]


def test_a_prompt_joins_the_streams_that_decode():
    """The first decodes alone until 20 ms; then one step computes its row and the 16 of the second."""
    outcome = run_one([Request(0.0, 16, 30), Request(0.0195, 16, 1)])
    first, second = outcome.done
    assert [first.first_s, second.first_s] == seconds(16, 37)
    assert first.end_s == pytest.approx(0.016 + 0.001 * 28 + 0.017)
    assert sorted(outcome.gaps)[-1] == (pytest.approx(0.017), 1)


def test_only_so_many_run_at_once():
    costs = dataclasses.replace(PLAIN, max_sequences=1)
    first, second = run_one([Request(0.0, 16, 5), Request(0.0, 16, 5)], costs).done
    assert [first.end_s, second.first_s] == seconds(20, 36)


def test_a_shared_beginning_is_computed_once():
    requests = [Request(0.0, 40, 1, ("a", "b")), Request(1.0, 40, 1, ("a", "b")), Request(2.0, 40, 1, ("a", "x"))]
    done = run_one(requests).done
    assert [one.cached for one in done] == [0, 32, 16]
    assert [one.ttft_s for one in done] == seconds(40, 8, 24)
    assert [one.cached for one in run_one(requests, dataclasses.replace(PLAIN, prefix_cache=False)).done] == [0, 0, 0]


def test_one_token_of_a_cached_prompt_is_left_to_compute():
    done = run_one([Request(0.0, 32, 1, ("a", "b")), Request(1.0, 32, 1, ("a", "b"))]).done
    assert done[1].cached == 16 and done[1].ttft_s == pytest.approx(0.016)


def test_an_answer_is_found_by_the_next_turn():
    """40 + 9 tokens fill three blocks, the last of them with the answer; the last token is never computed."""
    turns = [Request(0.0, 40, 9, ("a", "b"), ("c",)), Request(1.0, 64, 1, ("a", "b", "c", "d"))]
    assert [one.cached for one in run_one(turns).done] == [0, 48]


def test_the_end_of_a_prefix_is_evicted_first():
    """Four blocks of memory. The second request needs three, so one of the first's three idle ones stays: its first."""
    costs = dataclasses.replace(PLAIN, kv_blocks=4)
    requests = [Request(0.0, 48, 1, ("a", "b", "c")), Request(1.0, 48, 1, ("x", "y", "z")), Request(2.0, 48, 1, ("a", "b", "c"))]
    assert [one.cached for one in run_one(requests, costs).done] == [0, 0, 16]


def test_the_youngest_is_preempted_and_goes_on():
    """Four blocks: two prompts of 16 take two, their first 16 tokens of answers two more; at position 32 both need another one."""
    costs = dataclasses.replace(PLAIN, kv_blocks=4)
    outcome = run_one([Request(0.0, 16, 30), Request(0.0, 16, 30)], costs)
    assert outcome.preemptions >= 1
    assert outcome.done[0].end_s < outcome.done[1].end_s
    assert sum(streams for _, streams in outcome.gaps) == 2 * 29


def test_a_request_beyond_the_memory_is_refused():
    assert run_one([Request(0.0, 100, 100), Request(0.0, 16, 1)], dataclasses.replace(PLAIN, kv_blocks=8)).refused == 1


# --- fleets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", fleet_router.POLICIES)
def test_nothing_is_lost_and_a_seed_repeats(policy):
    shape = fleet_trace.Shape(rate=3, seconds=20, systems=3, system_tokens=96, question_tokens=40, answer_tokens=20, pause_s=2)
    costs = dataclasses.replace(PLAIN, kv_blocks=60, rows_ms=[1.0, 100.0])
    runs = [simulate(fleet_trace.generate(shape, seed, 16), costs, policy, FleetOptions(3)) for seed in (5, 5, 6)]
    assert runs[0].done == runs[1].done != runs[2].done
    requests = fleet_trace.generate(shape, 5, 16)
    assert len(requests) == len(runs[0].done) + runs[0].refused > 60
    by_number = {one.number: one for one in runs[0].done}
    for number, request in enumerate(requests):
        if number in by_number:
            one = by_number[number]
            assert (one.at_s, one.prompt, one.answer) == (request.at_s, request.prompt, request.answer)
            assert request.at_s < one.first_s <= one.end_s and 0 <= one.cached < request.prompt
    assert sum(streams for _, streams in runs[0].gaps) == sum(one.answer - 1 for one in runs[0].done)
    assert all(busy <= runs[0].duration_s for busy in runs[0].busy)


def placed(requests, policy, servers=2):
    return [one.server for one in simulate(requests, PLAIN, policy, FleetOptions(servers)).done]


def test_round_robin_takes_turns():
    assert placed([Request(i, 16, 1) for i in range(6)], "round-robin") == [0, 1, 0, 1, 0, 1]


def test_least_loaded_avoids_the_busy_one():
    requests = [Request(0.0, 500, 200), Request(0.1, 16, 1), Request(0.2, 16, 1), Request(0.3, 16, 1)]
    assert placed(requests, "least-loaded") == [0, 1, 1, 1]


def test_prefix_aware_keeps_what_belongs_together():
    requests = [Request(i / 2, 40, 1, ("ab"[i % 3 == 0], i)) for i in range(12)]
    where = placed(requests, "prefix-aware")
    assert len({where[i] for i in range(12) if i % 3 == 0}) == 1 and len({where[i] for i in range(12) if i % 3}) == 1


def test_more_servers_wait_less():
    requests = fleet_trace.generate(fleet_trace.Shape(rate=4, seconds=30), 3, 16)
    waits = [sum(one.ttft_s for one in run_one(requests, servers=count).done) for count in (1, 2, 8)]
    assert waits[0] > waits[1] > waits[2]


# --- traces and costs ------------------------------------------------------------------------------------------------


def test_a_written_trace_is_read_again(tmp_path):
    requests = fleet_trace.generate(fleet_trace.Shape(seconds=20), 9, 16)
    fleet_trace.write(tmp_path / "trace.jsonl", requests)
    again = fleet_trace.read(tmp_path / "trace.jsonl", 16)
    assert [dataclasses.replace(one, at_s=0) for one in again] == [dataclasses.replace(one, at_s=0) for one in requests]
    assert [one.at_s for one in again] == pytest.approx([one.at_s for one in requests], abs=1e-6)


@pytest.mark.parametrize("line, words", [
    ("[]", "not an object"), ("{", "not JSON"), ('{"timestamp": -1}', "timestamp"), ('{"timestamp": 0, "input_length": 0}', "input_length"),
    ('{"timestamp": 0, "input_length": 5, "output_length": 1.5}', "output_length"),
    ('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [[]]}', "hash_ids"),
    ('{"timestamp": 0, "input_length": 5, "output_length": 1}', "earlier"), ("", "no request")])
def test_a_broken_trace_is_refused(tmp_path, line, words):
    path = tmp_path / "trace.jsonl"
    first = '{"timestamp": 9, "input_length": 5, "output_length": 1}\n' if words == "earlier" else ""
    path.write_text(first + line + "\n", encoding="utf-8")
    with pytest.raises(fleet_trace.TraceError, match=words):
        fleet_trace.read(path, 512)


def test_the_fit_finds_the_costs_that_made_the_times():
    made = fleet_model.Costs(rows=fleet_measure.PROMPT_ROWS, rows_ms=[3 + 0.7 * one for one in fleet_measure.PROMPT_ROWS], logits_ms=0.4,
                             attention_ns=300.0, prompt_attention_ns=200.0)
    steps = {("prompt", one): 1e3 * made.step_s(one, 1, 0, one * (one + 1) // 2) for one in fleet_measure.PROMPT_ROWS}
    steps |= {("decode", one): 1e3 * made.step_s(one, one, one * fleet_measure.SHORT, 0) for one in fleet_measure.BATCHES}
    half = fleet_measure.TWICE
    seen = half * (half + 1) // 2
    steps["prompt", 2 * half] = 1e3 * (made.step_s(half, 0, 0, seen) + made.step_s(half, 1, 0, half * half + seen))
    size = fleet_measure.LONG_BATCH
    steps["long", size] = 1e3 * made.step_s(size, size, size * fleet_measure.LONG, 0)
    found = fleet_measure.fit(steps)
    assert found.rows_ms == pytest.approx(made.rows_ms, rel=0.02)
    assert (found.logits_ms, found.attention_ns, found.prompt_attention_ns) == pytest.approx((0.4, 300, 200), rel=0.05)


def run_program(*arguments, code=0):
    done = subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_public_trace_gives_a_table(tmp_path):
    """Lines as in Mooncake's traces: blocks of 512 tokens."""
    (tmp_path / "costs.json").write_text(json.dumps(dataclasses.asdict(PLAIN)), encoding="utf-8")
    (tmp_path / "trace.jsonl").write_text("".join(
        json.dumps({"timestamp": 3000 * i, "input_length": 1100, "output_length": 20, "hash_ids": [46, 47, 48 + i]}) + "\n" for i in range(8)),
        encoding="utf-8")
    text = run_program("--costs", tmp_path / "costs.json", "--trace", tmp_path / "trace.jsonl", "--servers", "1,2", "--json", tmp_path / "out.json")
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [(row["servers"], row["policy"]) for row in rows] == [(count, name) for count in (1, 2) for name in fleet_router.POLICIES]
    assert rows[0]["cached_share"] == pytest.approx(7 * 1024 / (8 * 1100)) and "prefix-aware" in text
    assert "no step costs" in run_program("--costs", tmp_path / "trace.jsonl", code=1)


@pytest.mark.long
def test_a_real_server_is_compared():
    """Whether it is within 10 % depends on the machine; here only that the same requests are counted and replayed."""
    done = subprocess.run([sys.executable, PROGRAM, "--validate", "--requests", "6", "--rates", "0.5", "--model", REPOSITORY / "tests/model/demo"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    cells = [float(one) for one in re.findall(r"([+-][\d.]+) %", done.stdout)]
    assert len(cells) == 12, done.stdout
    assert all(abs(one) < 80 for one in cells[3:6] + cells[9:12]), done.stdout
